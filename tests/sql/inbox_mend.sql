-- An inbox's messages are listed by state and found by id; dead ones are corrected and given up. The same on baton's own tables and adopted ones.
select no_plan();
update baton.jobs set enabled = false;
select 'operator_' || current_database() as operator, 'viewer_' || current_database() as viewer \gset
create role :"operator";
create role :"viewer";
grant :"operator", :"viewer" to current_user;
grant baton_operator to :"operator";
grant baton_viewer to :"viewer";

create function fill(inbox text) returns bigint language sql as $$
    select count(*) from baton.receive_many(inbox, '[{"event_id": "pending", "event_type": "a", "aggregate_id": "k"}, {"event_id": "done"}, {"event_id": "dead1", "payload": {"n": 12345678901234567890123}},
                                                     {"event_id": "dead2", "event_type": "b"}]');
    select baton.complete_inbox(inbox, 'done') + baton.fail_inbox(inbox, '{dead1,dead2}'::text[], 'no', permanent => true);
$$;
select baton.create_inbox('box');
-- a column whose name looks like a place of a template
create table arrivals (event_id text primary key, event_type text, aggregate_id text, payload jsonb, headers jsonb, received_at timestamptz default now(), processed_at timestamptz,
                       retry_count int not null default 0, "{relation}" text);
select baton.adopt_inbox('arrivals', error_column => '{relation}');
select is(fill(i), 3::bigint, 'messages of ' || i) from unnest('{box,arrivals}'::text[]) i;

create function state_of(inbox text) returns table (event_id text, state text) language sql as $$
    select m.event_id, m.state from unnest('{pending,dead,processed}'::text[]) s cross join lateral baton.inbox_messages(inbox, s) m order by 1
$$;
select results_eq(format('select * from state_of(%L)', i), $$ values ('dead1', 'dead'), ('dead2', 'dead'), ('done', 'processed'), ('pending', 'pending') $$, 'states in ' || i)
  from unnest('{box,arrivals}'::text[]) i;
select results_eq(format('select event_id, state, attempts > 0, error, payload::text from baton.inbox_messages(%L, id => ''dead1'')', i),
                  $$ values ('dead1', 'dead', true, 'no', '{"n": 12345678901234567890123}') $$, 'one message by its id in ' || i)
  from unnest('{box,arrivals}'::text[]) i;
select results_eq(format($$ select event_id from baton.inbox_messages(%L, 'dead', type => 'b') $$, i), $$ values ('dead2') $$, 'by its type in ' || i) from unnest('{box,arrivals}'::text[]) i;
select results_eq(format($$ select event_id from baton.inbox_messages(%L, 'pending', aggregate => 'k') $$, i), $$ values ('pending') $$, 'by its aggregate in ' || i) from unnest('{box,arrivals}'::text[]) i;
select results_eq(format($$ select b.event_id from baton.inbox_messages(%1$L, 'dead', most => 1) a cross join lateral baton.inbox_messages(%1$L, 'dead', after => a.cursor) b $$, i),
                  format($$ select event_id from baton.inbox_messages(%1$L, 'dead') offset 1 $$, i), 'page by page in ' || i) from unnest('{box,arrivals}'::text[]) i;
select throws_ok($$ select * from baton.inbox_messages('box', 'odd') $$, '22023', null, 'there are three states');
select throws_ok($$ select * from baton.inbox_messages('box', after => 'odd') $$, '22023', null, 'a cursor has a form');
select throws_ok($$ select * from baton.inbox_messages('nosuch') $$, '42704', null, 'and an inbox has to be one');

-- corrected
select throws_ok(format($$ select baton.edit_inbox_message(%L, 'pending', '{}') $$, i), '42704', null, 'only dead messages are corrected in ' || i) from unnest('{box,arrivals}'::text[]) i;
select throws_ok($$ select baton.edit_inbox_message('box', 'dead1') $$, '22004', null, 'something has to be corrected');
select throws_ok($$ select baton.edit_inbox_message('box', 'dead1', headers => '[]') $$, '22023', null, 'headers are an object');
select baton.edit_inbox_message(i, 'dead1', '{"n": 1}', '{"h": "x"}') from unnest('{box,arrivals}'::text[]) i;
select results_eq(format($$ select payload, headers, state from baton.inbox_messages(%L, id => 'dead1') $$, i), $$ values ('{"n": 1}'::jsonb, '{"h": "x"}'::jsonb, 'dead') $$,
                  'it is corrected and still dead in ' || i) from unnest('{box,arrivals}'::text[]) i;
select is((select array_agg(object order by object) from baton.audit_trail where action = 'edit_inbox_message' and details #>> '{message,payload}' = '{"n": 12345678901234567890123}'),
          '{public.arrivals,public.box}', 'what it was before is on record');

-- given up
select throws_ok($$ select baton.discard_inbox_messages('box', '{dead1}', ' ') $$, '22023', null, 'giving up needs a reason');
select throws_ok($$ select baton.discard_inbox_messages('box', '{}', 'why') $$, '22023', null, 'and ids');
select throws_ok($$ select baton.discard_inbox_messages('box', '{dead1,pending}', 'why') $$, '42704', null, 'of dead messages');
select is((select state from baton.inbox_messages('box', id => 'dead1')), 'dead', 'all or none');
select set_config('baton.acting_for', 'somebody', true) from (select) one;
select is(baton.discard_inbox_messages(i, '{dead1}', 'why'), 1::bigint, 'one is given up in ' || i) from unnest('{box,arrivals}'::text[]) i;
select is((select state from baton.inbox_messages(i, id => 'dead1')), 'processed', 'it counts as processed in ' || i) from unnest('{box,arrivals}'::text[]) i;
select is((select count(*)::int from baton.audit_trail where action = 'discard_inbox_message' and details ->> 'reason' = 'why' and details #>> '{message,payload,n}' = '1'), 2, 'on record with its content');
select is(baton.receive('box', 'dead1', 'a', '{}'), 'duplicate', 'it does not come again');

-- what waits behind a message that is given up goes on
select baton.create_inbox('steps');
select baton.enable_inbox_ordering('steps', sequence_num_col => 'sequence_num');
select baton.receive('steps', 'e' || n, 't', '{}', aggregate_id => 'a', sequence_num => n) from generate_series(1, 2) n;
select is(baton.fail_inbox('steps', array[event_id], 'no', true, lease_token), 1::bigint, 'the first step dies') from baton.claim_inbox('steps', 'w');
select is_empty($$ select * from baton.claim_inbox('steps', 'w') $$, 'the second waits');
select is(baton.discard_inbox_messages('steps', '{e1}', 'why'), 1::bigint, 'the first is given up');
select results_eq($$ select event_id from baton.claim_inbox('steps', 'w') $$, $$ values ('e2') $$, 'the second goes on');

-- who may
set role :"viewer";
select is((select count(*)::int from baton.inbox_messages('box', 'dead')), 1, 'a viewer looks');
select throws_ok($$ select baton.discard_inbox_messages('box', '{dead2}', 'why') $$, '42501', null, 'and gives nothing up');
select throws_ok($$ select baton.edit_inbox_message('box', 'dead2', '{}') $$, '42501', null, 'nor corrects anything');
set role :"operator";
select throws_ok($$ select * from baton.inbox_messages('arrivals', 'dead') $$, '42501', null, 'a table of somebody else is not open to an operator');
select throws_ok($$ select baton.edit_inbox_message('arrivals', 'dead2', '{}') $$, '42501', null, 'nor to be corrected');
select is(baton.discard_inbox_messages('box', '{dead2}', 'why'), 1::bigint, 'baton''s own are');
reset role;
-- what blocks the aggregates of an ordered inbox
select baton.create_inbox('halls');
select baton.enable_inbox_ordering('halls', sequence_num_col => 'sequence_num');
select baton.receive('halls', a || n, 't', '{}', aggregate_id => a, sequence_num => n) from unnest('{a,b,c,d}'::text[]) a, generate_series(1, 3) n where a <> 'd' or n > 1;
select baton.fail_inbox('halls', '{a1}'::text[], 'no', permanent => true), baton.fail_inbox('halls', '{b1}'::text[], 'not yet');
create function blocked(reason text default null, after text default null, most int default 100) returns setof text language sql as $$
    select concat_ws(' ', aggregate, blocked_by, event_id, attempts, error, letter ~ '^inbox:[0-9]+:a1$') from baton.blocked_aggregates('halls', reason, after, most) $$;
select results_eq('select blocked()', $$ values ('a dead a1 3 no t'), ('b retry b1 1 not yet'), ('d gap') $$, 'what an aggregate waits for');
select results_eq($$ select blocked('dead') $$, $$ values ('a dead a1 3 no t') $$, 'by reason');
select results_eq($$ select blocked('message') $$, $$ values ('a dead a1 3 no t'), ('b retry b1 1 not yet') $$, 'or all but gaps');
select results_eq($$ select blocked(after => 'a', most => 1) $$, $$ values ('b retry b1 1 not yet') $$, 'page by page');
select is((select count(*) from baton.all_dead_letters(named => (select letter from baton.blocked_aggregates('halls', 'dead')))), 1::bigint, 'a dead one names its letter');
select * from finish();
drop owned by :"operator", :"viewer";
drop role :"operator", :"viewer";
