-- What cannot be a stream table is refused with one clear error, and leaves nothing behind.
select no_plan();
create table source (a int, b int);
create table other (a int, c text);
create function public.broken() returns int language plpgsql as $$ begin raise exception 'no'; end $$;
create temp table fleeting (n int);
create view over_fleeting as select n from fleeting;
create function refused(query text, state text, message text, name text) returns setof text language plpgsql as $$
begin
    return next throws_like(format('select baton.create_stream_table(''st'', %L)', query), message, name);
    return next throws_ok(format('select baton.create_stream_table(''st'', %L)', query), state, null, name || ', as ' || state);
end $$;
select refused('select a, a from source', '42701', '%two columns of one name%', 'duplicate columns');
select refused('select * from source, other', '42701', '%"a" specified more than once%', 'duplicate columns of a star');
select refused('select a + b, b as c from source', '22023', 'column 1 of the query has no name', 'a column without a name');
select refused('select from source', '22023', 'the query has no columns', 'no columns');
select refused('', '22023', 'a query is needed', 'an empty text');
select refused(' ; ', '22023', 'a query is needed', 'a semicolon');
select refused('select a from source; select b from source', '22023', 'the query must be one SELECT', 'two statements');
select refused('select a from source; drop table source', '22023', 'the query must be one SELECT', 'a statement behind it');
select refused('insert into source values (1, 1) returning a', '22023', 'the query must be one SELECT%', 'an insert');
select refused('update source set a = 1', '22023', 'the query must be one SELECT%', 'an update');
select refused('drop table source', '22023', 'the query must be one SELECT%', 'a command');
select refused('show search_path', '22023', 'the query must be one SELECT%', 'a command that gives rows');
select refused('with gone as (delete from source returning a) select a from gone', '22023', 'the query must be one SELECT%', 'a delete in WITH');
select refused('select a into elsewhere from source', '22023', 'the query must be one SELECT%', 'SELECT INTO');
select refused('select a from source for update', '22023', 'the query locks rows', 'FOR UPDATE');
select refused('select a from (select a from source for share) s', '22023', 'the query locks rows', 'FOR SHARE within');
select refused('select n from fleeting', '42809', '%temporary%', 'a temporary table');
select refused('select n from over_fleeting', '42809', '%temporary%', 'a view of a temporary table');
select refused('select a from nowhere', '42P01', '%"nowhere" does not exist%', 'an unknown table');
select refused('select z from source', '42703', '%"z" does not exist%', 'an unknown column');
select refused('selec a', '42601', '%syntax error%', 'a syntax error');
select refused('select a from source where $1 = a', '42P02', '%parameter $1%', 'a parameter');
select refused('select row(a, b) as r from source', '42809', '%pseudo-type%', 'a row without a type');
select refused('select a as baton_weight from source', '42939', '%baton_%', 'a name of baton''s own');
select refused('select a as ctid from source', '42701', '%system column%', 'a system column''s name');
select refused('select public.broken() as x', 'P0001', 'no', 'a query that fails');
select is((select count(*)::int from source), 0, 'nothing was done');
select throws_ok($$ select baton.create_stream_table('st', null) $$, '22023', null, 'no query');
select throws_ok($$ select baton.create_stream_table(null, 'select 1 as a') $$, '22023', null, 'no name');
select throws_ok($$ select baton.create_stream_table('a.b.c', 'select 1 as a') $$, '42602', null, 'no table''s name');
select throws_ok($$ select baton.create_stream_table('nowhere.st', 'select 1 as a') $$, '3F000', null, 'no such schema');
select throws_ok($$ select baton.create_stream_table('baton.st', 'select 1 as a') $$, '3F000', null, 'baton''s own schema');
select throws_ok($$ select baton.create_stream_table('pg_temp.st', 'select 1 as a') $$, '3F000', null, 'a temporary schema');
select throws_ok($$ select baton.create_stream_table(repeat('n', 64), 'select 1 as a') $$, '42622', null, 'too long a name');
select throws_ok($$ select baton.create_stream_table('source', 'select 1 as a') $$, '42P07', null, 'a table that is there');
select throws_ok($$ select baton.create_stream_table('st', 'select a from source', refresh_mode => 'SOMETIMES') $$, '22023', null, 'an unknown mode');
select throws_ok($$ select baton.create_stream_table('st', 'select a from source', refresh_mode => null) $$, '22023', null, 'no mode');
select is((select count(*)::int from pg_class where relname in ('st', 'elsewhere') or relname ~ '^(baton_query|stream_[0-9])'), 0, 'nothing is left');
select is((select count(*)::int from baton.stream_tables), 0, 'not in the catalog either');

-- what is odd and fine
select lives_ok($$ select baton.create_stream_table('constant', 'values (1, ''a''), (1, ''a'')', null) $$, 'VALUES');
select results_eq('select column1, column2 from constant', $$ values (1, 'a'), (1, 'a') $$, 'give columns');
select lives_ok($$ select baton.create_stream_table('whole', 'table source', null) $$, 'TABLE');
select lives_ok($$ select baton.create_stream_table('commented', E'select a -- the first\nfrom source -- all of it', null) $$, 'comments');
select lives_ok($$ select baton.create_stream_table('recursive', 'with recursive r (n) as (select 1 union all select n + 1 from r where n < 5) select n from r', null) $$, 'WITH RECURSIVE');
select is((select sum(n)::int from recursive), 15, 'is computed');
select lives_ok($$ select baton.create_stream_table('untyped', 'select ''x'' as x, null as y', null) $$, 'literals without a type are texts');
select throws_ok($$ select baton.create_stream_table('constant', 'select 1 as a') $$, '42710', null, 'one that is there');
create sequence counter;
create view counted as select nextval('counter') as n;
select throws_ok(format('select baton.create_stream_table(%L, %L, null)', 'moving', q), '22023', 'the query moves a sequence', q)
  from unnest(array['select nextval(''counter'') as n', 'select setval(''counter'', 3) as n', 'select setval(''counter'', 3, false) as n', 'select n from counted', 'select 1 as n where exists (select nextval(''counter''))']) q;
select is(last_value, 1::bigint, 'no sequence has moved') from counter;
select lives_ok($$ select baton.create_stream_table('random_numbers', 'select random() as n, last_value from counter', null) $$, 'other volatile functions are let in');
select * from finish();
