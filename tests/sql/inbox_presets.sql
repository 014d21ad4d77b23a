-- Known layouts: a table with status, attempts and locks (plain and partitioned), and a table of processed ids.
begin;
select no_plan();

create function inbox_columns() returns text language sql as $$ select '
    id uuid not null, event_type varchar(100) not null, message_id varchar(255) not null, consumer_group varchar(255) not null,
    source varchar(255) not null, payload jsonb not null, headers jsonb, trace_id varchar(64), idempotency_key varchar(128),
    correlation_id varchar(64), causation_id varchar(64), schema_version varchar(50), status varchar(20) not null default ''pending'',
    attempts_made integer not null default 0, max_attempts integer not null default 6, last_error varchar(2000),
    scheduled_at timestamptz not null, completed_at timestamptz, locked_at timestamptz, locked_by varchar(255),
    created_at timestamptz not null default timezone(''UTC'', now()), updated_at timestamptz default timezone(''UTC'', now()),
    constraint ck_%1$s_attempts_valid check (attempts_made <= max_attempts),
    constraint ck_%1$s_completed_status_consistency check ((status = ''completed'' and completed_at is not null) or (status <> ''completed'' and completed_at is null)),
    constraint ck_%1$s_lock_consistency check ((locked_at is null and locked_by is null) or (locked_at is not null and locked_by is not null))' $$;
do $$ begin
    execute format('create table inbox_events (' || inbox_columns() || ', primary key (id))', 'inbox_events');
    execute format('create table inbox_events_partitioned (' || inbox_columns() || ', primary key (id, created_at)) partition by range (created_at)', 'inbox_events_p');
end $$;
create unique index idx_inbox_deduplication on inbox_events (message_id, consumer_group);
create index idx_inbox_events_pending_fetch on inbox_events (scheduled_at) where status = 'pending' and locked_at is null and attempts_made < max_attempts;
create unique index idx_inbox_events_idempotency_key on inbox_events (idempotency_key) where idempotency_key is not null;
create unique index idx_inbox_events_p_deduplication on inbox_events_partitioned (message_id, consumer_group, created_at);
create table inbox_events_p0 partition of inbox_events_partitioned default;
set local timezone = 'UTC';

select throws_ok($$select baton.adopt_inbox('inbox_events')$$, '22023', null, 'a table of several groups is adopted per group');
select lives_ok($$select baton.adopt_inbox('billing', 'inbox_events', consumer_group => 'billing')$$, 'one group');
select lives_ok($$select baton.adopt_inbox('mailing', 'inbox_events', consumer_group => 'mailing')$$, 'and another of the same table');
select throws_ok($$select baton.adopt_inbox('again', 'inbox_events', consumer_group => 'mailing')$$, '42710', null, 'each once');
select is((select layout from baton.inboxes where name = 'billing'), 'omni_box', 'the layout is recognised');

select is(baton.receive('billing', 'm1', 't', '{}', 'bank', headers => '{"h": 1}', trace_id => 'tr'), 'new', 'new for one group');
select is(baton.receive('mailing', 'm1', 't', '{}', 'bank'), 'new', 'new for the other');
select is(baton.receive('billing', 'm1', 't', '{}', 'bank'), 'duplicate', 'and then a duplicate');
select results_eq($$select consumer_group::text, status::text, attempts_made, max_attempts, completed_at from inbox_events order by 1$$,
    $$values ('billing', 'pending', 0, 6, null::timestamptz), ('mailing', 'pending', 0, 6, null)$$, 'rows as the layout wants them');
create temp table w1 as select * from baton.claim_inbox('billing', 'w1');
select results_eq('select event_id, event_type, source, headers, trace_id from w1', $$values ('m1', 't', 'bank', '{"h": 1}'::jsonb, 'tr')$$, 'a claim is one group''s');
select results_eq($$select locked_at is not null, locked_by::text from inbox_events where consumer_group = 'billing'$$, $$values (true, 'w1')$$, 'it takes the table''s own lock');
select is((select locked_by from inbox_events where consumer_group = 'mailing'), null, 'on that group''s row alone');
select is(baton.complete('billing', 'm1', (select lease_token from w1)), 1::bigint, 'complete');
select results_eq($$select status::text, completed_at is not null, locked_at, locked_by::text from inbox_events where consumer_group = 'billing'$$,
    $$values ('completed', true, null::timestamptz, null::text)$$, 'by the layout''s rules');

create temp table w2 as select * from baton.claim_inbox('mailing', 'w2');
select baton.fail('mailing', 'm1', repeat('x', 3000), false, (select lease_token from w2));
select results_eq($$select status::text, attempts_made, length(last_error), locked_at, scheduled_at > now() from inbox_events where consumer_group = 'mailing'$$,
    $$values ('pending', 1, 2000, null::timestamptz, true)$$, 'a failure reschedules and fits the error into its column');
select is_empty($$select * from baton.claim_inbox('mailing', 'w2')$$, 'it waits for scheduled_at');
update inbox_events set scheduled_at = now(), attempts_made = 5 where consumer_group = 'mailing';
create temp table w3 as select * from baton.claim_inbox('mailing', 'w3');
select baton.fail('mailing', 'm1', 'last', false, (select lease_token from w3));
select results_eq($$select status::text, attempts_made, last_error::text from dlq_mailing$$, $$values ('failed', 6, 'last')$$, 'max_attempts of the row decides about death');
select is(baton.replay_inbox_messages('mailing', '{m1}'), 1::bigint, 'replay');
select results_eq($$select status::text, attempts_made, completed_at from inbox_events where consumer_group = 'mailing'$$, $$values ('pending', 0, null::timestamptz)$$, 'resets the row');
select is(baton.replay_inbox_messages('billing', '{m1}'), 1::bigint, 'also a completed one');

-- locks of other workers
update inbox_events set locked_at = now(), locked_by = 'somebody' where consumer_group = 'mailing';
select is_empty($$select * from baton.claim_inbox('mailing', 'w4')$$, 'a row that another program has locked is left alone');
update inbox_events set locked_at = now() - interval '10 minutes' where consumer_group = 'mailing';
create temp table w4 as select * from baton.claim_inbox('mailing', 'w4');
select is((select count(*) from w4), 1::bigint, 'until its lock is stale');
update baton_internal.inbox_work set leased_until = now() - interval '1 s';
select is((select attempt from baton.claim_inbox('mailing', 'w5')), 2, 'a lease of ours that ran out counts');
select throws_ok(format($$select baton.complete('mailing', 'm1', %L)$$, (select lease_token from w4)), 'BT001', null, 'and is lost');
select baton.release_inbox('mailing', '{m1}', (select lease_token from baton_internal.inbox_work where leased_by = 'w5'));
select is((select locked_by from inbox_events where consumer_group = 'mailing'), null, 'a release unlocks');

-- partitioned: no key over all partitions
select lives_ok($$select baton.adopt_inbox('parts', 'inbox_events_partitioned', consumer_group => 'g')$$, 'a partitioned table is adopted');
select is(baton.receive('parts', 'm1', 't', '{}'), 'new', 'new');
select is(baton.receive('parts', 'm1', 't', '{}'), 'duplicate', 'duplicates are recognised though its key includes the time');
insert into inbox_events_partitioned (id, event_type, message_id, consumer_group, source, payload, scheduled_at, created_at)
values (gen_random_uuid(), 't', 'direct', 'g', 's', '{}', now(), now() - interval '1 day');
select is(baton.receive('parts', 'direct', 't', '{}'), 'duplicate', 'also of rows that came another way');
create temp table w6 as select * from baton.claim_inbox('parts', 'w6');
select is((select count(*) from w6), 2::bigint, 'claim');
select is(baton.complete('parts', array['m1', 'direct'], (select lease_token from w6 limit 1)), 2::bigint, 'complete');
select is(baton.drop_inbox('parts', false, true), true, 'drop');
select has_table('inbox_events_partitioned', 'leaves the table');

-- processed ids
create table processed_events (event_id uuid primary key, consumer_group varchar(100) not null, processed_at timestamptz not null default now(),
                               expires_at timestamptz not null default (now() + interval '24 hours'));
create index idx_processed_events_expires on processed_events (expires_at);
select throws_ok($$select baton.adopt_inbox('processed_events')$$, '22023', null, 'the table of processed ids belongs to a group');
select lives_ok($$select baton.adopt_inbox('seen', 'processed_events', consumer_group => 'g')$$, 'adopted');
select throws_ok($$select baton.adopt_inbox('seen2', 'processed_events', consumer_group => 'h')$$, '42710', null, 'its key leaves room for one group');
select is(baton.receive('seen', '00000000-0000-0000-0000-000000000001', null, null), 'new', 'an id is new');
select is(baton.receive('seen', '00000000-0000-0000-0000-000000000001', null, null), 'duplicate', 'then a duplicate');
select results_eq('select consumer_group::text, expires_at from processed_events', $$values ('g', now() + interval '24 hours')$$, 'kept for the window of the table');
update processed_events set expires_at = now() - interval '1 s';
select is(baton.receive('seen', '00000000-0000-0000-0000-000000000001', null, null), 'new', 'after the window it counts again');
insert into processed_events (event_id, consumer_group) values ('00000000-0000-0000-0000-000000000002', 'h');
select throws_ok($$select baton.receive('seen', '00000000-0000-0000-0000-000000000002', null, null)$$, 'BT003', null,
                 'another group''s record does not make it a duplicate');
select throws_ok($$select * from baton.claim_inbox('seen', 'w')$$, 'BT004', null, 'there is nothing to claim');
select throws_ok($$select baton.complete('seen', 'x')$$, 'BT004', null, 'nor complete');
select throws_ok($$select baton.replay_inbox_messages('seen', '{}')$$, 'BT004', null, 'nor replay');
select throws_ok($$select baton.enable_inbox_ordering('seen')$$, 'BT004', null, 'nor order');
select is(baton.inbox_health('seen') ->> 'health_status', 'healthy', 'its health can be asked');
update processed_events set expires_at = now() - interval '1 s' where consumer_group = 'g';
select is((select drained from baton.run_inbox_maintenance() where inbox = 'public.seen'), 0::bigint, 'expired ids stay unless asked for');
select baton.alter_inbox('seen', retention_hours => 0);
select is((select drained from baton.run_inbox_maintenance() where inbox = 'public.seen'), 1::bigint, 'then maintenance removes expired ids of the group');
select is((select count(*) from processed_events), 1::bigint, 'and no others');

select * from finish();
rollback;
