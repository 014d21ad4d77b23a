-- Consumers with their own offsets beside an adopted outbox. Late commits need two sessions: see tests/isolation.
begin;
select no_plan();
set local client_min_messages = error;

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
create table consumer_offsets (
    consumer_name text not null,
    partition_key text not null default '',
    last_processed_id bigint not null,
    last_processed_at timestamptz not null default now(),
    primary key (consumer_name, partition_key)
);
select lives_ok($$select baton.adopt_outbox('outbox_messages', mapping => '{"cleanup": {"expire": true, "archive": true, "processed_events": true}}')$$, 'the outbox is adopted with its offsets');
insert into outbox_messages (tenant_id, aggregate_type, aggregate_id, event_type, payload, processed_at)
select 1 + n % 2, 'Order', n, 'e', jsonb_build_object('n', n), case when n <> 4 then now() end from generate_series(1, 6) n;

-- reading
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'graph', batch_size => 2)$$, $$values ('1'), ('2')$$,
                  'a consumer without a position starts at the beginning');
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'graph', batch_size => 2)$$, $$values ('1'), ('2')$$,
                  'reading alone moves nothing');
select is(baton.advance_consumer_offset('outbox_messages', 'graph', 2), 2::bigint, 'the consumer moves its position');
select is((select (last_processed_id, last_processed_at) = (2, now()) from consumer_offsets where consumer_name = 'graph' and partition_key = ''), true, 'it is in the table');
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'graph')$$, $$values ('3')$$,
                  'a batch ends before an event that is not processed yet');
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'graph', in_order => false)$$, $$values ('3'), ('5'), ('6')$$,
                  'unless the consumer does not mind to miss it');
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'other')$$, $$values ('1'), ('2'), ('3')$$, 'each consumer has its own position');
update outbox_messages set processed_at = now() where id = 4;
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'graph')$$, $$values ('3'), ('4'), ('5'), ('6')$$, 'once it is processed all follow');

-- moving
select is(baton.advance_consumer_offset('outbox_messages', 'graph', 6), 6::bigint, 'the position moves on');
select is(baton.advance_consumer_offset('outbox_messages', 'graph', 3), 6::bigint, 'and never back by advancing');
select is_empty($$select id from baton.read_consumer_batch('outbox_messages', 'graph')$$, 'there is no more to read');
select lives_ok($$select baton.set_consumer_offset('outbox_messages', 'graph', 4)$$, 'the position can be set back');
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'graph')$$, $$values ('5'), ('6')$$, 'to replay');

-- partitions
update outbox_messages set processed_at = null where id = 2;
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'graph', '1')$$, $$select n::text from unnest('{}'::int[]) n$$,
                  'a partition key selects the rows of that tenant, held up by its own pending event');
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'graph', '2')$$, $$values ('1'), ('3'), ('5')$$, 'not by that of another');
select lives_ok($$select baton.advance_consumer_offset('outbox_messages', 'graph', 5, '2')$$, 'a partition has its own position');
select bag_eq($$select partition_key, last_processed_id from consumer_offsets where consumer_name = 'graph'$$,
              $$values ('', 4::bigint), ('1', 0), ('2', 5)$$, 'apart from the others');
update outbox_messages set processed_at = now() where id = 2;

-- archive
update outbox_messages set processed_at = now() - interval '8 days' where id <= 3;
select is((select affected from baton.run_adopted_maintenance('outbox_messages') where action = 'archived'), 3::bigint, 'old events are archived');
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'other')$$, $$values ('1'), ('2'), ('3'), ('4'), ('5'), ('6')$$,
                  'a consumer that is behind reads on from the archive');
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'other', batch_size => 2)$$, $$values ('1'), ('2')$$, 'in batches');
select results_eq($$select id from baton.read_consumer_batch('outbox_messages', 'graph')$$, $$values ('5'), ('6')$$, 'one that is not reads as before');

-- parts by hash
select lives_ok($$select baton.unadopt_outbox('outbox_messages')$$, 'the adoption ends');
select lives_ok($$select baton.adopt_outbox('outbox_messages', mapping => '{"offsets": {"partition": "hash"}, "cleanup": {"archive": true}}')$$, 'and begins with parts by hash');
select bag_eq($$select id from generate_series(0, 2) i, lateral baton.read_consumer_batch('outbox_messages', 'hashed', i || '/3')$$,
              $$values ('1'), ('2'), ('3'), ('4'), ('5'), ('6')$$, 'every event is in exactly one part');
select throws_ok($$select * from baton.read_consumer_batch('outbox_messages', 'hashed', '3/3')$$, '22023', null, 'a part that is none is refused');

-- rights
create role offset_reader;
grant baton_consumer to offset_reader;
grant offset_reader to current_user;
grant usage on schema public to offset_reader;
grant select on outbox_messages, outbox_messages_archive to offset_reader;
grant select, insert, update on consumer_offsets to offset_reader;
set local role offset_reader;
select is((select count(*) from baton.read_consumer_batch('outbox_messages', 'reader')), 6::bigint, 'a consumer needs no more than to read the outbox');
select is(baton.advance_consumer_offset('outbox_messages', 'reader', 6), 6::bigint, 'and to write its position');
select lives_ok($$select baton.set_consumer_offset('outbox_messages', 'reader', 0)$$, 'also back');
select throws_ok($$update baton_internal.adopted_horizons set settled_id = 1000$$, '42501', null, 'it cannot tamper with what is decided');
reset role;

-- what is refused
select throws_ok($$select * from baton.read_consumer_batch('outbox_messages', null)$$, '22004', null, 'a consumer needs a name');
select throws_ok($$select * from baton.read_consumer_batch('outbox_messages', 'c', batch_size => 0)$$, '22023', null, 'a batch has at least one event');
select throws_ok($$select baton.advance_consumer_offset('outbox_messages', 'c', null)$$, '22004', null, 'a position is not null');
select throws_ok($$select baton.set_consumer_offset('outbox_messages', 'c', -1)$$, '22023', null, 'nor negative');
alter table outbox_messages alter id set cache 10;
select throws_ok($$select * from baton.read_consumer_batch('outbox_messages', 'c')$$, '55000', null, 'ids drawn ahead by sessions cannot be read in order');
select isnt_empty($$select * from baton.read_consumer_batch('outbox_messages', 'c', in_order => false)$$, 'but out of order');

select * from finish();
rollback;
