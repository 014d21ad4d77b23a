-- A source with partitions or children is captured wherever a statement goes, and what no trigger sees changes the source's fingerprint. Extension only.
begin;
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
\if :is_extension
\ir fixtures/capture.sql

-- Whether the fingerprint of a source is another one after a statement. A fingerprint holds for the transaction that has committed before, so
-- each round has one of its own.
create table states (source regclass, columns int2[], state text);
create function pg_temp.note(source regclass, columns int2[])
returns void
language sql
as $$ delete from states; insert into states values (source, columns, baton_internal.source_state(source, columns)) $$;
create function pg_temp.is_as_noted()
returns boolean
language sql
as $$ select baton_internal.source_state(source, columns) is not distinct from state from states $$;

-- A partitioned table, whose partitions have their columns in other places.
create table sales (id int, region text, gone int, amount numeric) partition by list (region);
alter table sales drop gone;
create table sales_north (amount numeric, junk text, region text, id int);
alter table sales_north drop junk;
alter table sales attach partition sales_north for values in ('north', 'nn');
create table sales_south partition of sales for values in ('south') partition by range (id);
create table sales_south_low partition of sales_south for values from (0) to (1000);
create table sales_rest partition of sales default;
select baton_internal.capture_source('sales', '{1,2,4}');
select is(pg_temp.captured('sales', $$ insert into sales values (1, 'north', 1.0), (2, 'south', 2), (3, 'east', 3) $$), '1 1 1', 'INSERT into the whole');
select is(pg_temp.captured('sales', $$ insert into sales_north (id, region, amount) values (4, 'north', 4) $$), '1', 'into a partition');
select is(pg_temp.captured('sales', $$ insert into sales_south values (5, 'south', 5) $$), '1', 'into a partition with partitions');
select is(pg_temp.captured('sales', $$ insert into sales_south_low values (6, 'south', 6) $$), '1', 'into a partition of those');
select is(pg_temp.captured('sales', $$ update sales set amount = amount + 1 where id in (1, 2, 6) $$), '-1 -1 -1 1 1 1', 'UPDATE of the whole');
select is(pg_temp.captured('sales', $$ update sales_north set amount = 9 $$), '-1 -1 1 1', 'UPDATE of a partition');
select is(pg_temp.captured('sales', $$ update sales set region = case region when 'north' then 'south' else 'north' end where id in (1, 2, 3) $$), '-1 -1 -1 1 1 1', 'rows that move');
select is(pg_temp.captured('sales', $$ update sales_south set id = 7 where id = 6 $$), '-1 1', 'UPDATE of a partition with partitions');
select is(pg_temp.captured('sales', $$ delete from sales where id = 1 $$), '-1', 'DELETE from the whole');
select is(pg_temp.captured('sales', $$ delete from sales_north where id = 4 $$), '-1', 'DELETE from a partition');
select is(pg_temp.captured('sales', $$ insert into sales values (2, 'nn', 7), (3, 'nn', 8) $$), '1 1', 'more of them');
select is(pg_temp.captured('sales', $$ truncate sales_north $$), '-1 -1 -1 -1', 'TRUNCATE of a partition');
select is(pg_temp.captured('sales', $$ truncate sales_south $$), '-1 -1', 'TRUNCATE of a partition with partitions');
insert into sales select g, case g % 3 when 0 then 'north' when 1 then 'south' else 'west' end, g from generate_series(1, 6) g;
create function pg_temp.stay() returns trigger language plpgsql as $$ begin return case when new.id = 1 then null else new end; end $$;
create trigger stay before insert on sales_rest for each row execute function pg_temp.stay();
select is(pg_temp.captured('sales', $$ update sales set region = 'west', amount = amount + 1 $$), '-1 -1 -1 -1 -1 -1 1 1 1 1 1', 'a row that a trigger keeps from arriving is gone');
drop trigger stay on sales_rest;
select is(pg_temp.captured('sales', $$ truncate sales $$), '-1 -1 -1 -1 -1', 'TRUNCATE of the whole');

-- As a replica: with statement triggers, and with row triggers once the server has a replication origin.
create function pg_temp.captured_as_replica(mode text)
returns setof text
language plpgsql
set session_replication_role = replica
as $$
begin
    return next is(pg_temp.captured('sales', $x$ insert into sales values (1, 'north', 1), (2, 'south', 2), (3, 'west', 3) $x$), '1 1 1', 'INSERT as a replica, ' || mode);
    return next is(pg_temp.captured('sales', $x$ update sales set amount = amount + 1, region = case id when 1 then 'south' else region end $x$), '-1 -1 -1 1 1 1', 'UPDATE');
    return next is(pg_temp.captured('sales', $x$ update sales set amount = amount $x$), 'none', 'UPDATE without a change');
    return next is(pg_temp.captured('sales', $x$ delete from sales where id = 1 $x$), '-1', 'DELETE');
    return next is(pg_temp.captured('sales', $x$ truncate sales_rest $x$), '-1', 'TRUNCATE');
end
$$;
select * from pg_temp.captured_as_replica('by statement triggers');
select pg_temp.note('sales', '{1,2,4}');
select pg_replication_origin_create('elsewhere');
select ok(not pg_temp.is_as_noted(), 'a replication origin changes the fingerprint');
select baton_internal.capture_source('sales', '{1,2,4}');
delete from sales;
select * from pg_temp.captured_as_replica('by row triggers');
select is(pg_temp.captured('sales', $$ insert into sales values (1, 'north', 1); update sales set amount = 8; delete from sales where id = 1; delete from sales_south; truncate sales $$),
          '-1 -1 -1 -1 1 1 1', 'sessions of this server are captured once all the same');
select pg_replication_origin_drop('elsewhere');
select baton_internal.capture_source('sales', '{1,2,4}');
select is_empty($$ select from pg_trigger where tgname = 'baton_capture_replica' $$, 'without replication there are no row triggers');

-- Inheritance.
create table animals (id int, name text);
create table cats (lives int) inherits (animals);
create table tigers (name text, stripes int, id int) inherits (cats);
select baton_internal.capture_source('animals', '{1,2}');
select is(pg_temp.captured('animals', $$ insert into animals values (1, 'ant') $$), '1', 'INSERT into a parent');
select is(pg_temp.captured('animals', $$ insert into cats values (2, 'cat', 9) $$), '1', 'into a child');
select is(pg_temp.captured('animals', $$ insert into tigers (id, name, lives, stripes) values (3, 'tiger', 1, 20) $$), '1', 'into a child''s child');
select is(pg_temp.captured('animals', $$ update animals set name = name || '!' $$), '-1 -1 -1 1 1 1', 'UPDATE of all');
select is(pg_temp.captured('animals', $$ update tigers set stripes = 21 $$), 'none', 'UPDATE of a child''s own column');
select is(pg_temp.captured('animals', $$ update cats set name = 'c' $$), '-1 -1 1 1', 'UPDATE of children');
select is(pg_temp.captured('animals', $$ update only animals set name = 'only' $$), '-1 1', 'UPDATE ONLY');
select is(pg_temp.captured('animals', $$ truncate only animals $$), '-1', 'TRUNCATE ONLY');
select is(pg_temp.captured('animals', $$ delete from animals $$), '-1 -1', 'DELETE of all');

-- What cannot be captured says why.
create table twice (id int, name text, other int) inherits (animals);
create table machines (other int);
alter table twice inherit machines;
create temp table here (id int);
create unlogged table forgetful (id int);
create view seen as select 1 as id;
select is(baton_internal.capture_refusal('sales_north', '{1}'), 'public.sales_north is a part of public.sales: a statement there fires no triggers here', 'a partition by itself');
select is(baton_internal.capture_refusal('animals', '{1}'), 'public.twice is a part of public.machines, too', 'a child of two');
select matches(baton_internal.capture_refusal('here', '{1}'), 'here is temporary', 'a temporary table');
select is(baton_internal.capture_refusal('forgetful', '{1}'), 'public.forgetful is unlogged: a crash empties it', 'an unlogged one');
select is(baton_internal.capture_refusal('seen', '{1}'), 'public.seen is a view', 'a view');
select is(baton_internal.capture_refusal('pg_class', '{1}'), 'pg_class is a table of the server', 'the server''s own');
select is(baton_internal.capture_refusal('sales', '{-6}'), 'system column tableoid of public.sales is no column that triggers see', 'a system column');
select is(baton_internal.capture_refusal('sales', '{1,2}'), null, 'nothing is said where nothing is amiss');
select throws_ok($$ select baton_internal.capture_source('forgetful', '{1}') $$, '0A000', null, 'and nothing is captured otherwise');
select throws_ok($$ select baton_internal.capture_source('sales', '{77}') $$, '42703', null, 'a column that is not there is an error');
select throws_ok($$ select baton_internal.capture_source('sales', '{3}') $$, '42703', null, 'so is one that was dropped');
select throws_ok($$ select baton_internal.capture_source(1, '{3}') $$, '42P01', null, 'and a table that is not there');
drop table twice;
commit;

-- Fingerprints: each change by itself is committed.
create table source_of_states (id int, v text, other int) partition by range (id);
create table low partition of source_of_states for values from (0) to (10);
select baton_internal.capture_source('source_of_states', '{1,2}');
create function pg_temp.state_after(statements text)
returns text
language plpgsql
as $$
begin
    perform pg_temp.note('source_of_states', '{1,2}');
    execute statements;
    return case when pg_temp.is_as_noted() then 'same' else 'other' end;
end
$$;
select is(pg_temp.state_after(v.statement), v.state, v.statement)
  from (values (1, 'insert into source_of_states values (1, ''a'', 1)', 'same'),
               (2, 'alter table source_of_states alter other type bigint', 'same'),
               (3, 'alter table source_of_states add more int', 'same'),
               (4, 'create index on source_of_states (id)', 'same'),
               (5, 'analyze source_of_states', 'same'),
               (6, 'create table high partition of source_of_states for values from (10) to (20)', 'other'),
               (7, 'select baton_internal.capture_source(''source_of_states'', ''{1,2}'')', 'other'),
               (8, 'select baton_internal.capture_source(''source_of_states'', ''{1,2}'')', 'same'),
               (9, 'select baton_internal.capture_source(''source_of_states'', ''{3}'')', 'same'),
               (10, 'alter table high disable trigger baton_capture_insert', 'other'),
               (11, 'alter table high enable trigger baton_capture_insert', 'other'),
               (12, 'select baton_internal.capture_source(''source_of_states'', ''{1,2}'')', 'other'),
               (13, 'select baton_internal.capture_source(''source_of_states'', ''{1,2}'')', 'same'),
               (14, 'alter table source_of_states detach partition high', 'other'),
               (15, 'alter table source_of_states attach partition high for values from (10) to (20)', 'other'),
               (16, 'alter table source_of_states alter v type text using v || ''!''', 'other'),
               (17, 'alter table source_of_states alter v type varchar(100)', 'other'),
               (18, 'truncate source_of_states', 'same'),
               (19, 'select baton_internal.release_source(''source_of_states'')', 'other')) v (n, statement, state) order by v.n;

-- Detached and attached again within two looks, the set of partitions is as before; the fingerprint is not.
select baton_internal.capture_source('source_of_states', '{1,2}');
select pg_temp.note('source_of_states', '{1,2}');
alter table source_of_states detach partition high;
insert into high values (11, 'unseen', 1);
alter table source_of_states attach partition high for values from (10) to (20);
select ok(not pg_temp.is_as_noted(), 'a partition that was away for a while');
select pg_temp.note('source_of_states', '{1,2}');
alter table high disable trigger user;
alter table high enable always trigger baton_capture_insert, enable always trigger baton_capture_update, enable always trigger baton_capture_delete,
    enable always trigger "~baton_capture_truncate";
select ok(not pg_temp.is_as_noted(), 'and triggers that were off for a while are seen');
select baton_internal.capture_source('source_of_states', '{1,2}');
select is(pg_temp.captured('source_of_states', $$ insert into high values (12, 'x', 1); insert into source_of_states values (13, 'y', 1) $$), '1 1', 'all is captured again');
alter trigger baton_capture_insert on high rename to mine;
select baton_internal.capture_source('source_of_states', '{1,2}');
select is(pg_temp.captured('source_of_states', $$ insert into high values (14, 'x', 1) $$), '1', 'a trigger by another name is not made a second time');
alter table source_of_states detach partition high;
select lives_ok($$ insert into high values (15, 'x', 1) $$, 'a partition that has left is written to as before');
select baton_internal.release_source('source_of_states');
select is_empty($$ select from pg_trigger where tgfoid = 'baton_internal.capture_changes()'::regprocedure and tgrelid in ('high'::regclass, 'low'::regclass, 'source_of_states'::regclass) $$,
                'a source that is released has no triggers left, nor what has left it');
select is(baton_internal.change_buffer('source_of_states'), null, 'and no buffer');
begin;
\else
select hasnt_function('baton_internal', 'source_state', 'without the extension nothing is captured');
\endif

select * from finish();
rollback;
