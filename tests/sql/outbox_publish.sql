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

-- a key belongs to its tenant
select isnt(baton.publish('events', 'once', '{}', tenant_id => 'a', idempotency_key => 'b:c'),
            baton.publish('events', 'once', '{}', tenant_id => 'a:b', idempotency_key => 'c'), 'however tenant and key are cut, they are two');
select isnt(baton.publish('events', 'once', '{}', tenant_id => 'a', idempotency_key => 'k4'),
            baton.publish('events', 'once', '{}', idempotency_key => 'a:k4'), 'a tenant''s key is none of those without a tenant');
select isnt(baton.publish('events', 'once', '{}', tenant_id => 'a', idempotency_key => 'k5'),
            baton.publish('events', 'once', '{}', idempotency_key => 'k5'), 'nor is the same key');
select is(baton.publish('events', 'once', '{}', tenant_id => 'a', idempotency_key => 'k4'), (select id from events where tenant_id = 'a' and idempotency_key = 'k4'), 'within a tenant it publishes once');
select is(baton.publish('events', 'once', '{}', idempotency_key => 'k5'), (select id from events where tenant_id is null and idempotency_key = 'k5'), 'and without one');
select is((select array_agg((tenant_id, idempotency_key)::text order by id) from events where tenant_id is not null or idempotency_key like 'a:%' or idempotency_key = 'k5'),
          '{"(a,b:c)","(a:b,c)","(a,k4)","(,a:k4)","(a,k5)","(,k5)"}', 'all of them are in the log');
insert into events (event_type, idempotency_key) values ('unkeyed', ''), ('unkeyed', '');
select is((select count(*)::int from events where event_type = 'unkeyed' and idempotency_key is null), 2, 'an empty key is none');

-- an aggregate's id as drivers send it
prepare by_text (text, text, jsonb, text, text) as select baton.publish($1, $2, $3, $4, $5);
prepare by_varchar (varchar, varchar, varchar, varchar, varchar) as select baton.publish($1, $2, $3, $4, $5);
prepare by_smallint (text, text, text, text, smallint) as select baton.publish($1, $2, $3, $4, $5);
prepare by_int (text, text, jsonb, text, int) as select baton.publish($1, $2, $3, $4, $5);
prepare by_bigint (text, text, jsonb, text, bigint) as select baton.publish($1, $2, $3, $4, aggregate_id => $5);
prepare by_uuid (text, text, json, text, uuid) as select baton.publish($1, $2, $3, $4, $5);
prepare by_nothing as select baton.publish($1, $2, $3, $4, $5);
execute by_text('events', 'agg', '{"n": 1}', 'order', 'o-1');
execute by_varchar('events', 'agg', '{"n": 1}', 'order', 'o-2');
execute by_smallint('events', 'agg', '{"n": 1}', 'order', 3);
execute by_int('events', 'agg', '{"n": 1}', 'order', 4);
execute by_bigint('events', 'agg', '{"n": 1}', 'order', 5000000000);
execute by_uuid('events', 'agg', '{"n": 1}', 'order', '00000000-0000-0000-0000-000000000006');
execute by_nothing('events', 'agg', '{"n": 1}', 'order', 'o-7');
select baton.publish('events', 'agg', '{"n": 1}', 'order', 8), baton.publish('events', 'agg', '{"n": 1}'::jsonb, aggregate_id => 9),
       baton.publish('events', 'agg', '{"n": 1}'::jsonb, 'order', null), baton.publish('events', 'agg', '{"n": 1}', aggregate_type => 'order');
select is((select array_agg(aggregate_id order by id) from events where event_type = 'agg'),
          '{o-1,o-2,3,4,5000000000,00000000-0000-0000-0000-000000000006,o-7,8,9,NULL,NULL}', 'an aggregate''s id may be text, a number or a uuid');
select is((select count(*)::int from events where event_type = 'agg' and payload ->> 'n' = '1'), 11, 'next to a payload of any kind');

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

select throws_ok($$ insert into events (xid, event_type) values ('5', 'x') $$, '55000', null, 'nobody chooses a transaction');
select is((select string_agg(distinct coalesce(g.tgenabled, '-')::text, ',') from pg_partition_tree('events') t
            left join pg_trigger g on g.tgrelid = t.relid and g.tgname = 'baton_origin'),
          'A', 'not even where triggers are off for a replica, in any partition');

select * from finish();
