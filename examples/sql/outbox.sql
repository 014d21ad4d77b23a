-- An outbox in plain SQL: publish in your transaction, read as a member of a group.
--   psql -v ON_ERROR_STOP=1 -f examples/sql/outbox.sql

create table shipments (id int primary key, parcel text);
select baton.create_outbox('shipment_events');
select baton.create_consumer_group('couriers', 'shipment_events', 'earliest');

-- The change and its event commit together. A plain insert does as well as the function.
begin;
insert into shipments values (1, 'books'), (2, 'a lamp');
select baton.publish('shipment_events', 'shipment.ready', '{"shipment": 1}'::jsonb, 'shipment', '1');
insert into shipment_events (event_type, aggregate_id, payload) values ('shipment.ready', '2', '{"shipment": 2}');
commit;

-- A change that is rolled back leaves no event.
begin;
select baton.publish('shipment_events', 'shipment.ready', '{"shipment": 3}'::jsonb);
rollback;

-- Take a lease on what there is. Whoever dies with it loses it after 30 seconds, and another gets the same.
create temp table taken as select * from baton.poll_outbox('couriers', 'courier-1', 100, 30);
select id, event_type, payload from taken;

-- One fails and is tried again later, by the group's backoff; the other is settled.
select id, state from baton.fail_events('couriers', 'courier-1', array[2]::bigint[], 'nobody at home',
                                        lease_token => (select lease_token from taken limit 1));
select baton.commit_offset('couriers', 'courier-1', 1, (select lease_token from taken limit 1));

-- Where the work is in this database too, do it in one transaction with the settling: then it happens exactly once. Settle with
-- commit_events(), which settles all that was handled or, when the lease was lost meanwhile, raises BT001 and undoes the work.
insert into shipment_events (event_type, aggregate_id, payload) values ('shipment.ready', '4', '{"shipment": 4}');
create table visits (shipment int);
begin;
create temp table batch on commit drop as select * from baton.poll_outbox('couriers', 'courier-1');
insert into visits select (payload ->> 'shipment')::int from batch;
select baton.commit_events('couriers', 'courier-1', array_agg(id), min(lease_token::text)::uuid) from batch;
commit;
select * from visits;
