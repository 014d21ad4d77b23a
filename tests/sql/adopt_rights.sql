-- The owner of an adopted outbox gets no more rights by the code that the table carries; baton gives nobody a right on the table that
-- its owner did not grant, and deletes nothing unless it was asked to.
select no_plan();
\ir fixtures/mallory.sql
select 'worker_' || current_database() as worker, 'operator_' || current_database() as operator \gset
create role :"worker";
create role :"operator";
grant :"worker", :"operator" to current_user;
grant baton_operator to :"operator";
grant baton_consumer to :"worker";
set role :"mallory";
create table den.events (id bigint generated always as identity primary key, kind text, body text, state text not null default 'new' check (den.by_check(state)),
                         taken timestamptz, taker text, done timestamptz, born timestamptz not null default now(), note text default den.by_default());
create index on den.events (den.by_index(body));
create index on den.events (body) where den.by_predicate(1);
create trigger early before insert or update or delete on den.events for each row execute function den.by_trigger();
create trigger early_too before truncate on den.events execute function den.by_trigger();
alter table den.events enable row level security, force row level security;
create policy gate on den.events using (den.grab('policy')) with check (den.grab('policy'));
create table den.consumer_offsets (consumer_name text, partition_key text default '', last_processed_id bigint not null, last_processed_at timestamptz default now(),
                                   primary key (consumer_name, partition_key));
create trigger early before insert or update on den.consumer_offsets for each row execute function den.by_trigger();
insert into den.events (kind, body, born) select 'k', '{"n": ' || n || '}', now() - interval '100 days' from generate_series(1, 6) n;
reset role;
delete from public.sightings;

\if :as_owner
set role :"mallory";
select is(baton.adopt_outbox('den.events', mapping => '{"columns": {"id": "id", "event_type": "kind", "payload": "body", "status": "state", "locked_at": "taken",
    "locked_by": "taker", "processed_at": "done", "occurred_at": "born"}, "states": {"pending": "new", "done": "sent"}, "dead": {"as": "move", "table": "events_dead"},
    "attempts": {"limit": 2}, "archive": {"table": "events_archive", "after": "1 day", "by": "occurred_at", "drop_after": "300 days"},
    "offsets": {"table": "consumer_offsets"}, "order": ["id"]}'), 'den.events', 'the owner adopts the table');
reset role;
select only_mallory('adopt_outbox()');
select is((select relowner::regrole::text from pg_class where oid = 'den.events_dead'::regclass), :'mallory', 'what was made for the table belongs to its owner');
select is((select array_agg(id order by id::int) from baton.claim_adopted('den.events', 'w', 4)), '{1,2,3,4}', 'rows are claimed');
select only_mallory('claim_adopted()');
select is((select payload from baton.adopted_dead_letters('den.events')), null, 'there is no dead letter');
delete from public.sightings;
select is((select count(*)::int from baton.ack_adopted('den.events', '{1}', 'w')), 1, 'acknowledged');
select only_mallory('ack_adopted()');
select is((select dead from baton.fail_adopted('den.events', '2', 'no', true, 'w')), true, 'failed for good');
select only_mallory('fail_adopted()');
select is((select payload from baton.adopted_dead_letters('den.events')), '{"n": 2}', 'listed with text read as JSON');
delete from public.sightings;
select is((select count(*)::int from baton.replay_adopted('den.events', '{2}')), 1, 'replayed');
select only_mallory('replay_adopted()');
select is((select count(*)::int from baton.adopted_outboxes a, baton_internal.claim_rows_for_relay(a.outbox_id, 'r', 10, 30, '{}', '{}', 1000000, 1000000)), 3, 'claimed by a relay');
select only_mallory('a relay''s claim');
select is((select count(*)::int from baton.adopted_outboxes a, baton_internal.renew_rows(a.outbox_id, '{5}', 'r')), 1, 'renewed');
select only_mallory('renewing');
select is((select count(*)::int from baton.adopted_outboxes a, baton_internal.release_rows(a.outbox_id, null, 'r')), 3, 'given back');
select only_mallory('giving back');
select lives_ok($$ select baton_internal.held_rows(a.outbox_id, null, 'r') from baton.adopted_outboxes a $$, 'looked at');
select only_mallory('looking');
select is((select pending from baton.adopted_status('den.events')), 3::bigint, 'counted');
select only_mallory('adopted_status()');
select is((select count(*)::int from baton.read_consumer_batch('den.events', 'c')), 1, 'read by a consumer');
select only_mallory('read_consumer_batch()');
select is(baton.advance_consumer_offset('den.events', 'c', 1), 1::bigint, 'whose offset moves');
select only_mallory('advance_consumer_offset()');
set role :"mallory";
update den.events set done = now() - interval '2 days' where id = 1;
reset role;
delete from public.sightings;
begin;  -- before the server's own worker comes
update baton.jobs set enabled = name = 'maintain adopted outboxes', next_due = '-infinity';
select is(baton_internal.run_due_job(), 'maintain adopted outboxes', 'a job maintains');
update baton.jobs set enabled = false;
commit;
select only_mallory('a job');
select is((select last_error from baton.jobs where name = 'maintain adopted outboxes'), null, 'without an error');
select is((select count(*)::int from den.events_archive), 1, 'what is old is archived');
select is((select distinct c.relowner::regrole::text from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'den.events_archive'::regclass), :'mallory',
          'in partitions of the table''s owner');
delete from public.sightings;

-- what would run later
set role :"mallory";
create constraint trigger late after update on den.events deferrable initially deferred for each row execute function den.by_trigger();
reset role;
select throws_ok($$ select * from baton.claim_adopted('den.events', 'w') $$, '42501', null, 'a deferred trigger does not wait for whoever commits');
drop trigger late on den.events;
set role :"mallory";
create table den.later (id int primary key, payload jsonb, done_at timestamptz);
create constraint trigger late after update on den.later deferrable initially deferred for each row execute function den.by_trigger();
select throws_ok($$ select baton.adopt_outbox('den.later', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}') $$, '55000', null,
                 'a table with one is not adopted');
reset role;
-- a dead-letter table of somebody else's
alter table den.events_dead owner to :"operator";
select throws_ok($$ select * from baton.claim_adopted('den.events', 'w') $$, '42501', null, 'a companion that changed hands stops the work');
alter table den.events_dead owner to :"mallory";
\else
set role :"mallory";
select throws_ok($$ select baton.adopt_outbox('den.events', mapping => '{"columns": {"id": "id", "payload": "body", "processed_at": "done"}}') $$, '42501', null,
                 'another owner''s table is refused');
reset role;
select is((select count(*)::int from public.sightings), 0, 'none of its code ran');
create table public.mine (id int primary key, payload jsonb, done_at timestamptz);
insert into public.mine values (1, '{}');
select lives_ok($$ select baton.adopt_outbox('public.mine', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}') $$,
                'a table of baton''s owner is adopted');
grant create on schema public to :"mallory";
alter table public.mine owner to :"mallory";
set role :"mallory";
create trigger early before insert or update or delete on public.mine for each row execute function den.by_trigger();
reset role;
select throws_ok($$ select * from baton.claim_adopted('public.mine', 'w') $$, '42501', null, 'a table that changed hands is not claimed from');
select throws_ok($$ select baton.ack_adopted('public.mine', '{1}') $$, '42501', null, 'nor settled in');
select is((select action from baton.run_adopted_maintenance('public.mine')), 'failed', 'nor maintained');
select isnt((select problem from baton.adopted_status('public.mine')), null, 'the status tells');
select is((select count(*)::int from public.sightings), 0, 'none of the new owner''s code ran');
alter table public.mine owner to :"me";
\endif
select is((select rolcreaterole from pg_roles where rolname = :'mallory'), false, 'the owner became no more than before');

-- rights of others
create table public.owned (id int primary key, payload jsonb, done_at timestamptz);
insert into public.owned values (1, '{"secret": true}'), (2, '{}');
set role :"operator";
select throws_ok($$ select baton.adopt_outbox('public.owned', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}') $$, '42501', null,
                 'an operator does not adopt what is another''s');
reset role;
select lives_ok($$ select baton.adopt_outbox('public.owned', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}') $$, 'the owner adopts');
grant usage on schema public to :"worker", :"operator";
set role :"worker";
select throws_ok($$ select * from baton.claim_adopted('public.owned', 'w') $$, '42501', null, 'a consumer needs the owner''s grant to claim');
select throws_ok($$ select baton.ack_adopted('public.owned', '{1}') $$, '42501', null, 'to settle');
select throws_ok($$ select baton.fail_adopted('public.owned', '1', 'x') $$, '42501', null, 'to fail');
select throws_ok($$ select baton_internal.note_settled(1, '{1}', '{t}') $$, '42501', null, 'and keeps no notes');
select throws_ok($$ select baton_internal.note_failed(1, '[]', 'x', true) $$, '42501', null, 'of any kind');
select throws_ok($$ select baton_internal.note_worker(1, 'w', 1) $$, '42501', null, 'about anybody');
select throws_ok($$ select baton_internal.forget_failures(1, '{1}') $$, '42501', null, 'nor forgets');
select throws_ok($$ select baton_internal.save_horizon(1, 100, 100, '{}') $$, '42501', null, 'nor decides what is decided');
reset role;
set role :"operator";
select throws_ok($$ select * from baton.adopted_dead_letters('public.owned') $$, '42501', null, 'an operator reads no rows either');
select lives_ok($$ select * from baton.adopted_status('public.owned') $$, 'but counts them');
select throws_ok($$ select baton.unadopt_outbox('public.owned') $$, '42501', null, 'and does not end the adoption');
reset role;
grant select, update on public.owned to :"worker";
set role :"worker";
select is((select count(*)::int from baton.claim_adopted('public.owned', 'w')), 2, 'with the owner''s grant the consumer claims');
reset role;
alter table public.owned enable row level security;
create policy half on public.owned using (id = 2);
set role :"worker";
select throws_ok($$ select * from baton.claim_adopted('public.owned', 'w') $$, '42501', null, 'not around a policy that is for the consumer');
reset role;

-- nothing is deleted unless asked
create table public.old_events (like public.owned including all);
alter table public.old_events add processed_at timestamptz, add expires_at timestamptz default now() - interval '1 year';
insert into public.old_events (id, payload, done_at, processed_at) values (1, '{}', now() - interval '1 year', now() - interval '1 year');
select lives_ok($$ select baton.adopt_outbox('public.old_events', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}') $$, 'a table with old rows is adopted');
select is((select count(*)::int from baton.run_adopted_maintenance('public.old_events')), 0, 'maintenance has nothing to delete');
select baton.unadopt_outbox('public.old_events');
select is(bool_or((baton_internal.ask_for_cleanup(p.layout, '{}') #>> '{cleanup,expire}')::boolean or (baton_internal.ask_for_cleanup(p.layout, '{}') #>> '{cleanup,archive}')::boolean
          or (baton_internal.ask_for_cleanup(p.layout, '{}') #>> '{cleanup,processed_events}')::boolean), false, 'no preset asks by itself') from baton.adoption_presets p;
select lives_ok($$ select baton.adopt_outbox('public.old_events', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}, "retention": {"done_after": "1 day"}}') $$,
                'asked for');
select is((select affected from baton.run_adopted_maintenance('public.old_events') where action = 'expired'), 1::bigint, 'the row goes');

drop schema den cascade;
drop table public.owned, public.old_events;
select count(baton_internal.drop_adopted(outbox_id)) from baton.adopted_outboxes;
drop owned by :"mallory", :"worker", :"operator";
drop role :"mallory", :"worker", :"operator";
select * from finish();
