-- Creating, changing and dropping outboxes.
select no_plan();

select is(baton.create_outbox('order_events')::text, 'order_events', 'an outbox is a table of that name');
select is((select array_agg(attname::text order by attnum) from pg_attribute where attrelid = 'order_events'::regclass and attnum > 0),
    '{xid,id,event_id,tenant_id,aggregate_type,aggregate_id,event_type,schema_version,topic,partition_key,payload,headers,trace_id,correlation_id,causation_id,idempotency_key,occurred_at,available_at}'::text[],
    'its columns stand in the documented order');
select col_type_is('order_events', 'payload', 'jsonb', 'the payload is jsonb unless told otherwise');
select throws_ok($$ select baton.create_outbox('order_events') $$, '42710', null, 'a second one of the name is refused');
select lives_ok($$ select baton.create_outbox('order_events', if_not_exists => true) $$, 'unless asked not to mind');
select is((select count(*)::int from baton.outbox_status('order_events')), 1, 'its status is one row');
select is((select count(*)::int from baton.outbox_status()), 1, 'and so is that of all of them');

create schema shop;
select is(baton.create_outbox('shop.order_events')::text, 'shop.order_events', 'two schemas may have one of the same name');
select is(baton.create_outbox('in_shop', schema => 'shop')::text, 'shop.in_shop', 'the schema can be given apart');
select baton.publish('shop.order_events', 't', '{}');
select is((select count(*)::int from order_events), 0, 'a qualified name means that one');
select is((select count(*)::int from shop.order_events), 1, 'and no other');
set search_path = shop, public;
select is(baton.publish('order_events', 't', '{}'), 2::bigint, 'an unqualified name is found by search path');
reset search_path;

select lives_ok(format('select baton.create_outbox(%L)', '"Order Events"'), 'a quoted name is a name');
select throws_ok($$ select baton.create_outbox('a; drop table order_events') $$, '42602', null, 'a semicolon is no part of a name');
select throws_ok($$ select baton.create_outbox('it''s') $$, '42602', null, 'nor is a quote');
select throws_ok($$ select baton.create_outbox('a"b') $$, '42602', null, 'nor half a quoted one');
select throws_ok($$ select baton.create_outbox('a.b.c') $$, '42602', null, 'three parts are too many');
select throws_ok($$ select baton.create_outbox('') $$, '22023', null, 'an empty name is refused');
select throws_ok($$ select baton.create_outbox(null) $$, '22023', null, 'and so is none');
select throws_ok(format('select baton.create_outbox(%L)', repeat('x', 200)), '42622', null, 'a name is never cut');
select throws_ok($$ select baton.create_outbox('nowhere.events') $$, '3F000', null, 'the schema must be there');
select throws_ok($$ select baton.create_outbox('p', payload_type => 'xml') $$, '22023', null, 'a payload type that is none');
select throws_ok($$ select baton.create_outbox('p', partition_interval => '-1 day') $$, '22023', null, 'a negative interval');
select throws_ok($$ select baton.create_outbox('p', ordered => null) $$, '22004', null, 'a null where there is no third way');
create table plain_table (n int);
select throws_ok($$ select baton.create_outbox('plain_table') $$, '42710', null, 'a table that is there is not taken over');
select throws_ok($$ select baton.publish('plain_table', 't', '{}') $$, null, null, 'and cannot be published into');
select throws_ok($$ select baton.create_consumer_group('g', 'plain_table') $$, '42704', null, 'nor polled');
select throws_ok($$ select baton.publish('not_there', 't', '{}') $$, '42P01', null, 'an unknown outbox');
select throws_ok($$ select * from baton.outbox_status('not_there') $$, '42P01', null, 'has no status');

select is(baton.create_outbox(repeat('a', 49) || '_1')::text, repeat('a', 49) || '_1', 'a long name ...');
select throws_ok(format('select baton.create_outbox(%L)', repeat('a', 50) || '_23'), '42622', null, 'leaves room for its partitions, or is refused');

select lives_ok($$ select baton.alter_outbox('order_events', retention => '2 hours', archive_for => '1 day') $$, 'options can be changed');
select is((select (retention, archive_for)::text from baton.outboxes where relation = 'order_events'::regclass), '(02:00:00,"1 day")', 'and are');
select lives_ok($$ select baton.alter_outbox('order_events', reset => '{retention}') $$, 'and be set back');
select is((select (retention, archive_for)::text from baton.outboxes where relation = 'order_events'::regclass), '(,"1 day")', 'the others stay');
select lives_ok($$ select baton.alter_outbox('order_events', notify_channel => 'new-orders') $$, 'others may be notified');
select is((select notify_channel from baton.outboxes where relation = 'order_events'::regclass), 'new-orders', 'which is kept');
select has_trigger('order_events', 'baton_notify', 'by a trigger');
select lives_ok($$ select baton.alter_outbox('order_events', notify_channel => 'others'), baton.alter_outbox('order_events', reset => '{notify_channel}') $$, 'elsewhere, or not any more');
select hasnt_trigger('order_events', 'baton_notify', 'then it costs nothing');
select throws_ok(format($$ select baton.alter_outbox('order_events', notify_channel => %L) $$, channel), '22023', null, 'a channel is not called so: ' || channel)
  from unnest(array['', repeat('x', 64), 'baton_alert']) channel;
select throws_ok($$ select baton.alter_outbox('order_events', retention => '-1 hour') $$, '22023', null, 'to nonsense they cannot');

select baton.create_consumer_group('mail', 'order_events');
select throws_ok($$ select baton.drop_outbox('order_events') $$, '2BP01', null, 'an outbox with groups is not dropped by accident');
select is(baton.drop_outbox('order_events', cascade => true), true, 'but on demand');
select hasnt_table('order_events', 'its table is gone');
select is((select count(*)::int from baton.consumer_groups where group_name = 'mail'), 0, 'and its groups');
select is(baton.drop_outbox('order_events', if_exists => true), false, 'dropping it again can be asked for');
select throws_ok($$ select baton.drop_outbox('order_events') $$, '42P01', null, 'or be an error');
select is((select count(*)::int from baton.audit_trail where action = 'drop_outbox'), 1, 'the drop is on record');

update baton.jobs set enabled = false;  -- nobody but this test maintains anything
select baton.create_outbox('gone');
select baton.create_consumer_group('behind', 'gone');
drop table gone;
select throws_ok($$ select * from baton.poll_outbox('behind', 'c') $$, '42P01', null, 'a table dropped behind our back is named as such');
call baton.run_maintenance();
select ok(maintained_at > now() - interval '1 minute' and maintenance_error is null, 'and does not stop maintenance')
  from baton.outboxes where exists (select from pg_class where oid = relation) order by outbox_id limit 1;
select lives_ok($$ select * from baton.consumer_lag() $$, 'nor lag');

select * from finish();
