-- Publishing: an event is one insert.
select no_plan();
select baton.create_outbox('events');

select is(baton.publish('events', 'order.placed', '{"n": 1}'), 1::bigint, 'publish returns the id');
select is(baton.publish('events', 'order.placed', jsonb_build_object('n', 2), 'order', 'o1'), 2::bigint, 'a jsonb value goes as it is');
insert into events (event_type, payload) values ('plain', '{"n": 3}');
copy events (event_type, payload) from stdin;
copied	{"n": 4}
copied	{"n": 5}
\.
select is((select array_agg((payload ->> 'n')::int order by id) from events), '{1,2,3,4,5}', 'publish, insert and copy end up alike');
select ok(bool_and(substr(event_id::text, 15, 1) = '7' and xid is not null and occurred_at <= clock_timestamp()), 'with id, time and transaction')
  from events;
select is((select (aggregate_type, aggregate_id)::text from events where id = 2), '(order,o1)', 'the third and fourth argument are the aggregate');
select throws_ok($$ insert into events (id, event_type) values (99, 'x') $$, '428C9', null, 'nobody chooses an id');

select is((select array_agg(i order by o) from baton.publish_many('events', '[{"event_type":"a","payload":1,"aggregate_id":"x"},{"event_type":"b"},{"event_type":"c","headers":{"h":1}}]') with ordinality as t (i, o)),
          '{6,7,8}'::bigint[], 'many events in one call');
select is((select array_agg(event_type order by id) from events where id > 5), '{a,b,c}', 'in the order given');
select throws_ok($$ select baton.publish_many('events', '{}') $$, '22023', null, 'they must be an array');
select throws_ok($$ select baton.publish_many('events', '[{"payload":1}]') $$, '22004', null, 'of objects with an event type');
select throws_ok($$ select baton.publish('events', null, '{}') $$, '22004', null, 'an event has a type');
select throws_ok($$ select baton.publish('events', 'x', 'not json') $$, '22P02', null, 'JSON is JSON');
select is((select count(*)::int from events), 8, 'none of these left anything');

select is(baton.publish('events', 'once', '{}', idempotency_key => 'k1'), 9::bigint, 'an idempotency key ...');
select is(baton.publish('events', 'once', '{}', idempotency_key => 'k1'), 9::bigint, '... publishes once and gives the first id again');
insert into events (event_type, idempotency_key) values ('once', 'k1');
select is((select count(*)::int from events where idempotency_key = 'k1'), 1, 'a plain insert keeps it too');
select is((select array_agg(i order by o) from baton.publish_many('events', '[{"event_type":"a","idempotency_key":"k1"},{"event_type":"a","idempotency_key":"k2"}]') with ordinality as t (i, o))[1],
          9::bigint, 'and so do many');
update baton_internal.idempotency_keys set expires_at = now() - interval '1 second' where key = 'k1';
select isnt(baton.publish('events', 'once', '{}', idempotency_key => 'k1'), 9::bigint, 'after its window it is free');
begin;
select baton.publish('events', 'once', '{}', idempotency_key => 'k3');
rollback;
select is((select count(*)::int from events where idempotency_key = 'k3'), 0, 'a rolled back one ...');
select baton.publish('events', 'once', '{}', idempotency_key => 'k3');
select is((select count(*)::int from events where idempotency_key = 'k3'), 1, '... can be used again');

select baton.create_outbox('bytes', payload_type => 'bytea');
select lives_ok($$ select baton.publish('bytes', 't', '\x00ff'::bytea) $$, 'a binary outbox takes bytes');
select is((select payload from bytes), '\x00ff'::bytea, 'and keeps them');
select throws_ok($$ select baton.publish('bytes', 't', '{}'::jsonb) $$, '42804', null, 'but no JSON');
select baton.create_outbox('texts', payload_type => 'text');
select baton.publish('texts', 't', 'hello "you"');
select is((select payload from texts), 'hello "you"', 'a text outbox keeps text');
select baton.create_outbox('jsons', payload_type => 'json');
select baton.publish('jsons', 't', '{"b":1,"a":2}');
select is((select payload ->> 'a' from jsons), '2', 'a json outbox takes JSON');
select throws_ok($$ select baton.publish('events', 't', '\x00'::bytea) $$, '42804', null, 'bytes do not fit a JSON outbox');

select baton.create_consumer_group(o || '_group', o, 'earliest') from unnest('{bytes,texts,jsons}'::text[]) o;
select is((select (payload_bytes, payload)::text from baton.poll_outbox('bytes_group', 'c')), '("\\x00ff","""AP8=""")', 'bytes come back as bytes, and as base64');
select is((select payload #>> '{}' from baton.poll_outbox('texts_group', 'c')), 'hello "you"', 'text comes back as a JSON string');
select is((select payload ->> 'b' from baton.poll_outbox('jsons_group', 'c')), '1', 'json comes back as jsonb');

select baton.set_setting('outbox_enabled', 'off');
select throws_ok($$ select baton.publish('events', 't', '{}') $$, 'BT005', null, 'publishing can be switched off');
select baton.set_setting('outbox_enabled', 'on');
select lives_ok($$ select baton.publish('events', 't', '{}') $$, 'and on');

select * from finish();
