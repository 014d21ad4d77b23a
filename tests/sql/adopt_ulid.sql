-- Preset ulid: ULID ids, states 0, 1, 2 and 9, retry_after, routing keys with commas, errors in metadata.
begin;
select no_plan();
set local client_min_messages = warning;

create table outbox_events (
    id varchar(26) primary key,
    topic varchar(100) not null,
    occurred_at timestamptz not null,
    schema_version smallint not null default 1,
    aggregate_id varchar(64) not null,
    aggregate_type varchar(50) not null,
    tenant_id varchar(32) not null default 'default',
    routing_key varchar(100),
    payload jsonb not null,
    metadata jsonb default '{}',
    status smallint not null default 0,
    retry_count smallint not null default 0,
    retry_after timestamptz,
    created_at timestamptz not null default now()
);
create index idx_outbox_processing on outbox_events (status, retry_after) where status in (0, 2);
create index idx_outbox_tenant on outbox_events (tenant_id, created_at);
create index idx_outbox_aggregate on outbox_events (aggregate_type, aggregate_id);

select is(baton.adopt_outbox('outbox_events'), 'public.outbox_events', 'the printed table is adopted');
select is((select preset from baton.adopted_outboxes), 'ulid', 'its preset is detected by its columns, though another has a table of the same name');

insert into outbox_events (id, topic, occurred_at, aggregate_id, aggregate_type, routing_key, payload, metadata, status, retry_after, created_at) values
    ('01ARZ3NDEKTSV4RRFFQ69G5FA1', 'catalog.product.created', now(), 'p1', 'Product', 'catalog.product.created, search.index,', '{"n": 1}', '{"trace_id": "tr"}', 0, null, now() - interval '1 minute'),
    ('01ARZ3NDEKTSV4RRFFQ69G5FA2', 'catalog.product.renamed', now(), 'p2', 'Product', 'catalog.product', '{"n": 2}', null, 0, now() + interval '1 hour', now() - interval '2 minutes'),
    ('01ARZ3NDEKTSV4RRFFQ69G5FA3', 'catalog.product.renamed', now(), 'p3', 'Product', null, '{"n": 3}', '{}', 2, now(), now() - interval '3 minutes'),
    ('01ARZ3NDEKTSV4RRFFQ69G5FA4', 'catalog.product.renamed', now(), 'p4', 'Product', null, '{"n": 4}', '{}', 2, now() + interval '1 second', now()),
    ('01ARZ3NDEKTSV4RRFFQ69G5FA5', 'catalog.product.renamed', now(), 'p5', 'Product', null, '{"n": 5}', '{}', 1, null, now()),
    ('01ARZ3NDEKTSV4RRFFQ69G5FA6', 'catalog.product.renamed', now(), 'p6', 'Product', null, '{"n": 6}', '{}', 9, null, now());

-- claim
select results_eq($$select payload ->> 'n' from baton.claim_adopted('outbox_events', 'w1')$$, $$values ('3'), ('2'), ('1')$$,
                  'a claim takes new rows, and failed ones from their retry_after on, oldest first');
select results_eq($$select payload ->> 'n', routing_keys from baton.claim_adopted('outbox_events', 'w1')$$,
                  $$values ('3', '{}'::text[]), ('2', '{catalog.product}'), ('1', '{catalog.product.created,search.index}')$$,
                  'a routing key with commas fans out');
select row_eq($$select id, event_id, tenant_id, aggregate_type, aggregate_id, event_type, schema_version, topic, partition_key, trace_id, attempt
                  from baton.claim_adopted('outbox_events', 'w1') where payload ->> 'n' = '1'$$,
              row('01ARZ3NDEKTSV4RRFFQ69G5FA1'::text, '01ARZ3NDEKTSV4RRFFQ69G5FA1'::text, 'default'::text, 'Product'::text, 'p1'::text, 'catalog.product.created'::text,
                  '1'::text, 'catalog.product.created'::text, 'p1'::text, 'tr'::text, 1), 'the topic names the event, the metadata its trace');

-- ack
select results_eq($$select baton.ack_adopted('outbox_events', '{01ARZ3NDEKTSV4RRFFQ69G5FA1}')$$, $$values ('01ARZ3NDEKTSV4RRFFQ69G5FA1')$$, 'an event is acknowledged');
select is((select status from outbox_events where payload ->> 'n' = '1'), 1::smallint, 'it is SENT');

-- failure
select is((select (f.dead, f.attempts) = (false, 1) from baton.fail_adopted('outbox_events', '01ARZ3NDEKTSV4RRFFQ69G5FA2', 'broker "down"') f), true, 'a failure is not the end');
select is((select (status, retry_count, metadata) = (2, 1, '{"last_error": "broker \"down\""}'::jsonb) from outbox_events where payload ->> 'n' = '2'), true,
          'the row is FAILED and its metadata holds the error');
select ok((select retry_after - now() between interval '4.5 seconds' and interval '5.5 seconds' from outbox_events where payload ->> 'n' = '2'), 'it waits about five seconds');
update outbox_events set retry_after = now() where payload ->> 'n' = '2';
select is((select headers from baton.claim_adopted('outbox_events', 'w1') where payload ->> 'n' = '2'), '{}', 'the error is not sent along as a header');
select is((select array_agg(f.dead order by n) from generate_series(2, 10) n, lateral baton.fail_adopted('outbox_events', '01ARZ3NDEKTSV4RRFFQ69G5FA2', 'e' || n) f),
          '{f,f,f,f,f,f,f,f,t}'::boolean[], 'the tenth failure is the last');
select is((select (status, retry_count) = (9, 10) from outbox_events where payload ->> 'n' = '2'), true, 'the row is DEAD');
select bag_eq($$select payload ->> 'n' as n, error from baton.adopted_dead_letters('outbox_events')$$, $$values ('2', 'e10'), ('6', null)$$, 'dead letters are the rows in state 9');
select is((select f.dead from baton.fail_adopted('outbox_events', '01ARZ3NDEKTSV4RRFFQ69G5FA3', 'never', true) f), true, 'a permanent failure is DEAD at once');
select is((select count(*) from baton.replay_adopted('outbox_events', '{01ARZ3NDEKTSV4RRFFQ69G5FA2}')), 1::bigint, 'a dead letter is replayed');
select is((select (status, retry_count, retry_after is null, metadata) = (0, 0, true, '{}'::jsonb) from outbox_events where payload ->> 'n' = '2'), true, 'it is NEW');
select is((select (pending, dlq_depth) = (2, 2) from baton.adopted_status('outbox_events')), true, 'the status counts new, failed and dead rows');
select lives_ok($$select baton.run_adopted_maintenance('outbox_events')$$, 'maintenance runs');
select is((select count(*) from outbox_events), 6::bigint, 'and removes nothing, for the layout says nothing of it');

-- the partitioned variant: the primary key takes created_at in, as the server demands
select lives_ok($$select baton.unadopt_outbox('outbox_events')$$, 'the adoption ends');
alter table outbox_events rename to outbox_events_plain;
create table outbox_events (like outbox_events_plain including defaults including constraints, primary key (id, created_at)) partition by range (created_at);
create table outbox_events_202411 partition of outbox_events for values from ('2024-11-01') to ('2024-12-01');
select is(baton.adopt_outbox('outbox_events'), 'public.outbox_events', 'the partitioned table is adopted');
select is((select affected from baton.run_adopted_maintenance('outbox_events') where action = 'partitions_created'), 3::bigint, 'partitions are made ahead, by month');
insert into outbox_events select * from outbox_events_plain;
insert into outbox_events (id, topic, occurred_at, aggregate_id, aggregate_type, payload, created_at)
values ('01ARZ3NDEKTSV4RRFFQ69G5FA7', 't', now(), 'p7', 'Product', '{"n": 7}', '2024-11-11');
select results_eq($$select payload ->> 'n' from baton.claim_adopted('outbox_events', 'w1')$$, $$values ('7'), ('2')$$, 'a claim takes rows of all partitions by age');
select is((select count(*) from baton.ack_adopted('outbox_events', '{01ARZ3NDEKTSV4RRFFQ69G5FA7,01ARZ3NDEKTSV4RRFFQ69G5FA2}')), 2::bigint, 'and an ack reaches them');

select * from finish();
rollback;
