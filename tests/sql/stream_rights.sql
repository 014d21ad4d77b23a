-- A stream table is made and refreshed with its owner's rights, whoever refreshes; nobody gets more by it.
select no_plan();
\ir fixtures/mallory.sql
select 'other_' || current_database() as other \gset
create role :"other";
grant :"other" to current_user;
grant baton_operator to :"other";
grant usage on schema den to :"other";
create table public.secret (id int, owner text);
insert into public.secret values (1, :'mallory'), (2, 'somebody');

\if :as_owner
set role :"mallory";
select throws_ok($$ select baton.create_stream_table('den.stolen', 'select * from public.secret') $$, '42501', null, 'what the maker may not read, no stream table does');
select throws_ok($$ select baton.create_stream_table('public.mine', 'select 1 as n') $$, '42501', null, 'nor is it made where the maker may create nothing')
 where not has_schema_privilege('public', 'create');
reset role;
grant select on public.secret to :"mallory";
set role :"mallory";
select is(baton.create_stream_table('den.copy', 'select id, owner, den.grab(''query'') as won from public.secret', null)::text, 'den.copy', 'with the right it is made');
reset role;
select public.only_mallory('the first refresh');
select is((select relowner::regrole::text from pg_class where oid = 'den.copy'::regclass), quote_ident(:'mallory'), 'it belongs to its maker');
insert into public.secret values (3, 'x');
select is((select inserted from baton.refresh_stream_table('den.copy')), 1::bigint, 'somebody else refreshes it');
select public.only_mallory('a refresh by a superuser');
select baton.verify_stream_table('den.copy');
select public.only_mallory('verification');
update baton.stream_tables set next_due = '-infinity', schedule = '1s' where relation = 'den.copy'::regclass;
insert into public.secret values (4, 'y');
select baton_internal.refresh_due_stream(null);
select public.only_mallory('the job');
select is((select count(*)::int from den.copy), 4, 'which refreshed it');

-- the query cannot be had by other ways
set role :"mallory";
select throws_ok(format('select * from %s', (select query_view from baton.stream_tables where relation = 'den.copy'::regclass)), '42501', null, 'nobody reads the view of the query');
select throws_ok(format('drop view %s', (select query_view from baton.stream_tables where relation = 'den.copy'::regclass)), '42501', null, 'or drops it');
select throws_ok($$ update baton.stream_tables set qualified = 'select 1' $$, '42501', null, 'or writes to the catalog');
select throws_ok($$ update den.copy set id = 0 $$, '55000', null, 'the owner does not write to the table either');
create view den.bait as select 1 as n;
select throws_ok($$ select baton_internal.take_stream('public.secret', 'den.bait', '{"query": "", "parameters": {}, "refresh_mode": "FULL"}') $$, '42501', null, 'a table of somebody else''s is not taken');
create table den.own (n int);
select throws_ok($$ select baton_internal.take_stream('den.own', 'public.sightings', '{"query": "", "parameters": {}, "refresh_mode": "FULL"}') $$, '42809', null, 'nor a query that is none');
reset role;
create view public.my_view as select 1 as n;
set role :"mallory";
select throws_ok($$ select baton_internal.take_stream('den.own', 'public.my_view', '{"query": "", "parameters": {}, "refresh_mode": "FULL"}') $$, '42501', null, 'nor somebody else''s view');

-- a view that was opened by its columns before it was given to baton
reset role;
create table public.vault (s text);
insert into public.vault values ('top secret');
set role :"mallory";
create view den.peephole as select s from public.vault;
grant select (s), insert (s), update (s) on den.peephole to baton_operator with grant option;
grant select (s) on den.peephole to public;
create table den.bait_table (s text);
select baton_internal.take_stream('den.bait_table', 'den.peephole', '{"query": "x", "parameters": {}, "refresh_mode": "FULL"}');
select query_view as peephole from baton.stream_tables where relation = 'den.bait_table'::regclass \gset
select throws_ok(format('select s from %s', :'peephole'), '42501', null, 'rights on the columns of a view that is given to baton are gone');
select throws_ok(format('update %s set s = %L', :'peephole', 'x'), '42501', null, 'those to write, too');
select ok(not has_any_column_privilege(:'peephole', 'select, insert, update, references'), 'all of them');
select baton.drop_stream_table('den.bait_table');

-- a repair by somebody who may do more
create function den.by_constant(x int) returns int language plpgsql immutable as $$ begin perform den.grab('constant'); return x; end $$;
create domain den.checked as int check (den.by_check(value::text));
create table den.source (id int, x den.checked);
insert into den.source values (1, 1);
select baton.create_stream_table('den.damaged', 'select id, x from den.source', null, 'FULL');
alter table den.damaged drop column x;
create table den.lost (id int);
select baton.create_stream_table('den.orphan', 'select id, den.by_constant(5) as n from den.lost', null, 'FULL');
set client_min_messages = error;
drop table den.lost cascade;
reset client_min_messages;
create table den.lost (id int);
insert into den.lost values (1);
reset role;
delete from public.sightings;
select lives_ok($$ select baton.repair_stream_table('den.damaged') $$, 'columns are restored by somebody else');
select public.only_mallory('who adds a column');
select lives_ok($$ select baton.repair_stream_table('den.orphan') $$, 'and so is a query');
select public.only_mallory('who makes it again');
select lives_ok($$ select baton.alter_stream_table('den.orphan', query => 'select id, x from den.source') $$, 'another query is given by somebody else');
select public.only_mallory('who adds its columns');
select is((select x::int from den.orphan), 1, 'and computed');
select results_eq($$ select id, x::int from den.damaged $$, $$ values (1, 1) $$, 'all is there again');
delete from public.sightings;

-- who changes it
set role :"other";
select throws_ok($$ select baton.drop_stream_table('den.copy') $$, '42501', null, 'another operator does not drop it');
select throws_ok($$ select baton.alter_stream_table('den.copy', paused => true) $$, '42501', null, 'nor change it');
select throws_ok($$ select baton.enable_outbox('den.copy') $$, '42501', null, 'nor give it an outbox');
select throws_ok($$ select baton.repair_stream_table('den.copy') $$, '42501', null, 'nor repair it');
select lives_ok($$ select baton.refresh_stream_table('den.copy') $$, 'but refresh it');
reset role;

-- rights that are taken away, and policies
revoke select on public.secret from :"mallory";
select throws_ok($$ select * from baton.refresh_stream_table('den.copy') $$, '42501', null, 'a right that is taken away is gone for the next refresh');
grant select on public.secret to :"mallory";
alter table public.secret enable row level security;
create policy own on public.secret for select to public using (owner = current_user);
select is((select deleted from baton.refresh_stream_table('den.copy')), 3::bigint, 'row-level security applies as to the owner');
delete from public.sightings;
alter table den.copy owner to :"other";
select throws_ok($$ select * from baton.refresh_stream_table('den.copy') $$, '42501', null, 'a new owner has no rights but its own');
grant select on public.secret to :"other";
grant execute on function den.grab(text) to :"other";
select is((select deleted from baton.refresh_stream_table('den.copy')), 1::bigint, 'and sees its own rows');
select is((select count(*)::int from public.sightings where who = :'mallory'), 0, 'nothing ran as the old one');
grant create on schema den to :"other";
set role :"other";
select lives_ok($$ select baton.enable_outbox('den.copy') $$, 'the owner gives it an outbox');
select lives_ok($$ select baton.drop_stream_table('den.copy') $$, 'and drops it');
reset role;
\else
set role :"mallory";
select throws_ok($$ select baton.create_stream_table('den.copy', 'select 1 as n') $$, '42501', null, 'without the extension only baton''s owner makes stream tables');
reset role;
create schema mine;
grant create on schema mine to :"mallory";
select lives_ok($$ select baton.create_stream_table('mine.copy', 'select id from public.secret') $$, 'who does');
select throws_ok($$ select baton.alter_stream_table('mine.copy', refresh_mode => 'DIFFERENTIAL') $$, '0A000', null, 'a differential refresh needs the extension');
select throws_like($$ select baton.alter_stream_table('mine.copy', refresh_mode => 'DIFFERENTIAL') $$, '%extension%', 'and says so');
select results_eq($$ select effective_mode, reason ~ 'extension' from baton.stream_table_status('mine.copy') $$, $$ values ('FULL', true) $$, 'AUTO is FULL, with the reason');
alter table mine.copy owner to :"mallory";
select throws_ok($$ select * from baton.refresh_stream_table('mine.copy') $$, '42501', null, 'a table of somebody else''s is not worked');
\endif
select is((select count(*)::int from public.sightings where won), 0, 'nobody became more than before');
drop schema den cascade;
drop owned by :"mallory", :"other" cascade;
drop role :"mallory", :"other";
select * from finish();
