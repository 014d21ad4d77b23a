-- A row that is in a table all the same, whatever it holds, stops neither the others nor a view.
select no_plan();
update baton.jobs set enabled = false;

-- adopted outbox: json that is no jsonb, headers alike, times at infinity
create table jsons (id int primary key, payload json, meta json, at timestamptz not null default now(), done_at timestamptz, tries int not null default 0);
select baton.adopt_outbox('jsons', mapping => '{"columns": {"id": "id", "payload": "payload", "headers": "meta", "occurred_at": "at", "created_at": "at",
    "processed_at": "done_at", "attempts": "tries"}, "attempts": {"limit": 2}, "backoff": {"kind": "none"}}');
insert into jsons (id, payload, meta) values (1, '{"n": 1}', '{"a": 1}'), (2, '{"n": "\u0000"}', null), (3, '[1e999999]', '{"a": "\u0000"}'), (4, '{"n": 4}', '[1]');
insert into jsons (id, payload, at) values (5, '5', 'infinity'), (6, '6', '-infinity');
select results_eq($$ select id, payload, headers from baton.claim_adopted('jsons', 'w') order by 1 $$,
    $$ values ('1', '{"n": 1}'::jsonb, '{"a": 1}'::jsonb), ('2', to_jsonb('{"n": "\u0000"}'::text), '{}'), ('3', to_jsonb('[1e999999]'::text), jsonb_build_object('unreadable-headers', '{"a": "\u0000"}'::text)),
              ('4', '{"n": 4}', '{"unreadable-headers": [1]}'), ('5', '5', '{}'), ('6', '6', '{}') $$,
    'a claim gives JSON that is no jsonb as text, and all others as they are');
select results_eq($$ select id, payload, headers from baton_internal.claim_rows_for_relay((select outbox_id from baton.adopted_outboxes), 'r', 10, 30, '{}', '{}', 1000000, 1000000) order by 1 $$,
    $$ values ('1', '{"n": 1}', '{"a": 1}'), ('2', '{"n": "\u0000"}', '{}'), ('3', '[1e999999]', '{"a": "\u0000"}'), ('4', '{"n": 4}', '[1]'), ('5', '5', '{}'), ('6', '6', '{}') $$,
    'a relay gets it as it is');
select is((select count(*)::int from unnest('{2,3}'::text[]) i, baton.fail_adopted('jsons', i, 'no', true)), 2, 'such a row can be failed');
select results_eq($$ select id, payload from baton.adopted_dead_letters('jsons') order by 1 $$, $$ values ('2', to_jsonb('{"n": "\u0000"}'::text)), ('3', to_jsonb('[1e999999]'::text)) $$, 'listed as a dead letter');
select is((select count(*)::int from baton.ack_adopted('jsons', '{1,4,5,6}')), 4, 'and the others are settled');
select lives_ok($$ select baton.outbox_status(), baton.adopted_status() $$, 'an event at infinity spoils no view');

-- adopted inbox
create table arrivals (event_id text primary key, event_type text, aggregate_id text, payload json, headers json, received_at timestamptz default now(), processed_at timestamptz,
                       retry_count int not null default 0, error text);
select baton.adopt_inbox('arrivals');
insert into arrivals (event_id, event_type, payload, headers, received_at)
values ('1', 't', '{"n": 1}', '{"a": 1}', now() - interval '5 s'), ('2', 't', '"\u0000"', null, now() - interval '4 s'), ('3', 't', '3', '"\ud800"', now() - interval '3 s'),
       ('4', 't', '4', null, '-infinity');
select results_eq($$ select event_id, payload, headers from baton.claim_inbox('arrivals', 'w') order by 1 $$,
    $$ values ('1', '{"n": 1}'::jsonb, '{"a": 1}'::jsonb), ('2', to_jsonb('"\u0000"'::text), null), ('3', '3', to_jsonb('"\ud800"'::text)), ('4', '4', null) $$, 'a claim of an inbox goes the same way');
select lives_ok($$ select baton.inbox_status() $$, 'and every view shows');
select lives_ok($$ select * from baton.inbox_health('arrivals') $$, 'also of its health');

-- ids as long as the table's own index takes them
create function noise(n int, bytes int) returns text language sql immutable as $$ select left(string_agg(md5(n || ' ' || i), ''), bytes) from generate_series(1, bytes / 32 + 1) i $$;
create table long_ids (like arrivals including all);
select baton.adopt_inbox('long_ids', retention_hours => 1);
insert into long_ids (event_id, event_type, received_at) values (noise(1, 2690), 't', now() - interval '5 s'), (noise(2, 2600), 't', now() - interval '4 s'), ('short', 't', now() - interval '3 s');
create temp table claimed as select event_id, lease_token from baton.claim_inbox('long_ids', 'w');
select results_eq($$ select length(event_id) from claimed order by 1 $$, $$ values (5), (2600) $$, 'ids up to 2600 bytes are claimed');
select results_eq($$ select (h ->> 'unclaimable_count')::int, h ->> 'health_status' from baton.inbox_health('long_ids') h $$, $$ values (1, 'degraded') $$, 'one that is longer shows in the health');
select is((select sum(baton.fail_inbox('long_ids', event_id, 'no', true, lease_token)) from claimed), 2::numeric, 'those that were claimed can fail');
select lives_ok($$ select baton.fail_inbox('long_ids', noise(1, 2690), 'no', true) $$, 'the other one, too');
select is((select (dead_noticed, problem)::text from baton.run_inbox_maintenance() where inbox = 'public.long_ids'), '(2,)', 'maintenance notices the dead');
select is(baton.replay_inbox_messages('long_ids'), 3::bigint, 'all are replayed');
update long_ids set processed_at = now() - interval '2 hours';
select is((select (drained, problem)::text from baton.run_inbox_maintenance() where inbox = 'public.long_ids'), '(3,)', 'and maintenance deletes what is old');
select is((select count(*)::int from long_ids), 0, 'whatever its id');

-- an outbox: events that came in by another way than the door, such as a table that was loaded without its triggers
select baton.create_outbox('log', payload_type => 'json');
select baton.create_consumer_group('readers', 'log', 'earliest', ordered => false), baton.create_consumer_group('keepers', 'log', 'earliest');
do $$ begin execute (select format('alter table %s disable trigger baton_event', relation) from baton_internal.outbox_partitions order by first_id limit 1); end $$;
insert into log (event_type, aggregate_id, payload, available_at)
values ('t', 'a', '1', null), ('t', 'a', '"\u0000"', null), ('t', 'b', '3', null), ('t', 'c', '[1e999999]', now() - interval '1 hour'), ('t', 'd', '"\ud800"', now() + interval '1 year');
select results_eq($$ select id, payload from baton.poll_outbox('readers', 'c') $$, $$ values (1::bigint, '1'::jsonb), (3, '3') $$, 'a poll gives what can be given');
select results_eq($$ select event_offset, error from baton.dead_letters order by 1 $$,
    $$ values (2::bigint, 'no consumer can be given this event: unsupported Unicode escape sequence'), (4, 'no consumer can be given this event: value overflows numeric format') $$,
    'and makes the others dead letters by their ids');
select ok(baton.commit_offset('readers', 'c', 3), 'what was given is settled');
update baton_internal.parked set due_at = now() where state = 'scheduled';
select is((select count(*)::int from baton.poll_outbox('readers', 'c')), 0, 'one that was parked for later goes the same way');
select is((select count(*)::int from baton.dead_letters), 3, 'when its time has come');
select is(baton.replay_dead_letters((select array_agg(id) from baton.dead_letters where event_offset = 2)), 1, 'such a dead letter is replayed');
select is((select count(*)::int from baton.poll_outbox('readers', 'c')), 0, 'in vain');
select throws_ok($$ select baton.edit_dead_letter((select id from baton.dead_letters where event_offset = 2), headers => '{}') $$, '22023', null, 'it needs another payload');
select lives_ok($$ select baton.edit_dead_letter((select id from baton.dead_letters where event_offset = 2), '"mended"') $$, 'and can get one');
select is(baton.replay_dead_letters((select array_agg(id) from baton.dead_letters where event_offset = 2)), 1, 'with which it is replayed');
select results_eq($$ select event_type, aggregate_id, payload from baton.poll_outbox('readers', 'c') $$, $$ values ('t', 'a', '"mended"'::jsonb) $$, 'and comes');
select ok(baton.commit_offset('readers', 'c', 2), 'whole');

select baton_internal.prepare_group('keepers', 'log', on_poison => 'park');
do $$ declare taken baton_internal.group_lease := baton_internal.take_group('keepers', 'r');
begin
    perform baton_internal.park_group_events(taken.group_id, taken.epoch, '{2,4}', '{a,c}', '{1,1}', '{no,later}', '{dead,retry}');
    perform baton_internal.release_group(taken.group_id, taken.epoch);
end $$;
select is((select count(*)::int from baton_internal.parked p join baton.consumer_groups using (group_id) where group_name = 'keepers'), 2, 'a relay parks them');
select baton.alter_outbox('log', partition_interval => '1 us', retention => '0');
create function parts() returns text language sql as $$ select string_agg(state, ',' order by first_id) from baton_internal.outbox_partitions $$;
create temp table keeping as select * from baton.poll_outbox('keepers', 'k');
select ok(baton.commit_offset('keepers', 'k', (select max(id) from keeping)), 'the other group has settled the rest');
call baton.run_maintenance();
call baton.run_maintenance();
select is((select maintenance_error from baton.outboxes), null, 'maintenance goes on');
select alike(parts(), 'left,%', 'a partition with an event that cannot be copied stays');
select is((select count(*)::int from baton.dead_letters where error = 'this event cannot be copied out of the log'), 2, 'and the events that keep it show');
select is(baton.discard_dead_letters(array(select id from baton.dead_letters), 'cannot be read'), 5, 'once it is discarded');
call baton.run_maintenance();
select unalike(parts(), 'left,%', 'the partition goes');

-- a session that writes every name in quotes
set quote_all_identifiers = on;
select baton.create_outbox('quoted'), baton.create_outbox('quoted_bytes', payload_type => 'bytea'), baton.create_inbox('quoted_in');
select lives_ok($$ select baton.publish('quoted', 't', '{"a": 1}'), baton.publish('quoted', 't', '{"a": 1}'::jsonb), baton.publish('quoted', 't', 7) $$, 'publishes');
select is((select array_agg(payload order by id) from quoted), array['{"a": 1}', '{"a": 1}', '7']::jsonb[], 'what every other session does');
select lives_ok($$ select baton.publish('quoted_bytes', 't', '\x00'::bytea) $$, 'bytes, too');
select lives_ok($$ select baton.enable_inbox_ordering('quoted_in', 'aggregate_id', 'sequence_num') $$, 'puts an inbox in order');
create table quoted_rows (event_id text primary key, event_type varchar(40), payload json, received_at timestamptz default now(), processed_at timestamptz, retry_count int not null default 0, error text);
select lives_ok($$ select baton.adopt_inbox('quoted_rows') $$, 'and adopts a table');
reset quote_all_identifiers;

select throws_ok($$ select baton.seek_offset('readers', 'c', 9223372036854775807) $$, '22023', null, 'no group is put after the last number there is');
select * from finish();
