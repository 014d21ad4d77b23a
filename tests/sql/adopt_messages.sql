-- Preset messages: processed_at marks what is done, dead rows move to a table of their own, old ones to an archive.
begin;
select no_plan();
set local client_min_messages = warning;

create table outbox_messages (
    id bigint generated always as identity primary key,
    tenant_id bigint not null,
    aggregate_type text not null,
    aggregate_id bigint not null,
    event_type text not null,
    event_version smallint not null default 1,
    payload jsonb not null,
    occurred_at timestamptz not null default now(),
    available_at timestamptz not null default now(),
    processed_at timestamptz,
    attempts smallint not null default 0,
    last_error text,
    trace_id text
);
create index outbox_messages_pending_idx on outbox_messages (available_at, id) where processed_at is null;
create index outbox_messages_tenant_aggregate_idx on outbox_messages (tenant_id, aggregate_type, aggregate_id);
create table outbox_messages_archive (
    like outbox_messages including defaults including constraints
) partition by range (occurred_at);
create table outbox_messages_archive_202605 partition of outbox_messages_archive
    for values from ('2026-05-01') to ('2026-06-01');
create table consumer_offsets (
    consumer_name text not null,
    partition_key text not null default '',
    last_processed_id bigint not null,
    last_processed_at timestamptz not null default now(),
    primary key (consumer_name, partition_key)
);

select is(baton.adopt_outbox('outbox_messages', mapping => '{"cleanup": {"expire": true, "archive": true, "processed_events": true}}'), 'public.outbox_messages', 'the printed table is adopted under its own name');
select is((select preset from baton.adopted_outboxes), 'messages', 'its preset is detected by its columns');
select has_table('public', 'outbox_messages_dlq', 'the missing table for dead letters is created');
select is(baton.adopt_outbox('outbox_messages', mapping => '{"cleanup": {"expire": true, "archive": true, "processed_events": true}}'), 'public.outbox_messages', 'adopting again changes nothing');
select is((select count(*) from baton.adopted_outboxes), 1::bigint, 'there is still one adoption');
select throws_ok($$select baton.adopt_outbox('outbox_messages', mapping => '{"attempts": {"limit": 3}}')$$, '42710', null,
                 'adopting in another way is refused');

-- claim
insert into outbox_messages (tenant_id, aggregate_type, aggregate_id, event_type, payload, trace_id, available_at) values
    (7, 'Order', 1, 'OrderConfirmed', '{"n": 1}', 'trace-1', now()),
    (7, 'Order', 2, 'OrderConfirmed', '{"n": 2}', null, now() + interval '1 hour'),
    (8, 'Product', 3, 'ProductRenamed', '{"n": 3}', null, now() - interval '1 hour'),
    (8, 'Order', 4, 'OrderShipped', '{"n": 4}', null, now());
update outbox_messages set processed_at = now() where id = 4;
select results_eq($$select id from baton.claim_adopted('outbox_messages', 'w1')$$, $$values ('1'), ('3')$$,
                  'a claim takes what is not processed and available, by id');
select results_eq($$select id from baton.claim_adopted('outbox_messages', 'w1', 1)$$, $$values ('1')$$, 'a claim takes no more than its batch');
select row_eq($$select id, event_id, tenant_id, aggregate_type, aggregate_id, event_type, schema_version, topic, partition_key, routing_keys,
                       payload, headers, trace_id, occurred_at, attempt from baton.claim_adopted('outbox_messages', 'w1', 1)$$,
              row('1'::text, 'public.outbox_messages:1'::text, '7'::text, 'Order'::text, '1'::text, 'OrderConfirmed'::text, '1'::text, null::text, '1'::text, '{}'::text[],
                  '{"n": 1}'::jsonb, '{}'::jsonb, 'trace-1'::text, now(), 1), 'a claimed row has the common shape');
select is((select count(*) from outbox_messages where processed_at is null), 3::bigint, 'a claim does not mark anything processed');

-- ack
select results_eq($$select baton.ack_adopted('outbox_messages', '{1}')$$, $$values ('1')$$, 'an ack returns what it settled');
select is((select processed_at from outbox_messages where id = 1), now(), 'an acknowledged row has its processed_at');
select is_empty($$select baton.ack_adopted('outbox_messages', '{1,99}')$$, 'a second ack, or one of a row that is not there, settles nothing');

-- backoff
select is((select f.due from baton.fail_adopted('outbox_messages', '3', 'broker down') f), now() + interval '30 seconds',
          'the first failure waits 30 seconds');
select is((select (attempts, last_error, available_at) = (1, 'broker down', now() + interval '30 seconds') from outbox_messages where id = 3), true,
          'attempts, error and available_at are in the row');
select is_empty($$select id from baton.claim_adopted('outbox_messages', 'w1')$$, 'a failed row is not claimed before its time');
select is((select array_agg(f.due - now() order by n) from generate_series(2, 10) n, lateral baton.fail_adopted('outbox_messages', '3', 'again ' || n) f),
          array(select least(n, 8) * interval '30 seconds' from generate_series(2, 10) n),
          'the wait grows by 30 seconds with each failure and stops growing at the eighth');
select is((select attempts from outbox_messages where id = 3), 10::smallint, 'ten failures leave the row in the outbox');

-- dead letters
select is((select f.dead from baton.fail_adopted('outbox_messages', '3', 'the last straw') f), true, 'the failure that makes attempts exceed 10 is the last');
select is((select count(*) from outbox_messages where id = 3), 0::bigint, 'a dead row leaves the outbox');
select is((select (attempts, last_error, payload, tenant_id) = (11, 'the last straw', '{"n": 3}'::jsonb, 8) from outbox_messages_dlq where id = 3), true,
          'it arrives whole in the table of dead letters, with its last error');
select results_eq($$select id, event_type, attempts, error from baton.adopted_dead_letters('outbox_messages')$$,
                  $$values ('3', 'ProductRenamed', 11, 'the last straw')$$, 'dead letters are listed');
select is((select f.dead from baton.fail_adopted('outbox_messages', '2', 'no such route', true) f), true, 'a permanent failure is dead at once');
select is((select attempts from outbox_messages_dlq where id = 2), 1::smallint, 'with the attempts it had');
select is((select (dlq_depth, failed, processed) = (2, 12, 1) from baton.adopted_status('outbox_messages')), true,
          'the status counts dead letters, failures and processed events');
select is((select failures from baton.adopted_status('outbox_messages')), '{"OrderConfirmed": 1, "ProductRenamed": 11}', 'failures are counted by event type');
select results_eq($$select baton.replay_adopted('outbox_messages', '{3,77}')$$, $$values ('3')$$, 'a dead letter is replayed');
select is((select (attempts, last_error is null, available_at, processed_at is null) = (0, true, now(), true) from outbox_messages where id = 3), true,
          'it is pending again under its own id, with all its attempts');
select is((select count(*) from outbox_messages_dlq), 1::bigint, 'and has left the dead letters');
select throws_ok($$select baton.fail_adopted('outbox_messages', '1', 'x')$$, 'P0002', null, 'a settled row cannot fail');

-- lag
update outbox_messages set occurred_at = now() - interval '90 seconds' where id = 3;
select is((select lag_seconds from baton.adopted_status('outbox_messages')), 90::float8, 'lag is the age of the oldest event not processed');
select results_eq($$select baton.ack_adopted('outbox_messages', '{3}')$$, $$values ('3')$$, 'a replayed event is acknowledged like any other');
select is((select lag_seconds from baton.adopted_status('outbox_messages')), 0::float8, 'lag is zero when all is processed');

-- archive
truncate outbox_messages;
insert into outbox_messages (tenant_id, aggregate_type, aggregate_id, event_type, payload, occurred_at, processed_at) values
    (1, 'Order', 11, 'old', '{}', now() - interval '40 days', now() - interval '7 days 1 second'),
    (1, 'Order', 12, 'young', '{}', now() - interval '40 days', now() - interval '6 days 23 hours'),
    (1, 'Order', 13, 'pending', '{}', now() - interval '40 days', null),
    (1, 'Order', 14, 'month of another zone', '{}', date_trunc('month', now(), 'UTC') - interval '19 hours', now() - interval '8 days'),
    (1, 'Order', 16, 'before it', '{}', date_trunc('month', now(), 'UTC') - interval '1 month' + interval '2 hours', now() - interval '8 days'),
    (1, 'Order', 15, 'ancient', '{}', now() - interval '200 days', now() - interval '8 days');
do $$
declare
    month timestamptz := date_trunc('month', now(), 'UTC') - interval '1 month' + interval '5 hours';
begin
    execute format('create table archive_of_another_zone partition of outbox_messages_archive for values from (%L) to (%L)', month, month + interval '1 month');
end
$$;
select is((select affected from baton.run_adopted_maintenance('outbox_messages') where action = 'archived'), 4::bigint,
          'what was processed more than seven days ago moves to the archive');
select bag_eq('select event_type from outbox_messages', $$values ('young'), ('pending')$$, 'the rest stays');
select bag_eq('select event_type from outbox_messages_archive', $$values ('old'), ('month of another zone'), ('before it')$$,
              'archived rows lie in the archive, except where their partition is older than 90 days');
select is((select tableoid::regclass::text from outbox_messages_archive where event_type = 'month of another zone'), 'archive_of_another_zone',
          'a partition made beforehand is used, wherever its month was cut');
select has_table('public', 'outbox_messages_archive_' || to_char(now() at time zone 'UTC', 'YYYYMM'), 'this month has its partition');
select has_table('public', 'outbox_messages_archive_' || to_char(date_trunc('month', now() at time zone 'UTC') + interval '2 months', 'YYYYMM'), 'and so have the months ahead');
select is((select affected from baton.run_adopted_maintenance('outbox_messages') where action = 'archived'), 0::bigint, 'archiving again moves nothing');
select is((select count(*) from outbox_messages_archive), 3::bigint, 'nor does it double anything');

-- archive retention
create table outbox_messages_archive_old partition of outbox_messages_archive for values from ('2001-01-01 00:00+00') to ('2001-02-01 00:00+00');
select is((select affected from baton.run_adopted_maintenance() where action = 'archive_partitions_dropped'), 1::bigint,
          'an archive partition older than 90 days is dropped');
select hasnt_table('public', 'outbox_messages_archive_old', 'and is gone');
select has_table('public', 'archive_of_another_zone', 'a younger one stays');

-- rights
create role adopt_keeper;
grant baton_operator to adopt_keeper;
grant adopt_keeper to current_user;
grant create, usage on schema public to adopt_keeper;
select form = 'extension' as as_owner from baton.installation \gset
\if :as_owner
alter table outbox_messages owner to adopt_keeper;
alter table outbox_messages_dlq owner to adopt_keeper;
alter table outbox_messages_archive owner to adopt_keeper;
alter table consumer_offsets owner to adopt_keeper;
update outbox_messages set processed_at = now() - interval '30 days', occurred_at = now() - interval '70 days' where event_type = 'young';
set local role adopt_keeper;
select is((select affected from baton.run_adopted_maintenance('outbox_messages') where action = 'archived'), 1::bigint,
          'the owner of the tables does their maintenance, without being a superuser');
select is((select f.dead from baton.fail_adopted('outbox_messages', (select max(id)::text from outbox_messages), 'x', true) f), true, 'and works them');
select is((select count(*) from baton.replay_adopted('outbox_messages', array(select id::text from outbox_messages_dlq order by id desc limit 1))), 1::bigint, 'and replays');
select is((select count(*) from baton.adopted_dead_letters('outbox_messages')), 1::bigint, 'and lists');
reset role;
reassign owned by adopt_keeper to current_user;
\else
delete from outbox_messages where event_type = 'young';
\endif

-- end of the adoption
select lives_ok($$select baton.unadopt_outbox('outbox_messages')$$, 'an adoption can end');
select is((select count(*) from outbox_messages), 1::bigint, 'the table and its rows stay');
select throws_ok($$select * from baton.claim_adopted('outbox_messages', 'w1')$$, '42704', null, 'an outbox no longer adopted cannot be claimed');

-- the table partitioned by month, as it is to be when it has grown
alter table outbox_messages rename to outbox_messages_plain;
truncate outbox_messages_dlq;
create table outbox_messages (
    id bigint generated always as identity,
    tenant_id bigint not null,
    aggregate_type text not null,
    aggregate_id bigint not null,
    event_type text not null,
    event_version smallint not null default 1,
    payload jsonb not null,
    occurred_at timestamptz not null default now(),
    available_at timestamptz not null default now(),
    processed_at timestamptz,
    attempts smallint not null default 0,
    last_error text,
    trace_id text,
    primary key (id, occurred_at)
) partition by range (occurred_at);
select lives_ok($$select baton.adopt_outbox('outbox_messages', mapping => '{"cleanup": {"expire": true, "archive": true, "processed_events": true}}')$$, 'the table partitioned by month is adopted by the same preset');
select is((select affected from baton.run_adopted_maintenance('outbox_messages') where action = 'partitions_created'), 3::bigint, 'its months are made ahead');
insert into outbox_messages (tenant_id, aggregate_type, aggregate_id, event_type, payload) select 1, 'Order', n, 'e', '{}' from generate_series(1, 3) n;
select results_eq($$select id from baton.claim_adopted('outbox_messages', 'w1', 2)$$, $$values ('1'), ('2')$$, 'its rows are claimed by id');
select results_eq($$select baton.ack_adopted('outbox_messages', '{1}')$$, $$values ('1')$$, 'acknowledged');
select is((select f.dead from baton.fail_adopted('outbox_messages', '2', 'no', true) f), true, 'and die');
select results_eq($$select baton.replay_adopted('outbox_messages', '{2}')$$, $$values ('2')$$, 'and are replayed');
select results_eq($$select id from baton.claim_adopted('outbox_messages', 'w1')$$, $$values ('2'), ('3')$$, 'as in the plain table');

select * from finish();
rollback;
