-- The owner of an adopted inbox's table gets no more rights by the code that the table carries, and baton gives nobody a right on
-- the table that its owner did not grant.
select no_plan();
\ir fixtures/mallory.sql
select 'worker_' || current_database() as worker, 'operator_' || current_database() as operator \gset
create role :"worker";
create role :"operator";
grant :"worker", :"operator" to current_user;
grant baton_operator to :"operator";
grant baton_consumer to :"worker";
create schema shut;
set role :"mallory";
create table den.box (event_id text primary key, event_type text, payload jsonb, aggregate_id text, sequence_num bigint, error text, retry_count int not null default 0,
                      received_at timestamptz not null default now(), processed_at timestamptz, note text default den.by_default());
create index on den.box (den.by_index(event_type));
create index on den.box (event_type) where den.by_predicate(1);
create trigger early before insert or update or delete on den.box for each row execute function den.by_trigger();
alter table den.box enable row level security, force row level security;
create policy gate on den.box using (den.grab('policy')) with check (den.grab('policy'));
reset role;
delete from public.sightings;

\if :as_owner
-- with the extension: every way into the table
set role :"mallory";
select lives_ok($$ select baton.adopt_inbox('den.box', retention_hours => 0) $$, 'the owner adopts the table');
grant select, insert, update on den.box to :"me";
reset role;
delete from public.sightings;
select is(baton.receive('den.box', 'e1', 't', '{}'), 'new', 'a message is received');
select only_mallory('receive()');
select is((select count(*)::int from baton.receive_many('den.box', '[{"event_id": "e2"}, {"event_id": "e1"}, {"event_id": "e3"}]') where outcome = 'new'), 2, 'so are several');
select only_mallory('receive_many()');
create temporary table claimed as select * from baton.claim_inbox('den.box', 'w', 10);
select is((select count(*)::int from claimed), 3, 'they are claimed');
select only_mallory('claim_inbox()');
select ok(baton.extend_inbox_lease('den.box', '{e1,e2,e3}', lease_token) is not null, 'extended') from claimed limit 1;
select only_mallory('extend_inbox_lease()');
select is(baton.complete_inbox('den.box', array['e1'], lease_token), 1::bigint, 'completed') from claimed limit 1;
select only_mallory('complete_inbox()');
select is(baton.fail_inbox('den.box', array['e2'], 'no', true, lease_token), 1::bigint, 'failed') from claimed limit 1;
select only_mallory('fail_inbox()');
select is(baton.release_inbox('den.box', array['e3'], lease_token), 1::bigint, 'given back') from claimed limit 1;
select only_mallory('release_inbox()');
select throws_ok(format('select baton.complete_inbox(''den.box'', array[''e1''], %L::uuid)', lease_token), 'BT001', null, 'not completed twice') from claimed limit 1;
select is(baton.inbox_health('den.box') ->> 'dead_letter_count', '1', 'looked at');
select only_mallory('inbox_health()');
select is(baton.replay_inbox_messages('den.box', '{e2}'), 1::bigint, 'replayed');
select only_mallory('replay_inbox_messages()');
select is(baton.fail_inbox('den.box', array['e2'], 'no', true), 1::bigint, 'dead again');
delete from public.sightings;
select baton.set_setting('inbox_dlq_retention_hours', '1');
select is((select drained from baton.run_inbox_maintenance()), 1::bigint, 'drained');
update baton_internal.inbox_dead_letters set noticed_at = now() - interval '1 day';
select is((select dead_dropped from baton.run_inbox_maintenance()), 1::bigint, 'its dead letters too');
select only_mallory('maintenance');
begin;  -- before the server's own worker comes
update baton.jobs set enabled = name = 'maintain inboxes', next_due = '-infinity';
select is(baton_internal.run_due_job(), 'maintain inboxes', 'by a job as well');
update baton.jobs set enabled = false;
commit;
select only_mallory('a job');

-- in order
set role :"mallory";
select lives_ok($$ select baton.enable_inbox_ordering('den.box', sequence_num_col => 'sequence_num') $$, 'order is switched on');
reset role;
select only_mallory('enable_inbox_ordering()');
select is((select count(*)::int from baton.receive_many('den.box', '[{"event_id": "a1", "aggregate_id": "a", "sequence_num": 1}, {"event_id": "a2", "aggregate_id": "a", "sequence_num": 2},
    {"event_id": "a4", "aggregate_id": "a", "sequence_num": 4}, {"event_id": "b1", "aggregate_id": "b", "sequence_num": 1}]')), 4, 'messages with a place come in');
delete from public.sightings;
drop table claimed;
create temporary table claimed as select * from baton.claim_inbox('den.box', 'w', 10);
select set_eq('select event_id from claimed', '{a1,b1,e3}'::text[], 'the next of each aggregate is offered');
select only_mallory('an ordered claim');
select is((select count(*)::int from baton.claim_inbox('den.box', 'v', 10)), 0, 'to one worker');
select is(baton.complete_inbox('den.box', array['a1'], lease_token), 1::bigint, 'finished') from claimed limit 1;
select set_eq($$ select event_id from baton.claim_inbox('den.box', 'v', 10) $$, '{a2}'::text[], 'then the one after it');
delete from public.sightings;
select is((select expected from baton.inbox_ordering_gaps('den.box')), 3::bigint, 'a gap is told');
select only_mallory('inbox_ordering_gaps()');
select is((select gaps_noticed from baton.run_inbox_maintenance()), 0::bigint, 'and looked for');
select only_mallory('maintenance of an ordered inbox');
select is(baton.advance_inbox_sequence('den.box', 'a', 3), 3::bigint, 'skipped');
select only_mallory('advance_inbox_sequence()');
select is(baton.inbox_health('den.box') ->> 'stalled_aggregates', '0', 'looked at in order');
select only_mallory('inbox_health() of an ordered inbox');

-- in order of arrival
set role :"mallory";
select baton.disable_inbox_ordering('den.box');
select lives_ok($$ select baton.enable_inbox_ordering('den.box') $$, 'order of arrival is switched on');
reset role;
select only_mallory('enable_inbox_ordering() by arrival');
select baton.receive('den.box', 'c1', 't', '{}', aggregate_id => 'c'), baton.receive('den.box', 'c2', 't', '{}', aggregate_id => 'c');
delete from public.sightings;
drop table claimed;
create temporary table claimed as select * from baton.claim_inbox('den.box', 'w', 10);
select ok(exists (select from claimed where event_id = 'c1') and not exists (select from claimed where event_id = 'c2'), 'the first of an aggregate is offered');
select only_mallory('a claim in order of arrival');
select is(baton.fail_inbox('den.box', 'c1', 'x', lease_token => (select lease_token from claimed limit 1), retry_after => '1 h'), 1::bigint, 'failed');
select only_mallory('failing in order of arrival');
select is(baton.inbox_health('den.box') ->> 'stalled_aggregates', '1', 'it holds its aggregate');
select only_mallory('inbox_health() in order of arrival');
select is(baton.advance_inbox_sequence('den.box', 'c'), 1::bigint, 'skipped');
select only_mallory('advance_inbox_sequence() in order of arrival');
select baton.run_inbox_maintenance();
select only_mallory('maintenance in order of arrival');

-- what would run later
set role :"mallory";
create constraint trigger late after insert on den.box deferrable initially deferred for each row execute function den.by_trigger();
reset role;
select throws_ok($$ select baton.receive('den.box', 'e9', 't', '{}') $$, '42501', null, 'a deferred trigger does not wait for whoever commits');
drop trigger late on den.box;
\else
-- without it: refused, also when the owner changes later
set role :"mallory";
select throws_ok($$ select baton.adopt_inbox('den.box') $$, '42501', null, 'another owner''s table is refused');
reset role;
select is((select count(*)::int from public.sightings), 0, 'none of its code ran');
create table public.mine (like den.box);
alter table public.mine add primary key (event_id);
select lives_ok($$ select baton.adopt_inbox('public.mine') $$, 'a table of baton''s owner is adopted');
select is(baton.receive('public.mine', 'e1', 't', '{}'), 'new', 'and works');
grant create on schema public to :"mallory";
alter table public.mine owner to :"mallory";
set role :"mallory";
create trigger early before insert or update or delete on public.mine for each row execute function den.by_trigger();
reset role;
grant :"worker" to :"mallory";
select throws_ok($$ select baton.receive('public.mine', 'e2', 't', '{}') $$, '42501', null, 'a table that changed hands is not written to');
select throws_ok($$ select * from baton.claim_inbox('public.mine', 'w') $$, '42501', null, 'nor claimed from');
select throws_ok($$ select baton.complete_inbox('public.mine', array['e1']) $$, '42501', null, 'nor settled in');
select throws_ok($$ select baton.inbox_health('public.mine') $$, '42501', null, 'nor read');
select isnt((select problem from baton.run_inbox_maintenance()), null, 'maintenance tells');
select is((select count(*)::int from public.sightings), 0, 'none of the new owner''s code ran');
alter table public.mine owner to :"me";
drop trigger early on public.mine;
\endif
select is((select rolcreaterole from pg_roles where rolname = :'mallory'), false, 'the owner became no more than before');

-- who may hand a table over, and who works it
create schema vault;
grant usage, create on schema vault to :"operator";
grant usage on schema vault to :"worker";
create table vault.secrets (event_id text primary key, event_type text, payload jsonb, error text, retry_count int not null default 0,
                             received_at timestamptz not null default now(), processed_at timestamptz);
insert into vault.secrets values ('s1', 'password', '{"pin": 1234}');
set role :"operator";
select throws_ok($$ select baton.adopt_inbox('vault.secrets') $$, '42501', null, 'an operator does not adopt what is another''s');
select throws_ok($$ select baton.enable_inbox_tracking('s', 'vault.secrets') $$, '42501', null, 'by no name');
select throws_ok($$ select baton.create_inbox('shut.mine') $$, '42501', null, 'makes no inbox where the operator may create nothing');
select throws_ok($$ select baton.create_inbox('mine', 'shut') $$, '42501', null, 'however it is named');
reset role;
select lives_ok($$ select baton.adopt_inbox('vault.secrets') $$, 'the owner adopts');
grant usage on schema public to :"worker", :"operator";
set role :"operator";
select throws_ok($$ select baton.alter_inbox('vault.secrets', retention_hours => 0) $$, '42501', null, 'an operator who is not the owner does not let rows be deleted');
select throws_ok($$ select baton.drop_inbox('vault.secrets') $$, '42501', null, 'nor ends the adoption');
select throws_ok($$ select baton.enable_inbox_ordering('vault.secrets', 'event_type', 'retry_count') $$, '42501', null, 'nor puts it in order');
select throws_ok($$ select baton.enable_inbox_priority('vault.secrets', 'retry_count') $$, '42501', null, 'nor by priority');
select throws_ok($$ select baton.replay_inbox_messages('vault.secrets', '{s1}') $$, '42501', null, 'nor touches its rows');
reset role;
set role :"worker";
select throws_ok($$ select * from baton.claim_inbox('vault.secrets', 'w') $$, '42501', null, 'a consumer needs the owner''s grant');
select throws_ok($$ select baton.receive('vault.secrets', 's2', 't', '{}') $$, '42501', null, 'to write');
select throws_ok($$ select baton.complete_inbox('vault.secrets', array['s1']) $$, '42501', null, 'and to settle');
reset role;
grant select, insert, update on vault.secrets to :"worker";
set role :"worker";
select is((select event_id from baton.claim_inbox('vault.secrets', 'w')), 's1', 'with it the consumer claims');
select is(baton.receive('vault.secrets', 's2', 't', '{}'), 'new', 'and writes');
reset role;
select lives_ok($$ select baton.drop_inbox('vault.secrets') $$, 'the owner ends it');

-- a trigger that would run later
create function public.later() returns trigger language plpgsql as 'begin return null; end';
create constraint trigger late after insert on vault.secrets deferrable initially deferred for each row execute function public.later();
select throws_ok($$ select baton.adopt_inbox('vault.secrets') $$, '55000', null, 'a table with a deferred trigger is not adopted');

select count(baton.drop_inbox(format('%I.%I', schema_name, name))) from baton.inboxes;
drop schema den, vault cascade;
drop owned by :"mallory", :"worker", :"operator";
drop role :"mallory", :"worker", :"operator";
select * from finish();
