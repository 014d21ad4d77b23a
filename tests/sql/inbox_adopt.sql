-- Existing tables as inboxes.
begin;
select no_plan();
create schema app;
set search_path = app, public;

-- any column names
create table app.msgs (msg_no bigint primary key, kind varchar(50) not null, arrived timestamptz not null default now(), handled timestamptz,
                       tries smallint not null default 0, last_problem text, payload jsonb, source text, aggregate_id uuid);
select is(baton.enable_inbox_tracking('orders_in', 'msgs', 'msg_no', 'handled', 'tries', 'last_problem', 'arrived', 'kind', 2, '5s'), 'app.orders_in',
          'a table with its own column names is adopted');
select results_eq($$select layout, concat_ws(',', source_column, payload_column, aggregate_id_column, trace_id_column, headers_column) collate "default", max_retries, schedule
                      from baton.inboxes where name = 'orders_in'$$,
    $$values ('mapped', 'source,payload,aggregate_id', 2, interval '5 s')$$, 'optional columns are used if they are there');
select columns_are('app', 'msgs', array['msg_no', 'kind', 'arrived', 'handled', 'tries', 'last_problem', 'payload', 'source', 'aggregate_id'], 'the table is not changed');
select is((select count(*) from pg_trigger where tgrelid = 'app.msgs'::regclass), 0::bigint, 'nor gets it triggers');
select has_view('app', 'pending_orders_in', 'views go by the inbox''s name');
insert into msgs (msg_no, kind, arrived) values (1, 'a', now() - interval '3 s'), (2, 'a', now() - interval '2 s'), (3, 'b', now() - interval '1 s');
select is((select count(*) from pending_orders_in), 3::bigint, 'pending through the mapped columns');
select is(baton.receive('orders_in', '4', 'c', '{"x": 1}', 'src', '11111111-1111-1111-1111-111111111111'), 'new', 'receive');
select results_eq('select kind, payload, source, aggregate_id::text, handled, tries from msgs where msg_no = 4',
    $$values ('c'::varchar, '{"x": 1}'::jsonb, 'src', '11111111-1111-1111-1111-111111111111', null::timestamptz, 0::smallint)$$, 'fills the mapped columns');
select is(baton.receive('orders_in', '4', 'c', '{}'), 'duplicate', 'a redelivery');
select is(baton.receive('orders_in', '1', 'c', '{}'), 'duplicate', 'a row that came another way is recognised too');
delete from msgs where msg_no = 4;
select is(baton.receive('orders_in', '4', 'c', '{}'), 'duplicate', 'and one whose row the application has deleted');
select throws_ok($$select baton.receive('orders_in', 'x', 'c', '{}')$$, '22P02', null, 'an id must fit its column');

create temp table w1 as select * from baton.claim_inbox('orders_in', 'w1', 2);
select results_eq('select event_id, event_type, attempt from w1', $$values ('1', 'a', 1), ('2', 'a', 1)$$, 'claim, oldest first');
select results_eq($$select event_id from baton.claim_inbox('orders_in', 'w2', 5)$$, $$values ('3')$$, 'leases hold');
select throws_ok($$select baton.complete('orders_in', '1', gen_random_uuid())$$, 'BT001', null, 'a wrong token: lease lost');
select throws_ok($$select baton.complete('orders_in', '1')$$, 'BT003', null, 'no token: owned by somebody else');
select throws_ok($$select baton.complete('orders_in', '77', gen_random_uuid())$$, 'BT002', null, 'no such message');
select is(baton.complete('orders_in', '1', (select lease_token from w1 limit 1)), 1::bigint, 'complete');
select ok((select handled is not null from msgs where msg_no = 1), 'sets the mapped column');
select throws_ok(format($$select baton.complete('orders_in', '1', %L)$$, (select lease_token from w1 limit 1)), 'BT001', null, 'once');
select is(baton.fail('orders_in', '2', 'oh', false, (select lease_token from w1 limit 1)), 1::bigint, 'fail');
select results_eq('select tries, last_problem from msgs where msg_no = 2', $$values (1::smallint, 'oh')$$, 'counts in the mapped column');
select is_empty($$select * from baton.claim_inbox('orders_in', 'w3')$$, 'and waits');
update baton_internal.inbox_work set available_at = now();
create temp table w3 as select * from baton.claim_inbox('orders_in', 'w3');
select results_eq('select event_id, attempt from w3', $$values ('2', 2)$$, 'then comes again');
update baton_internal.inbox_work set leased_until = now() - interval '1 s';
select results_eq($$select event_id, attempt from baton.claim_inbox('orders_in', 'w4')$$, $$values ('3', 2)$$, 'leases that ran out count as attempts');
select results_eq('select msg_no, tries from dlq_orders_in', $$values (2::bigint, 2::smallint)$$, 'and the last one makes a dead letter');
select is(baton.release_inbox('orders_in', '{3}', (select lease_token from baton_internal.inbox_work where event_id = '3')), 1::bigint, 'release');
select results_eq($$select event_id, attempt from baton.claim_inbox('orders_in', 'w5')$$, $$values ('3', 2)$$, 'gives it back uncounted');
select ok(baton.extend_inbox_lease('orders_in', '{3}', (select lease_token from baton_internal.inbox_work where event_id = '3'), 500) > clock_timestamp() + interval '490 s', 'extend');
select is(baton.fail('orders_in', array['3'], 'never', true, (select lease_token from baton_internal.inbox_work where event_id = '3')), 1::bigint, 'permanent failure');
select is((select count(*) from dlq_orders_in), 2::bigint, 'is dead at once');
select is(baton.replay_inbox_messages('orders_in', '{1,2,3}'), 3::bigint, 'replay');
select is((select count(*) from baton.claim_inbox('orders_in', 'w6')), 3::bigint, 'offers all again');
select is((baton.inbox_health('orders_in') ->> 'pending_count')::int, 3, 'health reads the mapped columns');
select is((select pending from stats_orders_in where event_type = 'a'), 2::bigint, 'and so do the statistics');
select is(baton.receive_malformed('orders_in', '9', '\x00ff', 'unreadable'), 'new', 'an unreadable message');
select is((select payload from dlq_orders_in where msg_no = 9), '{"raw_base64": "AP8="}'::jsonb, 'is kept with its bytes');

-- ordering on an adopted table, with columns of other types
alter table msgs add column pos int;
select lives_ok($$select baton.enable_inbox_ordering('orders_in', 'aggregate_id', 'pos')$$, 'an adopted table can be ordered');
insert into msgs (msg_no, kind, aggregate_id, pos) values (22, 'k', '22222222-2222-2222-2222-222222222222', 2), (21, 'k', '22222222-2222-2222-2222-222222222222', 1);
delete from baton_internal.inbox_work;
update msgs set handled = now() where msg_no < 20;
create temp table w7 as select * from baton.claim_inbox('orders_in', 'w7');
select results_eq('select event_id, sequence_num from w7', $$values ('21', 1::bigint)$$, 'it offers the first');
select is_empty($$select * from baton.claim_inbox('orders_in', 'w8')$$, 'alone');
select baton.complete('orders_in', '21', (select lease_token from w7));
select results_eq($$select event_id from baton.claim_inbox('orders_in', 'w8')$$, $$values ('22')$$, 'then the second');

select is((select count(*) from baton_internal.inbox_work where event_id = '22'), 1::bigint, 'its lease is kept beside the table');
delete from msgs where msg_no = 22;
select baton.run_inbox_maintenance();
select is((select count(*) from baton_internal.inbox_work where event_id = '22'), 0::bigint, 'and goes when the message is gone');

-- dropping never drops an adopted table
select baton.drop_inbox('orders_in', false, true);
select has_table('app', 'msgs', 'an adopted table survives drop with cascade');
select is((select count(*) from pg_trigger where tgrelid = 'app.msgs'::regclass and not tgisinternal), 0::bigint, 'without our triggers');
select is((select count(*) from pg_indexes where tablename = 'msgs'), 1::bigint, 'and without our indexes');

-- usual names need no arguments; refusals
create table app.usual (event_id text primary key, event_type text, received_at timestamptz default now(), processed_at timestamptz, retry_count int default 0, error text);
select is(baton.adopt_inbox('usual'), 'app.usual', 'a table with the usual names is adopted by name alone');
select throws_ok($$select baton.adopt_inbox('usual')$$, '42710', null, 'once');
select throws_ok($$select baton.adopt_inbox('other', 'usual')$$, '42710', null, 'under whatever name');
select throws_ok($$select baton.enable_inbox_tracking('x', 'nosuch')$$, '42P01', null, 'unknown table');
select throws_ok($$select baton.enable_inbox_tracking('x', 'msgs')$$, '42703', null, 'a missing column');
select throws_ok($$select baton.enable_inbox_tracking('x', 'msgs', 'msg_no', 'handled', 'kind', 'last_problem', 'arrived', 'kind')$$, '42804', null, 'a column of another type');
select throws_ok($$select baton.enable_inbox_tracking('x', 'msgs', 'pos', 'handled', 'tries', 'last_problem', 'arrived', 'kind')$$, '42P16', null, 'an id that is not unique');
create unique index on msgs (pos) where pos > 0;
select throws_ok($$select baton.enable_inbox_tracking('x', 'msgs', 'pos', 'handled', 'tries', 'last_problem', 'arrived', 'kind')$$, '42P16', null, 'a partial key does not count');
create view app.aview as select 1 as x;
select throws_ok($$select baton.enable_inbox_tracking('x', 'aview')$$, '42809', null, 'a view');
select baton.create_inbox('made');
select throws_ok($$select baton.adopt_inbox('x', 'made')$$, '42710', null, 'a table that is an inbox');
select * from finish();
rollback;
