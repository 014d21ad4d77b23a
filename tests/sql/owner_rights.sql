-- A statement of baton's on a user's table runs as the table's owner: whatever code the table carries gets no more rights.
select no_plan();
\ir fixtures/mallory.sql
select 'other_' || current_database() as other \gset
create role :"other";
grant :"other" to current_user;
grant all on schema den to :"other";
set role :"mallory";
create table den.box (id text primary key, body text default den.by_default() check (den.by_check(body)));
create index on den.box (den.by_index(body));
create trigger early before insert or update or delete on den.box for each row execute function den.by_trigger();
alter table den.box enable row level security, force row level security;
create policy gate on den.box using (den.grab('policy')) with check (den.grab('policy'));
reset role;

select is((select array_agg(r.rolname::text) from pg_roles r where r.rolname like 'baton\_%'
              and (has_function_privilege(r.oid, 'baton_internal.run_as_owner(regclass, text, timestamptz, text[], jsonb, regclass[])', 'execute')
                   or has_function_privilege(r.oid, 'baton_internal.change_as_owner(regclass, text, timestamptz, text[], jsonb, regclass[])', 'execute'))),
          null, 'nobody but baton''s owner runs statements as others');
set search_path = public, den;
set baton.tenant_id = 'mine';

\if :as_owner
select is((select r.id from baton_internal.run_as_owner('den.box', 'insert into den.box (id) select m from unnest($2) m returning id',
                                                        ids => '{1}') as r (id text)), '1', 'a statement gives its rows');
select is(baton_internal.change_as_owner('den.box', 'update den.box set body = $3 ->> ''body''', arguments => '{"body": "new"}'), 1::bigint,
          'or says how many it changed');
select is(baton_internal.change_as_owner('den.box', 'delete from den.box where id = any ($2) and $1 > now() - interval ''1 day''', now(), '{1}'), 1::bigint,
          'with its three parameters');
select set_eq('select distinct via from public.sightings', '{trigger,index,default,check,policy}'::text[], 'all code of the table ran');
select set_eq('select distinct who from public.sightings', array[:'mallory'], 'as the table''s owner');
select is((select baton_internal.acting_role()), null, 'nobody acts as somebody else afterwards');
select is((select r.who from baton_internal.run_as_owner('den.box', 'select current_user::text') as r (who text)), :'mallory', 'a statement runs as the owner');
select is((select r.who from baton_internal.run_as_owner('den.box', 'select 1') as x (n int), baton_internal.caller() r (who)), :'me', 'the caller is the session''s role');
create function public.who_calls() returns text language sql security definer set search_path = pg_catalog, pg_temp as 'select baton_internal.caller()';
select is((select r.who from baton_internal.run_as_owner('den.box', 'select public.who_calls()') as r (who text)), :'mallory',
          'but a definer function that the table''s code calls is called by the owner');
select is((select r.path from baton_internal.run_as_owner('den.box', 'select current_setting(''search_path'')') as r (path text)), 'pg_catalog, pg_temp',
          'looks up names in the catalog alone');
select lives_ok($$ select baton_internal.change_as_owner('den.box', $s$ select set_config('baton.tenant_id', 'evil', false), set_config('search_path', 'den', false) $s$) $$,
                'parameters can be set');
select is(array[current_setting('baton.tenant_id'), current_setting('search_path')], '{mine,"public, den"}', 'but not for later');
select throws_ok(format('select baton_internal.change_as_owner(''den.box'', %L)', 'set role ' || quote_ident(:'me')), '42501', null, 'the role cannot be left');
select throws_ok($$ select baton_internal.change_as_owner('den.box', 'reset session authorization') $$, '42501', null, 'nor the session''s user');
select throws_ok($$ select baton_internal.change_as_owner('den.box', 'create temp table t (n int)') $$, '42501', null, 'nothing temporary is left behind');
select throws_ok($$ select baton_internal.change_as_owner('den.box', 'select 1 / 0') $$, '22012', null, 'an error comes through');
select is(current_user::text, :'me', 'and the user is as before');
select throws_ok($$ select * from baton_internal.run_as_owner('den.box', 'select 1') as r (n text) $$, '42804', null, 'rows of another type are refused');
select throws_ok($$ select * from baton_internal.run_as_owner('den.box', 'create table den.t (n int)') as r (n text) $$, '22023', null, 'and a statement without rows');
select throws_ok($$ select * from baton_internal.run_as_owner(null, 'select 1') as r (n int) $$, '22004', null, 'a table is needed');

-- code that would run after the scope is over, as whoever commits
set role :"mallory";
create constraint trigger late after insert on den.box deferrable initially deferred for each row execute function den.by_trigger();
reset role;
select throws_ok($$ select baton_internal.change_as_owner('den.box', $s$ insert into den.box (id) values ('2') $s$) $$, '42501', null,
                 'a deferred trigger does not wait for another user');
select is((select count(*)::int from public.sightings where via = 'deferred trigger'), 0, 'and did not run');
drop trigger late on den.box;

-- parts and companions of other owners
set role :"mallory";
create table den.parts (id int) partition by range (id);
reset role;
set role :"other";
create table den.part (id int);
reset role;
alter table den.parts attach partition den.part for values from (0) to (10);
select throws_ok($$ select baton_internal.change_as_owner('den.parts', 'insert into den.parts values (1)') $$, '42501', null,
                 'a partition of somebody else''s would run its triggers as the owner');
alter table den.part owner to :"mallory";
select is(baton_internal.change_as_owner('den.parts', 'insert into den.parts values (1)'), 1::bigint, 'with one owner all is well');
set role :"other";
create table den.companion (id int);
reset role;
select throws_ok($$ select baton_internal.change_as_owner('den.parts', 'select', companions => '{den.companion}') $$, '42501', null,
                 'so would a companion');
grant :"mallory" to :"other";
select lives_ok($$ select baton_internal.change_as_owner('den.parts', 'select', companions => '{den.companion}') $$,
                'unless its owner may act as the table''s anyway');
\else
select throws_ok($$ select baton_internal.change_as_owner('den.box', $s$ insert into den.box (id) values ('1') $s$) $$, '42501', null,
                 'without the extension another owner''s table is refused');
select throws_ok($$ select * from baton_internal.run_as_owner('den.box', 'select 1') as r (n int) $$, '42501', null, 'also for reading');
select is((select count(*)::int from public.sightings), 0, 'none of its code ran');
create table public.own (id int) partition by range (id);
create table den.theirs (id int);
select is(baton_internal.change_as_owner('public.own', 'select'), 1::bigint, 'baton''s owner''s own table is worked');
alter table public.own attach partition den.theirs for values from (0) to (10);
alter table den.theirs owner to :"mallory";
select throws_ok($$ select baton_internal.change_as_owner('public.own', 'select') $$, '42501', null, 'but not with a partition of another');
alter table public.own detach partition den.theirs;
select throws_ok($$ select baton_internal.change_as_owner('public.own', 'select', companions => '{den.theirs}') $$, '42501', null, 'nor with such a companion');
\endif
select is((select rolcreaterole from pg_roles where rolname = :'mallory'), false, 'nobody became more than before');

reset search_path;
drop schema den cascade;
drop owned by :"mallory", :"other";
drop role :"mallory", :"other";
select * from finish();
