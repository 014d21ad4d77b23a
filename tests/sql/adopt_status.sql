-- Preset status: pending, published or failed; published rows expire; consumers mark what they processed.
begin;
select no_plan();
set local client_min_messages = warning;

create table if not exists outbox (
    id uuid primary key default gen_random_uuid(),
    aggregate_type varchar(100) not null,
    aggregate_id uuid not null,
    event_type varchar(100) not null,
    topic varchar(100) not null,
    partition_key varchar(100),
    payload jsonb not null,
    headers jsonb default '{}',
    status varchar(20) not null default 'pending' check (status in ('pending', 'published', 'failed')),
    retry_count smallint not null default 0,
    max_retries smallint not null default 5,
    published_at timestamptz,
    expires_at timestamptz not null default (now() + interval '24 hours'),
    created_at timestamptz not null default now()
);
create index idx_outbox_status_created on outbox (status, created_at) where status = 'pending';
create index idx_outbox_aggregate on outbox (aggregate_type, aggregate_id);
create index idx_outbox_expires on outbox (expires_at) where status = 'published';
create table if not exists processed_events (
    event_id uuid primary key,
    consumer_group varchar(100) not null,
    processed_at timestamptz not null default now(),
    expires_at timestamptz not null default (now() + interval '24 hours')
);
create index idx_processed_events_consumer on processed_events (consumer_group);
create index idx_processed_events_expires on processed_events (expires_at);

select is(baton.adopt_outbox('outbox', mapping => '{"cleanup": {"expire": true, "archive": true, "processed_events": true}}'), 'public.outbox', 'the printed table is adopted');
select is((select preset from baton.adopted_outboxes), 'status', 'its preset is detected by its columns');

-- claim
insert into outbox (id, aggregate_type, aggregate_id, event_type, topic, partition_key, payload, headers, created_at)
select ('00000000-0000-7000-8000-00000000000' || n)::uuid, 'User', ('00000000-0000-7000-8000-0000000000a' || n)::uuid, 'user.registered', 'users',
       case n when 1 then 'key-1' end, jsonb_build_object('n', n), jsonb_build_object('traceId', 'trace-' || n, 'source', 'test'), now() - n * interval '1 minute'
  from generate_series(1, 4) n;
update outbox set status = 'published', published_at = now() where id::text like '%4';
select results_eq($$select payload ->> 'n' from baton.claim_adopted('outbox', 'w1')$$, $$values ('3'), ('2'), ('1')$$,
                  'a claim takes pending rows, oldest first');
select row_eq($$select event_id, aggregate_type, event_type, topic, partition_key, headers, trace_id, attempt from baton.claim_adopted('outbox', 'w1') where payload ->> 'n' = '1'$$,
              row('00000000-0000-7000-8000-000000000001'::text, 'User'::text, 'user.registered'::text, 'users'::text, 'key-1'::text,
                  '{"source": "test", "traceId": "trace-1"}'::jsonb, 'trace-1'::text, 1), 'the id is the event id and the trace comes from the headers');
select is((select partition_key from baton.claim_adopted('outbox', 'w1') where payload ->> 'n' = '2'), '00000000-0000-7000-8000-0000000000a2',
          'without a partition key the aggregate is the key');

-- ack
select is((select count(*) from baton.ack_adopted('outbox', '{00000000-0000-7000-8000-000000000001}')), 1::bigint, 'an event is acknowledged');
select is((select (status, published_at) = ('published', now()) from outbox where payload ->> 'n' = '1'), true, 'it is published, with the time');

-- failure
select is((select (f.dead, f.attempts) = (false, 1) from baton.fail_adopted('outbox', '00000000-0000-7000-8000-000000000002', 'broker down') f), true,
          'a failed event is due for another try');
select is((select (status, retry_count) = ('pending', 1) from outbox where payload ->> 'n' = '2'), true, 'it stays pending with one more retry counted');
select results_eq($$select payload ->> 'n' from baton.claim_adopted('outbox', 'w1')$$, $$values ('3')$$,
                  'it waits, though the table has no column for that');
select ok((select not_before - now() between interval '4.5 seconds' and interval '5.5 seconds' from baton_internal.adopted_failures), 'about five seconds the first time');
update baton_internal.adopted_failures set not_before = now();
select results_eq($$select payload ->> 'n', attempt from baton.claim_adopted('outbox', 'w1')$$, $$values ('3', 1), ('2', 2)$$, 'then it is claimed again');
select is((select array_agg(f.dead order by n) from generate_series(2, 5) n,
                  lateral baton.fail_adopted('outbox', '00000000-0000-7000-8000-000000000002', 'still down ' || n) f),
          '{f,f,f,t}'::boolean[], 'it is dead when its retries reach max_retries');
select is((select (status, retry_count) = ('failed', 5) from outbox where payload ->> 'n' = '2'), true, 'a dead event is failed');
select ok((select not_before - now() between interval '72 seconds' and interval '88 seconds' from baton_internal.adopted_failures), 'the wait had doubled each time');
select results_eq($$select id, attempts, error from baton.adopted_dead_letters('outbox')$$,
                  $$values ('00000000-0000-7000-8000-000000000002', 5, 'still down 5')$$, 'dead letters show the error that the table has no column for');
select is((select f.dead from baton.fail_adopted('outbox', '00000000-0000-7000-8000-000000000003', 'no such topic', true) f), true, 'a permanent failure is dead at once');
select is((select retry_count from outbox where payload ->> 'n' = '3'), 1::smallint, 'after its first retry count');
select is_empty($$select id from baton.claim_adopted('outbox', 'w1')$$, 'failed events are not claimed');
select is((select (pending, dlq_depth, failures) = (0, 2, '{"user.registered": 6}'::jsonb) from baton.adopted_status('outbox')), true, 'the status counts them');
select is((select count(*) from baton.replay_adopted('outbox', array(select id::text from outbox where status = 'failed'))), 2::bigint, 'dead letters are replayed');
select results_eq($$select payload ->> 'n', attempt from baton.claim_adopted('outbox', 'w1')$$, $$values ('3', 1), ('2', 1)$$, 'and are pending with all their retries, at once');
select is((select count(*) from baton_internal.adopted_failures), 0::bigint, 'nothing is kept about their old failures');

-- expiry
update outbox set expires_at = now() - interval '1 second' where payload ->> 'n' in ('1', '2', '3');
select ok((baton.fail_adopted('outbox', '00000000-0000-7000-8000-000000000003', 'gone', true)).dead, 'a replayed event can die again');
select is((select affected from baton.run_adopted_maintenance('outbox') where action = 'expired'), 1::bigint, 'maintenance removes what is published and expired');
select bag_eq($$select payload ->> 'n', status from outbox$$, $$values ('2', 'pending'), ('3', 'failed'), ('4', 'published')$$,
              'never what is pending or failed, nor what is published and not expired');

-- a row deleted by somebody else leaves no notes behind
delete from outbox where payload ->> 'n' = '3';
select isnt_empty($$select baton.run_adopted_maintenance('outbox')$$, 'maintenance tells what it did');
select is((select count(*) from baton_internal.adopted_failures), 0::bigint, 'notes about rows that are gone are removed');

-- the check on the status is held against the mapping
select lives_ok($$select baton.unadopt_outbox('outbox')$$, 'the adoption ends');
select throws_ok($$select baton.adopt_outbox('outbox', mapping => '{"states": {"dead": "dead"}}')$$, '22023', null,
                 'a state that the table would refuse is refused at adoption');
select lives_ok($$select baton.adopt_outbox('outbox', mapping => '{"attempts": {"rule": "exceeds"}, "backoff": {"kind": "none"}, "cleanup": {"processed_events": true}}')$$,
                'what the layout leaves open can be chosen');
select is((select array_agg(f.dead order by n) from generate_series(1, 6) n, lateral baton.fail_adopted('outbox', '00000000-0000-7000-8000-000000000002', 'x' || n) f),
          '{f,f,f,f,f,t}'::boolean[], 'five retries after the first attempt, when the count must exceed max_retries');

-- consumers
select ok(baton.mark_processed('00000000-0000-7000-8000-0000000000e1', 'mailer'), 'an event is new to a group the first time');
select ok(not baton.mark_processed('00000000-0000-7000-8000-0000000000e1', 'mailer'), 'and not the second time');
select ok(baton.mark_processed('00000000-0000-7000-8000-0000000000e1', 'search'), 'it is new to another group, though the event id is the primary key');
select ok(not baton.mark_processed('00000000-0000-7000-8000-0000000000e1', 'search'), 'once');
select is((select expires_at - processed_at from processed_events where consumer_group = 'mailer'), interval '24 hours', 'a mark lasts 24 hours');
update processed_events set expires_at = now() where consumer_group = 'mailer';
select ok(baton.mark_processed('00000000-0000-7000-8000-0000000000e1', 'mailer'), 'after its window an event counts as new');
update processed_events set expires_at = now() where consumer_group = 'mailer';
select is(baton.cleanup_processed_events(), 1::bigint, 'cleanup removes marks whose window is over');
select ok(not baton.mark_processed('00000000-0000-7000-8000-0000000000e1', 'search'), 'a group is recognised after another group''s mark is gone');
update processed_events set expires_at = now();
select is((select affected from baton.run_adopted_maintenance('outbox') where action = 'processed_events_expired'), 1::bigint, 'maintenance cleans up too');
alter table processed_events drop constraint processed_events_pkey, add primary key (event_id, consumer_group);
select is(array[baton.mark_processed('00000000-0000-7000-8000-0000000000e2', 'a'), baton.mark_processed('00000000-0000-7000-8000-0000000000e2', 'b'),
                baton.mark_processed('00000000-0000-7000-8000-0000000000e2', 'a')], '{t,t,f}', 'a table keyed by event and group works as well');
select is((select array_agg(distinct event_id::text) from processed_events), '{00000000-0000-7000-8000-0000000000e2}', 'there every group has the event''s own id');
select throws_ok($$select baton.mark_processed(null, 'a')$$, '22004', null, 'a mark needs an event');
select throws_ok($$select baton.mark_processed(gen_random_uuid(), 'a', 'nowhere')$$, '42P01', null, 'a mark needs its table');

select * from finish();
rollback;
