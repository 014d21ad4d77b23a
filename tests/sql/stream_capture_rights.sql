-- Capture gives nobody rights and needs none, and no DDL on a source breaks its writers. Extension only.
begin;
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
\if :is_extension
\ir fixtures/capture.sql
select 'writer_' || current_database() as writer, 'maker_' || current_database() as maker \gset
create role :"writer";
create role :"maker";
alter default privileges grant all on tables to public;
create table ledger (id int, v text, secret text);
alter default privileges revoke all on tables from public;
revoke all on ledger from public;
grant insert, update, delete, truncate, select on ledger to :"writer";
alter default privileges grant all on tables to public;

-- Whoever wants the changes may make triggers on the source.
select throws_ok(format($$ select baton_internal.capture_source('ledger', '{1,2}', %L) $$, :'maker'), '42501', 'permission denied for table public.ledger', 'without the right to make triggers nothing is captured');
grant trigger on ledger to :"maker";
select lives_ok(format($$ select baton_internal.capture_source('ledger', '{1,2}', %L) $$, :'maker'), 'with the right it is');
select ok(not has_any_column_privilege('public', baton_internal.change_buffer('ledger'), 'select, insert, update, references'), 'a buffer is closed, whatever default privileges say');

-- A writer without any right on baton's schemas, in a schema full of traps.
create schema den;
grant all on schema den to :"writer";
select format('create table den.changes_%s (xid xid8, step int4, weight int2, c1 int, c2 text)', 'ledger'::regclass::oid) \gexec
set role :"writer";
set search_path = den, public, pg_catalog;
create function den.xideq(xid8, xid8) returns boolean language plpgsql as $$ begin raise exception 'trapped'; end $$;
create operator den.= (leftarg = xid8, rightarg = xid8, function = den.xideq);
insert into ledger values (1, 'a', 's'), (2, 'b', 's');
update ledger set v = 'c' where id = 2;
delete from ledger where id = 1;
reset search_path;
select throws_ok($$ select * from baton_internal.installation $$, '42501', null, 'the writer may not look into baton''s schema');
select throws_ok(format('select * from baton_internal.changes_%s', 'ledger'::regclass::oid), '42501', null, 'nor into the buffer');
select throws_ok($$ select baton_internal.capture_changes() $$, '42501', null, 'nor call the trigger''s function');
create table den.own (id int);
select throws_ok($$ create trigger mine after insert on den.own referencing new table as n for each statement execute function baton_internal.capture_changes() $$, '42501', null,
                 'nor make triggers with it');
reset role;
select is(pg_temp.weights('ledger'), '-1 -1 1 1 1', 'all the same the changes are captured');
select is_empty(format('select from den.changes_%s', 'ledger'::regclass::oid), 'in the buffer alone');

-- By the hand of an administrator.
select throws_ok($$ select baton_internal.capture_changes() $$, '39P01', 'capture_changes is a function of the triggers that baton makes', 'the function works for triggers only');
create trigger mine after insert on den.own referencing new table as n for each statement execute function baton_internal.capture_changes();
select lives_ok($$ insert into den.own values (1) $$, 'a trigger on a table without a buffer does nothing');
drop trigger mine on den.own;
create trigger mine before insert on den.own for each row execute function baton_internal.capture_changes();
select throws_ok($$ insert into den.own values (1) $$, '39P01', null, 'a trigger that baton would not make is refused');
drop trigger mine on den.own;
create trigger mine after update on den.own for each statement execute function baton_internal.capture_changes();
select throws_ok($$ update den.own set id = 2 $$, '39P01', null, 'so is one without transition tables');

-- Row-level security hides nothing from the buffer.
alter table ledger enable row level security;
create policy few on ledger using (id > 100) with check (true);
truncate ledger;
set role :"writer";
insert into ledger values (5, 'hidden', 's'), (500, 'shown', 's');
update ledger set v = 'changed';
truncate ledger;
reset role;
select is(pg_temp.captured('ledger', 'insert into ledger values (1)'), '1', 'all rows are captured under policies');
alter table ledger disable row level security;

-- DDL on the source.
select pg_temp.remember('ledger');
alter table ledger rename v to w;
alter table ledger rename to book;
insert into book values (2, 'x', '');
alter table book rename to ledger;
select is(pg_temp.weights('ledger'), '1', 'names do not matter');
select is(pg_temp.captured('ledger', $$ alter table ledger alter secret type bytea using '\x00'; insert into ledger values (3, 'x', '\x01') $$), '1', 'nor do types of other columns');
select pg_temp.remember('ledger');
alter table ledger alter w type int using 7;
select lives_ok($$ insert into ledger values (4, 9, '') $$, 'a column of another type does not stop a writer');
select lives_ok($$ update ledger set w = w + 1 where id = 4 $$, 'of whichever kind');
select lives_ok($$ truncate ledger $$, 'at all');
select is(pg_temp.weights('ledger'), '0 0 0', 'but the buffer says that something was missed');
select baton_internal.capture_source('ledger', '{1,2}');
select col_type_is('baton_internal', 'changes_' || 'ledger'::regclass::oid, 'c2', 'integer', 'until the source is captured anew');
select is(pg_temp.captured('ledger', $$ insert into ledger values (5, 10, '') $$), '1', 'with its new type');
alter table ledger alter w type numeric(10, 2);
select is(pg_temp.captured('ledger', $$ do $x$ begin end $x$ $$), 'none', 'nothing is missed where nothing is written');
insert into ledger values (6, 1.234, '');
select is(pg_temp.weights('ledger'), '0', 'a narrower type is another one');
select baton_internal.capture_source('ledger', '{1}');
select hasnt_column('baton_internal', 'changes_' || 'ledger'::regclass::oid, 'c2', 'a column that does not fit and that nobody wants goes');
select is(pg_temp.captured('ledger', $$ insert into ledger values (7, 1, '') $$), '1', 'and the rest is captured');
select baton_internal.capture_source('ledger', '{1,2}');
delete from ledger;
select pg_temp.remember('ledger');
alter table ledger drop w;
insert into ledger values (8, '');
update ledger set id = 9 where id = 8;
truncate ledger;
select is(pg_temp.weights('ledger'), '-1 -1 1 1', 'a column that is dropped is missed by nobody');
create domain kept as text not null;
alter table ledger add k kept default 'k';
select baton_internal.capture_source('ledger', '{1}') as buffer_before \gset
insert into ledger values (10, '', 'l');
select isnt(baton_internal.capture_source('ledger', '{1,4}')::oid, :'buffer_before'::regclass::oid, 'a column without nulls needs another buffer where there are rows');
select is(pg_temp.captured('ledger', $$ insert into ledger values (11, '', 'm') $$), '1', 'which is filled from then on');

-- A buffer is its source's, and nobody else's.
select baton_internal.change_buffer('ledger')::text as buffer \gset
delete from pg_depend where objid = :'buffer'::regclass and refobjid = 'ledger'::regclass;
alter table ledger alter id set statistics 10;  -- as in a session that has not seen the buffer yet
select lives_ok($$ insert into ledger values (12, '', 'n') $$, 'a source whose buffer comes out of a dump is written to as before');
select is_empty(format('select from %s where c1 = 12', :'buffer'), 'and such a buffer is not filled');
select is(baton_internal.change_buffer('ledger'), null, 'since it is nobody''s');
select baton_internal.capture_source('ledger', '{1}') as again \gset
select is(pg_temp.captured('ledger', $$ insert into ledger values (13, '', 'o') $$), '1', 'a new one takes its place');
drop table ledger;
select is(to_regclass(:'buffer'), null, 'the buffer goes with its source');
select throws_ok($$ select baton_internal.source_state('ledger', '{1}') $$, '42P01', null, 'which is no more');
\else
select hasnt_function('baton_internal', 'capture_changes', 'without the extension nothing is captured');
\endif

select * from finish();
rollback;
