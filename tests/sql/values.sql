-- A value that is taken in can be delivered, parked, copied and compared later; every other one is refused at the door.
select no_plan();
update baton.jobs set enabled = false;

-- What a statement is refused with.
create function refusal(statement text, out state text, out message text, out hint text) language plpgsql as $$
begin
    execute statement;
exception when others then
    get stacked diagnostics state = returned_sqlstate, message = message_text, hint = pg_exception_hint;
end $$;
-- Text that does not shrink when it is compressed.
create function noise(bytes int) returns text language sql volatile as $$
    select left(string_agg(md5(random()::text), ''), bytes) from generate_series(1, bytes / 32 + 1)
$$;

select baton.create_outbox('events');
select baton.create_outbox('texts', payload_type => 'text');
select baton.create_outbox('bytes', payload_type => 'bytea', max_payload_bytes => 128000000);
select baton.create_outbox('jsons', payload_type => 'json');
select baton.create_consumer_group('g_' || o, o, 'earliest', retry_base => '0') from unnest('{events,texts,bytes,jsons}'::text[]) o;

-- texts of an event
select row_eq(format($$ select state, message, hint is not null from refusal($s$ insert into events (event_type, %1$I) values ('t', noise(2001)) $s$) $$, c),
              row('BT006'::text, format('the %s of the event is too long: it has 2001 bytes, 2000 are allowed', c), true), c || ' has up to 2000 bytes')
  from unnest('{aggregate_type,aggregate_id,topic,partition_key,trace_id,correlation_id,causation_id,idempotency_key}'::text[]) c;
select is((select message from refusal($s$ insert into events (event_type) values (noise(2001)) $s$)), 'the event_type of the event is too long: it has 2001 bytes, 2000 are allowed', 'an event''s type, too');
select is((select message from refusal($s$ insert into events (event_type, tenant_id) values ('t', noise(501)) $s$)), 'the tenant_id of the event is too long: it has 501 bytes, 500 are allowed', 'a tenant has up to 500');
select is((select state from refusal($s$ select baton.publish('events', 't', '{}', partition_key => noise(16000), available_at => now() + interval '1 hour') $s$)), 'BT006', 'also with publish()');
select is((select state from refusal($s$ insert into events (event_type, topic) values ('t', repeat('x', 100000000)) $s$)), 'BT006', 'however well a text can be compressed');
create table elsewhere as select repeat('x', 1000000) as long;
select is((select state from refusal($s$ insert into events (event_type, trace_id) select 't', long from elsewhere $s$)), 'BT006', 'and was compressed before');
select is((select count(*)::int from events), 0, 'nothing of that is in the log');

insert into events (event_type, aggregate_type, aggregate_id, topic, partition_key, trace_id, correlation_id, causation_id, idempotency_key, tenant_id, available_at)
select noise(2000), noise(2000), noise(2000), noise(2000), noise(2000), noise(2000), noise(2000), noise(2000), noise(2000), noise(500), due
  from unnest(array[null, now() + interval '1 hour']) due;
create temp table given as select id from baton.poll_outbox('g_events', 'c');
select is((select count(*)::int from given), 1, 'texts of the greatest length are given, or wait for their time');
select is((select array_agg(state) from baton.fail_events('g_events', 'c', array(select id from given), 'no')), '{retry}', 'can fail');
select is((select count(*)::int from baton.poll_outbox('g_events', 'c')), 1, 'come again');
select is((select array_agg(state) from baton.fail_events('g_events', 'c', array(select id from given), 'no', permanent => true)), '{dead}', 'and can die');
select is((select count(*)::int from baton.dead_letters d where octet_length(d.key) = 2000), 1, 'as a dead letter that is whole');

-- times
select ok((select bool_and(r.state = '22023' and r.message like 'occurred_at and available_at lie in the years 1 to 9999%')
             from unnest('{infinity,-infinity,0044-03-15 BC,10000-01-01}'::text[]) moment, unnest('{occurred_at,available_at}'::text[]) c,
                  refusal(format('insert into events (event_type, %I) values (%L, %L)', c, 't', moment)) r), 'no event is at a time that nobody can compute with');
select is((select state from refusal($s$ select baton.publish('events', 't', '{}', occurred_at => 'infinity') $s$)), '22023', 'also with publish()');
insert into events (event_type, occurred_at) values ('t', '0001-01-02'), ('t', '9999-12-30');
select lives_ok($$ select baton.consumer_lag() $$, 'the lag of the oldest and of the newest event can be told');
select lives_ok($$ select * from baton.group_lag $$, 'in the view as well');

-- json that is no jsonb
select row_eq(format($$ select state, message like 'the payload cannot be delivered as JSON: %%', hint is not null from refusal(%L) $$,
                     format('insert into jsons (event_type, payload) values (%L, %L)', 't', payload)), row('22023'::text, true, true), 'refused: ' || left(payload, 20))
  from unnest(array['{"a": "\u0000"}', '"\ud800"', '[1e999999]', '{"a": 1E+200000}', '[' || repeat('1', 140000) || ']', '[0.' || repeat('1', 20000) || ']']) payload;
select is((select state from refusal($s$ select baton.publish('jsons', 't', '{"a": "\u0000"}'::json) $s$)), '22023', 'also with publish()');
insert into jsons (event_type, payload) values ('t', null), ('t', '{"b": 1, "a": "\u00e4\n", "a": 2.5e10}'), ('t', '[1, "1e999999"]'),
    ('t', ('[0.' || repeat('1', 16383) || ']')::json), ('t', ('"' || repeat('x', 100000) || '"')::json);
select is((select payload::text from jsons where id > 0 and payload::text like '%b%'), '{"b": 1, "a": "\u00e4\n", "a": 2.5e10}', 'json that is taken stays as it was written');
select is((select count(*)::int from baton.poll_outbox('g_jsons', 'c')), 5, 'and comes');
select is((select count(*)::int from baton.fail_events('g_jsons', 'c', array(select id from jsons), 'no', permanent => true)), 5, 'and can be copied');

-- sizes
select row_eq($$ select state, message from refusal($s$ select baton.alter_outbox('bytes', max_payload_bytes => 128000001) $s$) $$, row('22023'::text, 'max_payload_bytes is from 65536 to 128000000, not 128000001'::text), 'no limit is above what can be copied');
select is((select state from refusal($s$ select baton.set_setting('outbox_max_payload_bytes', '128000001') $s$)), '22023', 'nor as a setting');

-- settings
select row_eq($$ select state, message, hint from refusal($s$ select baton.set_setting('outbox_drain_interval_seconds', '99999999999') $s$) $$,
              row('22023'::text, 'setting "outbox_drain_interval_seconds" takes a whole number from 0 to 31536000, not "99999999999"'::text, 'its default is 60'::text), 'a setting has a range');
select is((select state from refusal(format('select baton.set_setting(%L, %L)', name, v))), '22023', format('%s is not %s', name, coalesce(v, 'null')))
  from baton.setting_defaults, unnest('{99999999999999999999,4000000000,-1,x}'::text[] || null) v where kind = 'integer' and not (name = 'outbox_max_payload_bytes' and v = 'x');
select lives_ok(format('select baton.set_setting(%L, %L)', name, maximum), name || ' takes its greatest value') from baton.setting_defaults where kind = 'integer' and name <> 'outbox_publish_after_standbys';
begin;  -- before the server's own worker comes
update baton.jobs set enabled = true, next_due = '-infinity';
do $$ begin while baton_internal.run_due_job() is not null loop null; end loop; end $$;
select is((select string_agg(format('%s: %s', name, last_error), ', ') from baton.jobs where last_error is not null), null, 'with which every job runs');
select lives_ok($$ select baton.outbox_status(), baton.inbox_status(), baton.consumer_lag() $$, 'and everything shows');
update baton.jobs set enabled = false;
commit;
delete from baton.settings;

-- a parameter that is no value of its setting
set client_min_messages = error;
do $$ begin perform set_config('baton.outbox_storage_critical_mb', '99999999999', false); end $$;
select is(baton.setting('outbox_storage_critical_mb'), '1024', 'a parameter that is out of range does not count');
begin;
update baton.jobs set enabled = name = 'maintain outboxes', next_due = '-infinity';
select is(baton_internal.run_due_job(), 'maintain outboxes', 'and stops no job');
update baton.jobs set enabled = false;
commit;
do $$ begin perform set_config('baton.outbox_storage_critical_mb', '61', false); end $$;
select is(baton.setting('outbox_storage_critical_mb'), '61', 'one that is in range does');
reset baton.outbox_storage_critical_mb;
reset client_min_messages;

-- durations
select is((select state || ': ' || message from refusal(s)), '22023: ' || what || ' cannot be longer than 100 years, it is 170000000 years', what || ' has an end')
  from (values ('retry_limit', $s$ select baton.create_consumer_group('long', 'events', retry_limit => '170000000 years') $s$),
               ('idempotency_window', $s$ select baton.create_outbox('long', idempotency_window => '170000000 years') $s$),
               ('retention', $s$ select baton.alter_outbox('events', retention => '170000000 years') $s$),
               ('archive_for', $s$ select baton.alter_outbox('events', archive_for => '170000000 years') $s$),
               ('partition_interval', $s$ select baton.alter_outbox('events', partition_interval => '170000000 years') $s$),
               ('lease', $s$ select baton_internal.take_group('g_events', 'r', '170000000 years') $s$),
               ('schedule', $s$ select baton.create_inbox('long', schedule => '170000000 years') $s$)) d (what, s);
select baton.create_inbox('arrivals');
select is((select state from refusal($s$ select baton.alter_inbox('arrivals', backoff_cap => '101 years') $s$)), '22023', 'so has the backoff of an inbox');
select is((select state from refusal($s$ select baton.alter_inbox('arrivals', retention_hours => 2147483647) $s$)), '22023', 'and its retention');
create table rows (id int primary key, payload jsonb, done_at timestamptz, n int not null default 0);
select is((select message from refusal(format($s$ select baton.adopt_outbox('rows', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at", "attempts": "n"}, %s}') $s$, part))),
          what, 'and what a mapping says: ' || part)
  from (values ('"backoff": {"base_seconds": 1e12}', 'mapping "backoff": "base_seconds" takes no more than 100 years, not 1000000000000'),
               ('"backoff": {"factor": 1e300}', 'mapping "backoff": "factor" takes a number up to 1000, not 1' || repeat('0', 59)),
               ('"retention": {"done_after": "170000000 years"}', 'mapping "retention": "done_after" takes an interval from 0 to 100 years, not "170000000 years"')) m (part, what);

select baton.create_consumer_group('slow', 'texts', 'earliest', max_attempts => 40, retry_base => '100 years', retry_limit => '100 years');
insert into texts (event_type, idempotency_key) values ('t', 'k');
create temp table held as select id from baton.poll_outbox('slow', 'c');
select lives_ok($$ select baton.fail_events('slow', 'c', array(select id from held), 'no') $$, 'the longest delay is a time');
select lives_ok($$ select baton_internal.retry_delay('100 years', '100 years', 30), baton_internal.backoff_delay('100 years', '100 years', 0, 30) $$, 'after any number of attempts');
select baton.create_consumer_group('hurried', 'texts', 'earliest');
truncate held;
insert into held select id from baton.poll_outbox('hurried', 'c');
select lives_ok($$ select baton.fail_events('hurried', 'c', array(select id from held), 'no', retry_after => '170000000 years') $$, 'a consumer that asks for more gets that');
select ok((select max(due_at) < now() + interval '160 years' from baton_internal.parked), 'and no more');
select baton.receive('arrivals', 'm', 't', '{}');
create temp table claimed as select event_id, lease_token from baton.claim_inbox('arrivals', 'w');
select lives_ok($$ select baton.fail_inbox('arrivals', 'm', 'no', lease_token => (select lease_token from claimed), retry_after => '170000000 years') $$, 'as does a handler of an inbox');

-- messages of an inbox
select row_eq(format($$ select state, message, hint is not null from refusal($s$ select baton.receive('arrivals', 'x', 't', '{}', %s => noise(2001)) $s$) $$, c),
              row('22001'::text, format('the %s of the message is too long: it has 2001 bytes, 2000 are allowed', c), true), c || ' of a message has up to 2000 bytes')
  from unnest('{aggregate_id,source,trace_id}'::text[]) c;
select is((select message from refusal($s$ select baton.receive_many('arrivals', jsonb_build_array('{"event_id": "1"}'::jsonb, jsonb_build_object('event_id', '2', 'aggregate_id', noise(16000)))) $s$)),
          'the aggregate_id of message 2 of the batch is too long: it has 16000 bytes, 2000 are allowed', 'in a batch with its place');
create table ledger (event_id text primary key, event_type text, payload json, processed_at timestamptz, retry_count int not null default 0, error text, received_at timestamptz default now());
select baton.adopt_inbox('ledger', id_column => 'event_id');
select is((select state from refusal($s$ select baton.receive('ledger', noise(16000), 't', '{}') $s$)), '22001', 'an id is refused where no index would take it');
insert into ledger (event_id) values (noise(2690)), ('short');  -- which the table's own index takes, and a longer one does not
select is((select array_agg(event_id) from baton.claim_inbox('ledger', 'w')), '{short}', 'and stops no other where it is in the table');
select is((select state from refusal(format('select baton.receive(%L, %L, %L, %L, available_at => %L)', 'arrivals', 'x', 't', '{}', moment))), '22023', 'a message is not due at ' || moment)
  from unnest('{infinity,-infinity}'::text[]) moment;
select is((select state from refusal($s$ insert into arrivals (event_id, event_type) values (noise(2001), 't') $s$)), '23514', 'nor by a plain insert');
select is(baton.receive('arrivals', noise(2000), noise(2000), '{}', noise(2000), noise(2000), trace_id => noise(2000)), 'new', 'the longest texts are taken');
select lives_ok($$ select baton.enable_inbox_ordering('arrivals', 'aggregate_id') $$, 'can be put in order');
create temp table longest as select event_id, lease_token from baton.claim_inbox('arrivals', 'w');
select is((select count(*)::int from longest), 1, 'are given');
select is((select sum(baton.complete_inbox('arrivals', event_id, lease_token)) from longest), 1::numeric, 'and completed');
select lives_ok($$ delete from arrivals $$, 'and remembered');

select baton.create_inbox('apart', tenancy => true);
select row_eq($$ select state, message, hint is not null from refusal($s$ select baton.receive('apart', 'x', 't', '{}') $s$) $$,
              row('22004'::text, 'a message of inbox "public.apart" names no tenant'::text, true), 'an inbox with tenants says that one is needed');
select is((select state from refusal($s$ select baton.receive_many('apart', '[{"event_id": "x", "tenant_id": ""}]') $s$)), '22004', 'whatever stands there instead');
select is(baton.receive_malformed('apart', 'broken', '\x00', 'what is that'), 'new', 'a message that cannot be read is kept all the same');
select is((select array_agg(event_id || ': ' || error) from dlq_apart), '{"broken: what is that"}', 'as a dead letter of nobody');
set baton.tenant_id = 'acme';
select is_empty('select * from dlq_apart', 'which no tenant sees');
reset baton.tenant_id;
select is((select state from refusal($s$ select baton.complete('apart', 'nothing there') $s$)), (select state from refusal($s$ select baton.complete('arrivals', 'nothing there') $s$)), 'an id that nobody has is no error of its own');

select * from finish();
