-- A row that fills a page has no room for what the change buffer notes beside it. Its writer does not fail for that: the next refresh is full. Extension only.
begin;
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
\if :is_extension

\ir fixtures/capture.sql

-- Make a table of so many text columns c1, c2, ... beside its number.
create function pg_temp.make_wide(name text, columns int, column_default text default null)
returns void
language plpgsql
as $$
begin
    execute format('create table %I (id int4)', name);
    execute format('insert into %I values (1), (2), (3)', name);
    execute format('alter table %I %s', name, (select string_agg(format('add v%s text default %L', g, column_default), ', ') from generate_series(1, columns) g));
end
$$;

-- Give a row of such a table with the same text everywhere.
create function pg_temp.wide_insert(name text, id int, value text)
returns text
language sql
as $$
    select format('insert into %I values (%s, %s)', name, id, string_agg(quote_literal(value), ', '))
      from pg_attribute a where a.attrelid = name::regclass and a.attname ~ '^v[0-9]+$'
$$;

-- As wide as a row can be, of values that are too short to be stored elsewhere.
select pg_temp.make_wide('full_page', 406);
delete from full_page;
select baton_internal.capture_source('full_page', array(select generate_series(1, 407)::int2));
select pg_temp.remember('full_page');
select lives_ok(pg_temp.wide_insert('full_page', 1, repeat('x', 19)), 'INSERT of a row that fills a page');
select is(pg_temp.weights('full_page'), '0', 'which is marked as missed');
select pg_temp.remember('full_page');
select lives_ok($$ update full_page set id = 2 $$, 'UPDATE of one');
select is(pg_temp.weights('full_page'), '0', 'too');
select pg_temp.remember('full_page');
select lives_ok($$ insert into full_page select f.* from full_page f cross join generate_series(1, 999); delete from full_page where id = 2 $$, 'many of them');
select is(pg_temp.weights('full_page'), '0 0', 'are missed once per statement');
select pg_temp.wide_insert('full_page', 3, repeat('x', 19)) \gexec
select pg_temp.remember('full_page');
select lives_ok($$ truncate full_page $$, 'TRUNCATE');
select is(pg_temp.weights('full_page'), '0', 'is no other');
select is(pg_temp.captured('full_page', pg_temp.wide_insert('full_page', 1, repeat('x', 18))), '1', 'a row with room enough is captured');

-- Columns that were added to rows without a value each: the row as it is read is wider than a page.
select pg_temp.make_wide('grown', 500, repeat('d', 20));
select baton_internal.capture_source('grown', array(select generate_series(1, 501)::int2));
select lives_ok($$ delete from grown where id = 1 $$, 'DELETE of a row that has grown by defaults');
select is(pg_temp.weights('grown'), '0', 'which is marked as missed');
select lives_ok($$ truncate grown $$, 'and all of them');

-- Long values are stored elsewhere, here and there.
select pg_temp.make_wide('long_values', 280);
delete from long_values;
select baton_internal.capture_source('long_values', array(select generate_series(1, 281)::int2));
select is(pg_temp.captured('long_values', pg_temp.wide_insert('long_values', 1, repeat('long', 700))), '1', 'INSERT of long values');
select is(pg_temp.captured('long_values', $$ update long_values set id = 2 $$), '-1 1', 'UPDATE of them');
select is(pg_temp.captured('long_values', $$ delete from long_values $$), '-1', 'DELETE of them');

-- A stream table over such rows.
select baton.create_stream_table('over_full', 'select id, v1, ' || (select string_agg('length(v' || g || ') as l' || g, ', ') from generate_series(2, 406) g) || ' from full_page', schedule => null, refresh_mode => 'DIFFERENTIAL');
select lives_ok(pg_temp.wide_insert('full_page', 7, repeat('x', 19)), 'a writer below a stream table');
select is((select row(mode, inserted, deleted)::text from baton.refresh_stream_table('over_full')), '(FULL,1,0)', 'has the next refresh computed in full');
select is((select row(missing, surplus)::text from baton.verify_stream_table('over_full')), '(0,0)', 'and nothing is lost');
select lives_ok(pg_temp.wide_insert('full_page', 8, 'short'), 'a shorter one');
select is((select row(mode, inserted, deleted)::text from baton.refresh_stream_table('over_full')), '(DIFFERENTIAL,1,0)', 'is followed again');

-- A buffer has fewer columns to give than a table may have.
select pg_temp.make_wide('most_columns', 1598);
select matches(baton_internal.capture_refusal('most_columns', array(select generate_series(1, 1599)::int2)), '1599 columns of public.most_columns', 'columns for which a buffer has no room are refused');
select is(baton_internal.capture_refusal('most_columns', array(select generate_series(1, 1500)::int2)), null, 'fewer are not');
select baton_internal.capture_source('most_columns', array(select generate_series(1, 1500)::int2));
select matches(baton_internal.capture_refusal('most_columns', array(select generate_series(1400, 1599)::int2)), '1599 columns of public.most_columns', 'unless others want the rest');
select is(pg_temp.captured('most_columns', $$ update most_columns set v1000 = 'x' where id = 1 $$), '-1 1', 'a row of most columns is captured');

\else
select hasnt_function('baton_internal', 'capture_source', 'without the extension nothing is captured');
\endif
select * from finish();
rollback;
