-- An inbox with tenants: no tenant sees, takes, finishes or blocks another's messages, not even where both use the same ids.
select no_plan();
do $$
declare
    r text;
begin
    foreach r in array array['consumer', 'relay', 'operator', 'viewer'] loop
        execute format('create role %I', 'test_' || r || '_' || current_database());
        execute format('grant %I to %I', 'baton_' || r, 'test_' || r || '_' || current_database());
        execute format('grant %I to current_user', 'test_' || r || '_' || current_database());
        execute format('grant usage on schema public to %I', 'test_' || r || '_' || current_database());
    end loop;
end
$$;
grant execute on all functions in schema public to public;
create function become(r text, tenant text default '') returns void language sql as $$
    select set_config('role', case when r = 'none' then 'none' else 'test_' || r || '_' || current_database() end, false), set_config('baton.tenant_id', tenant, false) $$;
grant execute on function become(text, text) to public;

select baton.create_inbox('box', max_retries => 2, tenancy => true);
select baton.alter_inbox('box', backoff_base => '0', backoff_cap => '0');
select col_is_pk('public', 'box', 'message_key', 'tenant and id together are the key');
select ok((select relrowsecurity from pg_class where oid = 'box'::regclass), 'row-level security is on');

-- coming in
select become('consumer', 'a');
select is(baton.receive('box', 'm1', 't', '{"of": "a"}', aggregate_id => 'x'), 'new', 'a tenant receives a message');
select is(baton.receive('box', 'm1', 't', '{}'), 'duplicate', 'once');
select throws_ok($$ select * from baton.receive_many('box', '[{"event_id": "m2", "tenant_id": "b"}]') $$, '42501', null, 'not for another tenant');
select become('consumer', 'b');
select is(baton.receive('box', 'm1', 't', '{"of": "b"}', aggregate_id => 'x'), 'new', 'another tenant''s message with the same id is not a duplicate');
select is((select string_agg(outcome, ',' order by position) from baton.receive_many('box', '[{"event_id": "m1"}, {"event_id": "m2"}, {"event_id": "m2"}]')),
          'duplicate,new,duplicate', 'in a batch too');
select become('consumer');
select throws_ok($$ select baton.receive('box', 'm9', 't', '{}') $$, '42501', null, 'nobody receives for no tenant');
select become('relay');
select throws_ok($$ select * from baton.receive_many('box', '[{"event_id": "m9"}]') $$, '22004', null, 'and a message of nobody is refused to the relay as well');
select is((select string_agg(outcome, ',' order by position) from baton.receive_many('box',
    '[{"event_id": "m3", "tenant_id": "a"}, {"event_id": "m3", "tenant_id": "b"}, {"event_id": "m1", "tenant_id": "a"}]')), 'new,new,duplicate', 'which receives for all tenants');

select throws_ok($$ select * from baton.receive_many('box', '[{"event_id": "m9", "tenant_id": ""}]') $$, '22004', null, 'an empty name is no tenant');

-- a message of nobody that is kept as a dead letter
select is((select string_agg(outcome, ',' order by position) from baton.receive_many('box',
    '[{"event_id": "lost", "error": "it has no tenant", "payload_raw": "eA=="}, {"event_id": "lost", "error": "again"}]')), 'new,duplicate', 'a dead letter may have no tenant');
select become('consumer', 'a');
select is((select count(*)::int from dlq_box), 0, 'no tenant sees it');
select become('operator');
select results_eq('select event_id from dlq_box', $$values ('lost')$$, 'an operator does');
select become('none');
delete from box where event_id = 'lost';

-- looking
select become('consumer', 'a');
select results_eq('select event_id, payload from pending_box order by 1', $$values ('m1', '{"of": "a"}'::jsonb), ('m3', null)$$, 'a tenant sees its own messages');
select is((select sum(pending)::int from stats_box), 2, 'and its own numbers');
select is((baton.inbox_health('box') ->> 'pending_count')::int, 2, 'in the health too');
select is((select pending_count from baton.inbox_status('box')), 2::bigint, 'and in the status');
select throws_ok('select * from box', '42501', null, 'and nothing behind the views');
select become('viewer', 'b');
select is((select count(*)::int from pending_box), 3, 'a viewer of a tenant sees that tenant');
select become('viewer');
select is((select count(*)::int from pending_box), 0, 'and no tenant without naming one');
select throws_ok($$ select baton.inbox_health('box') $$, '42501', null, 'nor numbers');
select is((select pending_count from baton.inbox_status('box')), null, 'nor in the list of inboxes');
select throws_ok(format('select * from baton_internal.%I', t), '42501', null, 'nor anything in ' || t)
  from unnest('{inbox_sequences,inbox_replays,inbox_dead_letters,inbox_gaps,inbox_keys}'::text[]) t;
select become('operator');
select is((select count(*)::int from pending_box), 5, 'an operator sees all tenants');
select is((baton.inbox_health('box') ->> 'pending_count')::int, 5, 'and all numbers');
select become('none');
grant select, update, delete on box to baton_viewer;
select become('viewer', 'b');
select is((select count(*)::int from box), 3, 'whom the table itself is open to sees in it a tenant''s rows');
with gone as (delete from box where tenant_id = 'a' returning 1) select is((select count(*)::int from gone), 0, 'and deletes no others');
select throws_ok($$ update box set tenant_id = 'a' $$, '42501', null, 'nor gives rows away');
select become('none');
revoke all on box from baton_viewer;

-- working
select become('consumer');
select throws_ok($$ select * from baton.claim_inbox('box', 'w') $$, '42501', null, 'nobody claims for no tenant');
select become('consumer', 'a');
create temp table work_a as select * from baton.claim_inbox('box', 'w');
select results_eq('select event_id from work_a order by 1', $$values ('m1'), ('m3')$$, 'a tenant claims its own messages');
grant select on work_a to public;
select become('consumer', 'b');
select throws_ok($$ select baton.complete('box', 'm1', (select lease_token from work_a limit 1)) $$, 'BT001', null, 'another tenant cannot finish them, though it has the token');
select throws_ok($$ select baton.fail('box', 'm1', 'x', true, (select lease_token from work_a limit 1)) $$, 'BT001', null, 'nor fail them');
select throws_ok($$ select baton.extend_inbox_lease('box', '{m1}', (select lease_token from work_a limit 1)) $$, 'BT001', null, 'nor keep them');
select throws_ok($$ select baton.complete('box', 'm9') $$, 'BT002', 'message "m9" is not in inbox "public.box"', 'errors speak of plain ids');
select is(baton.complete('box', 'm2'), 1::bigint, 'its own it finishes');
select become('consumer', 'a');
select is(baton.complete('box', 'm1', (select lease_token from work_a limit 1)), 1::bigint, 'as the tenant itself does');
select is(baton.fail('box', 'm3', 'bad', true, (select lease_token from work_a limit 1)), 1::bigint, 'fails');
select results_eq('select event_id from dlq_box', $$values ('m3')$$, 'has dead letters');
select become('consumer', 'b');
select is_empty('select * from dlq_box', 'of its own');
select become('operator', 'b');
select is(baton.replay_inbox_messages('box', '{m1,m3}'), 0::bigint, 'who acts for a tenant replays nothing of another');
select become('operator');
select throws_ok($$ select baton.replay_inbox_messages('box', '{m1}') $$, '42P08', null, 'who acts for all must say which tenant''s message');
select become('operator', 'a');
select is(baton.replay_inbox_messages('box', '{m3}'), 1::bigint, 'and then replays');
select become('none');
select is((select count(*)::int from box where processed_at is not null), 2, 'nothing else was touched');

-- for all tenants
select become('relay');
create temp table work_all as select * from baton.claim_inbox('box', 'w');
select is((select count(*) = count(distinct event_id) from work_all), true, 'who works for all tenants gets an id once at a time');
select is((select count(*)::int from work_all), 2, 'and the other tenant''s message of the same id later');
select is(baton.complete('box', array_agg(event_id), min(lease_token::text)::uuid), 2::bigint, 'finishes what it has') from work_all;
create temp table work_rest as select * from baton.claim_inbox('box', 'w');
select is(baton.complete('box', array_agg(event_id), min(lease_token::text)::uuid), 1::bigint, 'and the rest after it') from work_rest;
select become('none');

-- ids of messages that are gone
update box set processed_at = now() - interval '4 days';
select baton.run_inbox_maintenance();
select is((select count(*)::int from box), 0, 'processed messages are drained');
insert into box (event_id, event_type, tenant_id) values ('m1', 't', 'a'), ('m1', 't', 'c');
select is((select string_agg(tenant_id, ',') from box), 'c', 'a plain insert meets the ids of its own tenant only');
delete from box;

-- order: one aggregate id of two tenants is two aggregates
select baton.enable_inbox_ordering('box');
select become('relay');
select count(*) from baton.receive_many('box', '[{"event_id": "n1", "tenant_id": "a", "aggregate_id": "x"}, {"event_id": "n2", "tenant_id": "a", "aggregate_id": "x"},
    {"event_id": "o1", "tenant_id": "b", "aggregate_id": "x"}, {"event_id": "o2", "tenant_id": "b", "aggregate_id": "x"}]');
select become('consumer', 'a');
create temp table ordered_a as select * from baton.claim_inbox('box', 'w');
select results_eq('select event_id from ordered_a', $$values ('n1')$$, 'a tenant''s aggregate is in order');
select baton.fail('box', 'n1', 'x', lease_token => (select lease_token from ordered_a), retry_after => '1 h');
select results_eq('select aggregate, reason, event_id from stalled_box', $$values ('x', 'retry', 'n1')$$, 'and may stand still');
select is(baton.inbox_health('box') ->> 'stalled_aggregates', '1', 'visibly');
select become('consumer', 'b');
select is_empty('select * from stalled_box', 'which is nobody else''s affair');
select is(baton.inbox_health('box') ->> 'stalled_aggregates', '0', 'in numbers too');
select results_eq('select event_id from next_box', $$values ('o1')$$, 'another tenant''s aggregate of that name is next');
create temp table ordered_b as select * from baton.claim_inbox('box', 'w');
select results_eq('select event_id from ordered_b', $$values ('o1')$$, 'and goes on');
select become('operator');
select throws_ok($$ select baton.advance_inbox_sequence('box', 'x') $$, '42P08', null, 'who skips says for which tenant');
select become('operator', 'a');
select is(baton.advance_inbox_sequence('box', 'x'), 1::bigint, 'and then skips');
select become('consumer', 'a');
select results_eq($$ select event_id from baton.claim_inbox('box', 'w') $$, $$values ('n2')$$, 'for that tenant');
select become('none');
select baton.disable_inbox_ordering('box');
delete from box;
select baton.enable_inbox_ordering('box', sequence_num_col => 'sequence_num');
select become('relay');
select count(*) from baton.receive_many('box', '[{"event_id": "s2", "tenant_id": "a", "aggregate_id": "x", "sequence_num": 2}, {"event_id": "s1", "tenant_id": "b", "aggregate_id": "x", "sequence_num": 1}]');
select become('consumer', 'a');
select results_eq('select aggregate, expected from gaps_box', $$values ('x', 1::bigint)$$, 'numbers are a tenant''s own');
select results_eq($$ select aggregate, expected from baton.inbox_ordering_gaps('box') $$, $$values ('x', 1::bigint)$$, 'by function too');
select is_empty($$ select * from baton.claim_inbox('box', 'w') $$, 'another tenant''s first is not this one''s');
select become('consumer', 'b');
select is_empty('select * from gaps_box', 'and no gap of others is seen');
create temp table numbered_b as select * from baton.claim_inbox('box', 'w');
select is(baton.complete('box', 's1', (select lease_token from numbered_b)), 1::bigint, 'where nothing is missing it goes on');
select become('none');

-- no tenants by default
select baton.create_inbox('plain');
select is((select tenancy from baton.inboxes where name = 'plain'), false, 'an inbox has no tenants unless asked for');

select baton.drop_inbox('box', cascade => true), baton.drop_inbox('plain', cascade => true);
do $$
declare
    r text;
begin
    foreach r in array array['consumer', 'relay', 'operator', 'viewer'] loop
        execute format('drop owned by %I', 'test_' || r || '_' || current_database());
        execute format('drop role %I', 'test_' || r || '_' || current_database());
    end loop;
end
$$;
select * from finish();
