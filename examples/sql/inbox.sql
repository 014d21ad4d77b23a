-- An inbox in plain SQL: a message comes in once, and is handled in one transaction with its row.
--   psql -v ON_ERROR_STOP=1 -f examples/sql/inbox.sql

create table stock (item text primary key, pieces int not null);
insert into stock values ('lamp', 10);
select baton.create_inbox('deliveries');

-- A redelivery is recognised, now and after the message itself is gone.
select baton.receive('deliveries', 'd-1', 'stock.delivered', '{"item": "lamp", "pieces": 5}') as outcome;
select baton.receive('deliveries', 'd-1', 'stock.delivered', '{"item": "lamp", "pieces": 5}') as outcome;
select baton.receive('deliveries', 'd-2', 'stock.delivered', '{"item": "chair"}') as outcome;

-- Claim, for 30 seconds.
create temp table claimed as select * from baton.claim_inbox('deliveries', 'worker-1', 10, 30);

-- Handle and complete: both, or neither. complete() raises BT001 when the lease was lost, and so undoes the work.
begin;
update stock set pieces = stock.pieces + (c.payload ->> 'pieces')::int
  from claimed c where c.event_id = 'd-1' and stock.item = c.payload ->> 'item';
select baton.complete('deliveries', 'd-1', (select lease_token from claimed limit 1));
commit;

-- What can never succeed becomes a dead letter, and is replayed when somebody has mended the cause.
select baton.fail('deliveries', 'd-2', 'no pieces in it', true, (select lease_token from claimed limit 1));
select event_id, error from dlq_deliveries;
select baton.replay_inbox_messages('deliveries', array['d-2']);
select item, pieces from stock;
