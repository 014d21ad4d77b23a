-- Preset locks: status with lock columns and their constraints, budget of attempts, schedule, idempotency keys.
begin;
select no_plan();
set local client_min_messages = warning;

create table outbox_events (
    id uuid primary key,
    event_type varchar(100) not null,
    aggregate_type varchar(50) not null,
    aggregate_id uuid not null,
    topic varchar(255) not null,
    partition_key varchar(255) not null,
    payload jsonb not null,
    headers jsonb,
    trace_id varchar(64),
    idempotency_key varchar(128),
    correlation_id varchar(64),
    causation_id varchar(64),
    schema_version varchar(50),
    status varchar(20) not null default 'pending',
    attempts_made integer not null default 0,
    max_attempts integer not null default 6,
    last_error varchar(2000),
    scheduled_at timestamptz not null,
    completed_at timestamptz,
    locked_at timestamptz,
    locked_by varchar(255),
    created_at timestamptz not null default timezone('UTC', now()),
    updated_at timestamptz default timezone('UTC', now()),
    constraint ck_outbox_events_attempts_valid check (attempts_made <= max_attempts),
    constraint ck_outbox_events_completed_status_consistency check (
        (status = 'completed' and completed_at is not null) or (status <> 'completed' and completed_at is null)
    ),
    constraint ck_outbox_events_lock_consistency check (
        (locked_at is null and locked_by is null) or (locked_at is not null and locked_by is not null)
    )
);
create index idx_outbox_events_pending_fetch on outbox_events (scheduled_at)
    where status = 'pending' and locked_at is null and attempts_made < max_attempts;
create index idx_outbox_events_locked_at on outbox_events (locked_at) where locked_at is not null;
create index idx_outbox_events_completed_cleanup on outbox_events (completed_at)
    where status = 'completed' and completed_at is not null;
create unique index idx_outbox_events_idempotency_key on outbox_events (idempotency_key) where idempotency_key is not null;
create index idx_outbox_events_created_at on outbox_events (created_at);
create index idx_outbox_events_updated_at on outbox_events (updated_at);

-- The same table, partitioned: created_at becomes part of the primary key and of every unique index.
create table outbox_events_partitioned (
    like outbox_events including defaults including constraints,
    primary key (id, created_at)
) partition by range (created_at);
create unique index on outbox_events_partitioned (idempotency_key, created_at) where idempotency_key is not null;

-- Put rows numbered from one to n into a table.
create function fill(name regclass, n int) returns void language plpgsql as $$
begin
    execute format('insert into %s (id, event_type, aggregate_type, aggregate_id, topic, partition_key, payload, scheduled_at, trace_id, correlation_id, causation_id, schema_version)
                    select (''00000000-0000-7000-8000-00000000000'' || k)::uuid, ''order.paid'', ''order'', gen_random_uuid(), ''orders'', ''key-'' || k,
                           jsonb_build_object(''n'', k), now() - (10 - k) * interval ''1 minute'', ''t'', ''c1'', ''c2'', ''v2'' from generate_series(1, %s) k', name, n);
end
$$;

select is(baton.adopt_outbox('outbox_events', mapping => '{"cleanup": {"expire": true, "archive": true, "processed_events": true}}'), 'public.outbox_events', 'the printed table is adopted');
select is((select (preset, keeps_locks) = ('locks', true) from baton.adopted_outboxes), true, 'its preset is detected by its columns; its claims outlive a transaction');
select lives_ok($$select fill('outbox_events', 5)$$, 'events are inserted');
update outbox_events set scheduled_at = now() + interval '1 minute' where payload ->> 'n' = '3';
update outbox_events set attempts_made = max_attempts where payload ->> 'n' = '4';
update outbox_events set status = 'completed', completed_at = now() where payload ->> 'n' = '5';
update outbox_events set scheduled_at = now() - interval '1 hour' where payload ->> 'n' = '2';

-- claim
select results_eq($$select payload ->> 'n' from baton.claim_adopted('outbox_events', 'w1', 1)$$, $$values ('2')$$,
                  'a claim takes what has been due longest');
select is((select (locked_by, locked_at is not null, status) = ('w1', true, 'pending') from outbox_events where payload ->> 'n' = '2'), true, 'it locks the row in its columns');
select row_eq($$select payload ->> 'n', event_id, topic, partition_key, trace_id, correlation_id, causation_id, schema_version, headers, attempt
                 from baton.claim_adopted('outbox_events', 'w2')$$,
              row('1'::text, '00000000-0000-7000-8000-000000000001'::text, 'orders'::text, 'key-1'::text, 't'::text, 'c1'::text, 'c2'::text, 'v2'::text, '{}'::jsonb, 1),
              'another worker gets what is pending, due, not locked and has attempts left, and nothing else');
select is_empty($$select id from baton.claim_adopted('outbox_events', 'w3')$$, 'a third worker finds nothing');

-- ack and fencing
select is_empty($$select baton.ack_adopted('outbox_events', '{00000000-0000-7000-8000-000000000002}', 'w2')$$, 'a worker cannot acknowledge a row that another one holds');
select throws_ok($$select baton.fail_adopted('outbox_events', '00000000-0000-7000-8000-000000000002', 'x', worker => 'w2')$$, 'BT001', null, 'nor fail it');
select results_eq($$select baton.ack_adopted('outbox_events', '{00000000-0000-7000-8000-000000000002}', 'w1')$$, $$values ('00000000-0000-7000-8000-000000000002')$$,
                  'the holder can');
select is((select (status, completed_at, locked_at is null, locked_by is null, updated_at) = ('completed', now(), true, true, now())
             from outbox_events where payload ->> 'n' = '2'), true, 'a completed row has its time and no lock');

-- failure
select is((select (f.dead, f.attempts, f.due - now() between interval '4.5 s' and interval '5.5 s') = (false, 1, true)
             from baton.fail_adopted('outbox_events', '00000000-0000-7000-8000-000000000001', repeat('e', 3000), worker => 'w2') f), true, 'a failure waits about five seconds');
select is((select (attempts_made, length(last_error), locked_at is null, locked_by is null, status, scheduled_at > now()) = (1, 2000, true, true, 'pending', true)
             from outbox_events where payload ->> 'n' = '1'), true, 'the row is unlocked, scheduled anew, and its error cut to what the column holds');
select is((select array_agg(f.dead order by n) from generate_series(2, 6) n, lateral baton.fail_adopted('outbox_events', '00000000-0000-7000-8000-000000000001', 'e' || n) f),
          '{f,f,f,f,t}'::boolean[], 'the sixth of six attempts is the last');
select is((select (status, attempts_made) = ('failed', 6) from outbox_events where payload ->> 'n' = '1'), true, 'its row is failed, with attempts within the maximum');
select bag_eq($$select payload ->> 'n' as n, attempts from baton.adopted_dead_letters('outbox_events')$$, $$values ('1', 6), ('4', 6)$$,
              'dead letters are the failed rows and the pending ones without attempts left');
select throws_ok($$select baton.fail_adopted('outbox_events', '00000000-0000-7000-8000-000000000002', 'x')$$, 'P0002', null, 'a completed row cannot fail');
select is_empty($$select * from baton.fail_adopted('outbox_events', '{00000000-0000-7000-8000-000000000002}'::text[], 'x')$$, 'nor is it among several that fail');
select throws_ok($$select * from baton.fail_adopted('outbox_events', array['00000000-0000-7000-8000-000000000002', null], 'x')$$, '22004', null, 'a list has no null in it');
select lives_ok($$select baton.fail_adopted('outbox_events', '00000000-0000-7000-8000-000000000004', 'x')$$, 'a failure beyond the maximum does not break the table''s own rule');
select is((select count(*) from baton.replay_adopted('outbox_events', '{00000000-0000-7000-8000-000000000001,00000000-0000-7000-8000-000000000004}')), 2::bigint, 'both can be replayed');
select bag_eq($$select payload ->> 'n' as n, attempt from baton.claim_adopted('outbox_events', 'w1', lease_seconds => 60)$$, $$values ('1', 1), ('4', 1)$$, 'and are claimed again');

-- stale locks
select is_empty($$select id from baton.claim_adopted('outbox_events', 'w2', lease_seconds => 5)$$, 'a locked row is left alone');
update outbox_events set locked_at = now() - interval '50 seconds' where locked_by = 'w1';
select is_empty($$select id from baton.claim_adopted('outbox_events', 'w2', lease_seconds => 5)$$, 'for as long as its own worker asked for, not the one who wants it');
update outbox_events set locked_at = now() - interval '61 seconds' where payload ->> 'n' = '1';
select results_eq($$select payload ->> 'n', attempt from baton.claim_adopted('outbox_events', 'w2', lease_seconds => 5)$$, $$values ('1', 1)$$, 'then its rows go to whoever asks next');
select is_empty($$select baton.ack_adopted('outbox_events', '{00000000-0000-7000-8000-000000000001}', 'w1')$$, 'and the one who lost it cannot acknowledge it');
update outbox_events set locked_by = 'somebody unknown', locked_at = now() - interval '200 seconds' where payload ->> 'n' = '1';
update outbox_events set locked_by = 'somebody unknown', locked_at = now() - interval '400 seconds' where payload ->> 'n' = '4';
select is((select affected from baton.run_adopted_maintenance('outbox_events') where action = 'locks_freed'), 1::bigint, 'maintenance frees the locks that are stale');
select bag_eq($$select payload ->> 'n' as n, locked_by is null as free from outbox_events where payload ->> 'n' in ('1', '4')$$, $$values ('1', false), ('4', true)$$,
              'a lock of a worker unknown to baton after five minutes');
select is((select (pending, claimed) = (2, 1) from baton.adopted_status('outbox_events')), true, 'the status tells pending from claimed');

-- idempotency
update outbox_events set idempotency_key = 'once' where payload ->> 'n' = '1';
select throws_ok($$update outbox_events set idempotency_key = 'once' where payload ->> 'n' = '2'$$, '23505', null, 'the table keeps its idempotency keys unique');

-- cleanup
update outbox_events set completed_at = now() - interval '8 days' where payload ->> 'n' = '2';
select is((select affected from baton.run_adopted_maintenance('outbox_events') where action = 'expired'), 1::bigint, 'completed rows are removed after seven days');
select is((select count(*) from outbox_events where payload ->> 'n' = '5'), 1::bigint, 'not before');

-- the partitioned variant
set local client_min_messages = notice;
select is(baton.adopt_outbox('outbox_events_partitioned', mapping => '{"cleanup": {"expire": true, "archive": true, "processed_events": true}}'), 'public.outbox_events_partitioned', 'the partitioned table is adopted by the same preset');
set local client_min_messages = warning;
select is((select affected from baton.run_adopted_maintenance('outbox_events_partitioned') where action = 'partitions_created'), 3::bigint, 'this month and two ahead get their partitions');
select is((select affected from baton.run_adopted_maintenance('outbox_events_partitioned') where action = 'partitions_created'), 0::bigint, 'once');
select has_table('public', 'outbox_events_partitioned_' || to_char(now() at time zone 'UTC', 'YYYYMM'), 'named by their month');
select lives_ok($$select fill('outbox_events_partitioned', 3)$$, 'events are inserted into them');
select results_eq($$select payload ->> 'n' from baton.claim_adopted('outbox_events_partitioned', 'w1', 2)$$, $$values ('1'), ('2')$$, 'they are claimed');
select is((select count(*) from baton.ack_adopted('outbox_events_partitioned', '{00000000-0000-7000-8000-000000000001}', 'w1')), 1::bigint, 'acknowledged');
select is((select f.attempts from baton.fail_adopted('outbox_events_partitioned', '00000000-0000-7000-8000-000000000002', 'e', worker => 'w1') f), 1, 'and failed');
select bag_eq($$select payload ->> 'n' as n, status, attempts_made, locked_by from outbox_events_partitioned$$,
              $$values ('1', 'completed'::varchar, 0, null::varchar), ('2', 'pending', 1, null), ('3', 'pending', 0, null)$$, 'as in the plain table');

select * from finish();
rollback;
