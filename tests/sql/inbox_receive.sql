-- Receiving: new once, duplicate ever after.
begin;
select no_plan();
select baton.create_inbox('inb');

select is(baton.receive('inb', 'e1', 'paid', '{"a": 1}', 'bank', 'acc-1', '{"h": 1}', 'trace', 7, 2), 'new', 'a first delivery is new');
select is(baton.receive('inb', 'e1', 'paid', '{"a": 1}'), 'duplicate', 'a second is a duplicate');
select results_eq('select event_id, event_type, payload, source, aggregate_id, headers, trace_id, sequence_num, priority, retry_count, processed_at, error from inb',
    $$values ('e1', 'paid', '{"a": 1}'::jsonb, 'bank', 'acc-1', '{"h": 1}'::jsonb, 'trace', 7::bigint, 2::smallint, 0, null::timestamptz, null::text)$$,
    'all fields are stored');
select is((select available_at from inb), (select received_at from inb), 'it may be worked at once');
select baton.receive('inb', 'later', 'paid', '{}', available_at => now() + interval '1 hour');
select is((select available_at from inb where event_id = 'later'), now() + interval '1 hour', 'or later');
select is(baton.receive('inb', 'untyped', null, null), 'new', 'a message needs neither type nor payload');
select is((select event_type from inb where event_id = 'untyped'), 'unknown', 'its type is then unknown');
select throws_ok($$select baton.receive('inb', null, 't', '{}')$$, '22023', null, 'it needs an id');
select throws_ok($$select baton.receive('inb', '', 't', '{}')$$, '22023', null, 'that is not empty');

-- an aggregate's id comes as drivers send it
select is(baton.receive('inb', 'agg1', 't', '{}', aggregate_id => 7), 'new', 'an aggregate may have a number');
select is(baton.receive('inb', 'agg2', 't', '{}', aggregate_id => 12345678901), 'new', 'also a large one');
select is(baton.receive('inb', 'agg3', 't', '{}', aggregate_id => '0192d3b4-0000-7000-8000-000000000001'::uuid), 'new', 'or a uuid');
select is(baton.receive('inb', 'agg4', 't', '{}', aggregate_id => 'a-4'::varchar), 'new', 'or any text');
select is(baton.receive('inb', 'agg5', 't', '{}', aggregate_id => null), 'new', 'or none');
prepare received as select baton.receive('inb', $1, 't', '{}', aggregate_id => $2);
select lives_ok($$ execute received('agg6', 'a-6') $$, 'a driver that names no type sends text');
select is((select array_agg(aggregate_id order by event_id) from inb where event_id like 'agg%'),
          array['7', '12345678901', '0192d3b4-0000-7000-8000-000000000001', 'a-4', null, 'a-6'], 'each is kept as text');
delete from inb where event_id like 'agg%';

-- batches
select results_eq($$select "position", event_id, outcome from baton.receive_many('inb', '[
        {"event_id": "b2", "event_type": "t", "payload": {"x": [1.10, null]}}, {"event_id": "e1", "event_type": "t"},
        {"event_id": "b1", "event_type": "t", "sequence_num": 3, "priority": 1, "aggregate_id": "k", "tenant_id": "acme"},
        {"event_id": "b2", "event_type": "t", "payload": "second"}]')$$,
    $$values (1, 'b2', 'new'), (2, 'e1', 'duplicate'), (3, 'b1', 'new'), (4, 'b2', 'duplicate')$$,
    'a batch reports each message in its place, repeats within it too');
select is((select payload from inb where event_id = 'b2'), '{"x": [1.10, null]}'::jsonb, 'the first of two equal ids is kept');
select results_eq($$select sequence_num, priority, aggregate_id, tenant_id from inb where event_id = 'b1'$$,
                  $$values (3::bigint, 1::smallint, 'k', 'acme')$$, 'fields of a batch are stored');
select ok((select a.received_at < b.received_at from inb a, inb b where a.event_id = 'b2' and b.event_id = 'b1'), 'the order of a batch is kept');
select is_empty($$select * from baton.receive_many('inb', '[]')$$, 'an empty batch is no error');
select throws_ok($$select * from baton.receive_many('inb', '{}')$$, '22023', null, 'a batch is an array');
select throws_ok($$select * from baton.receive_many('inb', null)$$, '22023', null, 'not null');
select throws_ok($$select * from baton.receive_many('inb', '[{"event_id": "ok"}, {"event_type": "t"}]')$$, '22023', 'message 2 of the batch has no event_id',
                 'a message without id is named by its place');
select is((select count(*) from inb where event_id = 'ok'), 0::bigint, 'and the batch is all or nothing');
select is((select sum(duplicates) from baton_internal.inbox_duplicates), 3::bigint, 'duplicates are counted');

-- what a message says of itself
select is(baton.receive('inb', 'said', 't', '{}', headers => '{"h": 1}', correlation_id => 'c', causation_id => 'd', idempotency_key => 'k', schema_version => 3), 'new',
          'a message may say what caused it');
select is((select headers from inb where event_id = 'said'),
          '{"h": 1, "correlation-id": "c", "causation-id": "d", "idempotency-key": "k", "schema-version": "3"}', 'its headers keep that');
select is(array(select outcome from baton.receive_many('inb', '[
        {"event_id": "said1", "headers": {"h": 1}, "correlation_id": "c1", "causation_id": "d1", "idempotency_key": "k1", "schema_version": 2},
        {"event_id": "said2", "correlation_id": "c2", "headers": null}, {"event_id": "said3", "headers": {"schema_version": "two", "correlation_id": "c3"}},
        {"event_id": "said4", "headers": [1], "correlation_id": "c4"}, {"event_id": "said5"}]')), '{new,new,new,new,new}'::text[], 'in a batch too');
select results_eq($$ select event_id, headers, correlation_id, causation_id, idempotency_key, schema_version
                       from baton.claim_inbox('inb', 'w') where event_id like 'said%' order by 1 $$,
    $$ values ('said', '{"h": 1, "correlation-id": "c", "causation-id": "d", "idempotency-key": "k", "schema-version": "3"}'::jsonb, 'c', 'd', 'k', 3),
              ('said1', '{"h": 1, "correlation-id": "c1", "causation-id": "d1", "idempotency-key": "k1", "schema-version": "2"}', 'c1', 'd1', 'k1', 2),
              ('said2', '{"correlation-id": "c2"}', 'c2', null, null, null), ('said3', '{"schema_version": "two", "correlation_id": "c3"}', 'c3', null, null, null),
              ('said4', '[1]', null, null, null, null), ('said5', null, null, null, null, null) $$,
    'a claim shows it, and says nothing where nothing is said');
delete from inb where event_id like 'said%';
select baton.release_inbox('inb', array(select event_id from inb where lease_token is not null), (select lease_token from inb where lease_token is not null limit 1));

-- malformed
select is(baton.receive_malformed('inb', 'bad', '\xff00', 'not JSON', 'kafka'), 'new', 'an unreadable message is kept');
select is(baton.receive_malformed('inb', 'bad', '\xff00', 'not JSON', 'kafka'), 'duplicate', 'once');
select results_eq($$select payload, payload_raw, error, source, event_type from dlq_inb$$,
                  $$values (null::jsonb, '\xff00'::bytea, 'not JSON', 'kafka', 'malformed')$$, 'as a dead letter with its bytes');
select is((select count(*) from pending_inb where event_id = 'bad'), 0::bigint, 'it never comes up for work');

-- dedup outlives the row
delete from inb where event_id in ('e1', 'b1');
select is(baton.receive('inb', 'e1', 'paid', '{}'), 'duplicate', 'a redelivery after the row is gone is recognised');
select results_eq($$select outcome from baton.receive_many('inb', '[{"event_id": "b1"}, {"event_id": "b9"}]')$$,
                  $$values ('duplicate'), ('new')$$, 'in a batch as well');
with plain as (insert into inb (event_id, event_type) values ('e1', 't') returning 1)
select is((select count(*) from plain), 0::bigint, 'and by a plain insert');
with plain as (insert into inb (event_id, event_type) values ('p1', 't') returning 1)
select is((select count(*) from plain), 1::bigint, 'a plain insert of a new message is a way in');
select throws_ok($$insert into inb (event_id, event_type) values ('p1', 't')$$, '23505', null, 'a plain insert of a present one meets the key');
with plain as (insert into inb (event_id, event_type) values ('p1', 't') on conflict do nothing returning 1)
select is((select count(*) from plain), 0::bigint, 'or does nothing if it says so');
with plain as (insert into inb (event_id, event_type) values ('p1', 'u') on conflict (event_id) do update set event_type = 'u' returning 1)
select is((select count(*) from plain), 1::bigint, 'an upsert still updates');
select baton.create_inbox('inb2');
select is(baton.receive('inb2', 'e1', 'paid', '{}'), 'new', 'each inbox remembers for itself');

-- tenants
set local baton.tenant_id = 'acme';
select baton.receive('inb2', 'of-acme', 't', '{}');
set local baton.tenant_id = '';
select is((select tenant_id from inb2 where event_id = 'of-acme'), 'acme', 'a session''s tenant is stamped on what it receives');

-- switched off
set local baton.inbox_enabled = off;
select throws_ok($$select baton.receive('inb', 'off', 't', '{}')$$, 'BT005', null, 'inbox_enabled off: BT005');
select throws_ok($$select * from baton.receive_many('inb', '[]')$$, 'BT005', null, 'for batches too');
set local baton.inbox_enabled = on;

select * from finish();
rollback;
