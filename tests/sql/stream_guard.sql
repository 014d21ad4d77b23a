-- Nobody, the owner neither, writes to a stream table past its guard or changes what a refresh writes: the server or a refresh refuses, or the next refresh is full.
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
create table facts (id int);
insert into facts values (1), (2);
select baton.create_stream_table('kept', 'select id from facts', null);
create function pg_temp.wrong()
returns bigint
language sql
as $$ select missing + surplus from baton.verify_stream_table('kept') $$;

-- through another table
create table parent (id int);
select throws_like('alter table kept inherit parent', '%baton_stream_whole%', 'a stream table becomes nobody''s child');
create table parts (id int) partition by range (id);
select throws_like('alter table parts attach partition kept for values from (0) to (100)', '%baton_stream_whole%', 'nor a partition');
create table child () inherits (kept);
insert into child values (77);
insert into facts values (3);
select throws_like($$ select * from baton.refresh_stream_table('kept') $$, '%child inherits from stream table public.kept%', 'rows of a child are not the query''s');
drop table child;
select is((select inserted from baton.refresh_stream_table('kept')), 1::bigint, 'without the child all is well');

-- triggers and rules of the owner
create function halve() returns trigger language plpgsql as $$ begin if new.id = 5 then return null; end if; new.id := new.id + 10; return new; end $$;
create trigger halved before insert on kept for each row execute function halve();
insert into facts values (4), (5);
select throws_like($$ select * from baton.refresh_stream_table('kept') $$, '%trigger halved of stream table public.kept can change what a refresh writes', 'a trigger that changes rows is refused');
select is(pg_temp.wrong(), 2::bigint, 'nothing was written');
drop trigger halved on kept;
create function meddle() returns trigger language plpgsql as $$ begin insert into public.kept values (99); return null; end $$;
create trigger meddling after insert on kept for each statement execute function meddle();
select throws_like($$ select * from baton.refresh_stream_table('kept') $$, 'INSERT of stream table public.kept is refused%', 'a trigger cannot write to the table within a refresh');
drop trigger meddling on kept;
create table heard (id int);
create function tell() returns trigger language plpgsql as $$ begin insert into public.heard values (new.id); return null; end $$;
create trigger telling after insert on kept for each row execute function tell();
select is((select inserted from baton.refresh_stream_table('kept')), 2::bigint, 'one that does something else may be there');
select results_eq('select id from heard order by 1', 'values (4), (5)', 'and does it');
drop trigger telling on kept;
create rule away as on insert to kept do instead nothing;
insert into facts values (6);
select throws_like($$ select * from baton.refresh_stream_table('kept') $$, '%rule away of stream table public.kept can change what a refresh writes', 'a rule is refused');
drop rule away on kept;
select is((select inserted from baton.refresh_stream_table('kept')), 1::bigint, 'without it all is well');
select is(pg_temp.wrong(), 0::bigint, 'and right');

-- a guard that is taken away
alter table kept disable trigger baton_stream;
delete from kept where id = 1;
insert into facts values (7);
select throws_like($$ select * from baton.refresh_stream_table('kept') $$, 'stream table public.kept has lost its guard', 'without its guard it is not refreshed');
alter table kept enable always trigger baton_stream;
select is((select inserted from baton.refresh_stream_table('kept')), 2::bigint, 'a guard that was away makes the next refresh full');
drop trigger baton_stream_whole on kept;
alter table kept inherit parent;
update parent set id = 55 where id = 2;
select throws_like($$ select * from baton.refresh_stream_table('kept') $$, 'stream table public.kept has lost its guard', 'nor without the half that keeps it alone');
alter table kept no inherit parent;
select results_eq($$ select inserted, deleted from baton.repair_stream_table('kept') $$, 'values (1::bigint, 1::bigint)', 'a repair puts everything back');
select throws_ok('alter table kept inherit parent', '0A000', null, 'the guard, too');
select is(pg_temp.wrong(), 0::bigint, 'and all is right');

-- row-level security of the stream table itself
\if :is_extension
create role guard_keeper;
grant baton_operator to guard_keeper;
create schema keeping authorization guard_keeper;
grant select, trigger on facts to guard_keeper;
set role guard_keeper;
select baton.create_stream_table('keeping.own', 'select id from public.facts', null);
alter table keeping.own enable row level security;
create policy higher_ones on keeping.own using (id > 3) with check (true);
reset role;
insert into facts values (8);
delete from facts where id = 1;
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('keeping.own') $$, 'values (1::bigint, 1::bigint)', 'policies for readers are no matter');
set role guard_keeper;
alter table keeping.own force row level security;
reset role;
delete from facts where id in (2, 8);
select throws_like($$ select * from baton.refresh_stream_table('keeping.own') $$, 'row-level security of stream table keeping.own hides rows from its owner%', 'policies for the owner are');
set role guard_keeper;
alter table keeping.own no force row level security;
reset role;
select is((select deleted from baton.refresh_stream_table('keeping.own')), 2::bigint, 'without force all is well');
select baton.drop_stream_table('keeping.own');
drop owned by guard_keeper;
drop role guard_keeper;
\endif

-- What a schedule does says the same.
alter table kept disable trigger baton_stream;
select baton.alter_stream_table('kept', schedule => '1s');
insert into facts values (9);
update baton.stream_tables set next_due = '-infinity';
select baton_internal.refresh_due_stream(null);
select is((select last_error from baton.stream_table_status('kept')), '55000: stream table public.kept has lost its guard', 'the state says what is wrong');

select * from finish();
