-- Dead messages are offered again: by their ids, all of an inbox, or all that there are.
select no_plan();
update baton.jobs set enabled = false;
select 'operator_' || current_database() as operator \gset
create role :"operator";
grant :"operator" to current_user;
grant baton_operator to :"operator";

-- Receive four messages: one stays pending, one is processed, two are dead.
create function fill(inbox text) returns bigint language sql as $$
    select count(*) from baton.receive_many(inbox, '[{"event_id": "pending"}, {"event_id": "done"}, {"event_id": "dead1"}, {"event_id": "dead2"}]');
    select baton.complete_inbox(inbox, 'done') + baton.fail_inbox(inbox, '{dead1,dead2}'::text[], 'no', permanent => true);
$$;
select baton.create_inbox('box'), baton.create_inbox('other');
create table arrivals (event_id text primary key, event_type text, aggregate_id text, payload jsonb, headers jsonb, received_at timestamptz default now(), processed_at timestamptz,
                       retry_count int not null default 0, error text);
select baton.adopt_inbox('arrivals');
select is(fill(i), 3::bigint, 'messages of ' || i) from unnest('{box,other,arrivals}'::text[]) i;

select throws_ok($$ select baton.replay_inbox_messages('box', null) $$, '22023', null, 'null names no messages');
select throws_ok($$ select baton.replay_inbox_messages('box', '{dead1,null}') $$, '22023', null, 'nor does it in a list');
select is(baton.replay_inbox_messages('box', '{}'), 0::bigint, 'an empty list names none');
select throws_ok($$ select baton.replay_inbox_messages('nosuch') $$, '42704', null, 'an inbox that is none has nothing to replay');
select is(baton.replay_inbox_messages('box'), 2::bigint, 'all dead messages of an inbox are replayed');
select is_empty('select * from dlq_box', 'and are not dead any more');
select results_eq($$ select event_id from baton.claim_inbox('box', 'w') order by 1 $$, $$ values ('dead1'), ('dead2'), ('pending') $$, 'they are offered; what was processed is not');
select is((select count(*) from dlq_other), 2::bigint, 'another inbox keeps its own');
select is(baton.replay_inbox_messages('box'), 0::bigint, 'the next time there is nothing to replay');

-- all inboxes; one that the caller has no right to, and one in trouble, do not keep the others
select is(baton.fail_inbox('box', '{dead1,dead2}'::text[], 'no', true, (select lease_token from box where event_id = 'dead1')), 2::bigint, 'they die again');
set role :"operator";
select is(baton.replay_inbox_messages(), 4::bigint, 'all dead messages that the caller may replay are offered again');
reset role;
select is((select count(*) from arrivals where retry_count > 0), 2::bigint, 'of a table that is not the caller''s none is touched');
select is(baton.replay_inbox_messages(), 2::bigint, 'its owner replays them');
select is((select count(*) from dlq_box) + (select count(*) from dlq_other) + (select count(*) from arrivals where retry_count > 0), 0::bigint, 'then no dead message is left');
select is(baton.replay_inbox_messages(), 0::bigint, 'and none is replayed');

-- tenants
select baton.create_inbox('apart', tenancy => true);
set baton.tenant_id = 'a';
select is(fill('apart'), 3::bigint, 'messages of a tenant');
set baton.tenant_id = 'b';
select is(fill('apart'), 3::bigint, 'and of another');
select is(baton.replay_inbox_messages(), 2::bigint, 'who works for a tenant replays what is the tenant''s');
reset baton.tenant_id;
select is((select array_agg(distinct tenant_id) from apart where retry_count > 0), '{a}', 'and nothing else');
select is(baton.replay_inbox_messages('apart'), 2::bigint, 'who works for all replays the rest');

-- a type's own cast does not run with baton's rights
create type public.sly as (n int);
create function public.who_casts(sly) returns text language sql volatile as $$ select current_user::text $$;
grant execute on function public.who_casts(sly) to public;
create cast (public.sly as text) with function public.who_casts(public.sly) as assignment;
set role :"operator";
select is(baton.receive('box', 'sly', 't', '{}', aggregate_id => row(1)::public.sly), 'new', 'an aggregate''s id may be of any type');
reset role;
select is((select aggregate_id from box where event_id = 'sly'), :'operator', 'which becomes text with the rights of the caller');

drop owned by :"operator";
drop role :"operator";
select * from finish();
