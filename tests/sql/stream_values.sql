-- A stream table keeps what its query gives: rows as often as they come, and each value as it is, also where `=` sees no difference.
select no_plan();
create collation blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create type mood as enum ('sad', 'glad');
create type pair as (a int, b text);
create domain price as numeric check (value >= 0);
create domain tags as text[];

-- bags
create table bag (n int, t text);
insert into bag select 1, 'x' from generate_series(1, 3);
insert into bag values (null, null), (null, null), (2, null);
select baton.create_stream_table('copies', 'select n, t from bag', null);
select is((select count(*)::int from copies), 6, 'copies of a row are kept, also of rows of nulls');
delete from bag where ctid in (select ctid from bag where n = 1 limit 1);
delete from bag where ctid in (select ctid from bag where n is null limit 1);
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('copies') $$, $$ values (0::bigint, 2::bigint) $$, 'one of the copies goes');
select results_eq('select n, t, count(*) from copies group by 1, 2 order by 1', $$ values (1, 'x', 2::bigint), (2, null, 1), (null, null, 1) $$, 'and the others stay');
insert into bag select 1, 'x' from generate_series(1, 1000);
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('copies') $$, $$ values (1000::bigint, 0::bigint) $$, 'many come');
delete from bag where n = 1;
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('copies') $$, $$ values (0::bigint, 1002::bigint) $$, 'and go');

-- values that `=` takes for others
create table odd (id int primary key, num numeric, flo float8, flo4 float4, span interval, js jsonb, plain_json json, blind_text text collate blind, padded char(5),
                  nums numeric[], two pair, feeling mood, cost price, labels tags, stretch numrange, dot point, bits varbit, net inet, at timestamptz, raw bytea, free bpchar);
insert into odd (id, num, flo, flo4, span, js, plain_json, blind_text, padded, nums, two, feeling, cost, labels, stretch, dot, bits, net, at, raw, free)
values (1, 1.0, 0, 'NaN', '24 hours', '{"a": 1.0}', '{"a":1}', 'Ab', 'a', '{1.0,null}', '(1,x)', 'sad', 1.0, '{a,b}', '[1.0,2)', '(1,2)', b'101', '10.0.0.1/8', '2026-01-01 00:00+00', '\x00ff', 'a'),
       (2, 'NaN', '-Infinity', '-0', null, 'null', 'null', null, null, '{}', null, null, null, null, 'empty', null, null, null, 'infinity', '', null);
select baton.create_stream_table('kept', 'select * from odd', null);
select is((select array_agg(k::text order by id) from kept k), (select array_agg(o::text order by id) from odd o), 'values of all types are kept as they are');
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('kept') $$, $$ values (0::bigint, 0::bigint) $$, 'and known again');
create function changes(assignment text) returns text language plpgsql as $$
declare
    done record;
begin
    execute 'update odd set ' || assignment || ' where id = 1';
    done := baton.refresh_stream_table('kept');
    return format('%s-%s %s', done.inserted, done.deleted, (select (select k::text from kept k where id = 1) = (select o::text from odd o where id = 1)));
end $$;
select is(changes(c), '1-1 t', c || ' is a change')
  from unnest(array['num = 1.00', 'flo = ''-0''', 'flo4 = 0', 'span = ''1 day''', 'js = ''{"a": 1.00}''', 'plain_json = ''{"a": 1}''', 'blind_text = ''aB''', 'padded = ''b''',
                    'nums = ''{1.00,null}''', 'nums = ''[0:1]={1.00,null}''', 'two = ''(1,)''', 'two = null', 'feeling = ''glad''', 'cost = 1.00', 'labels = ''{a,B}''', 'stretch = ''[1.00,2)''',
                    'dot = ''(1,-0)''', 'bits = b''1010''', 'net = ''10.0.0.1''', 'at = ''2026-01-01 00:00:00.000001+00''', 'raw = null', 'free = ''a ''']) c;
select is(changes(c), '0-0 t', c || ' is none') from unnest(array['num = 1.00', 'at = ''2026-01-01 01:00:00.000001+01''', 'blind_text = ''aB''']) c;
select results_eq($$ select missing, surplus from baton.verify_stream_table('kept') $$, $$ values (0::bigint, 0::bigint) $$, 'verification agrees');

-- columns without equality alone, and all of one value
select baton.create_stream_table('documents', 'select plain_json from odd', null);
insert into odd (id, plain_json) values (3, '{"a": 1}'), (4, '{"a":1}');
select is((select inserted from baton.refresh_stream_table('documents')), 2::bigint, 'a type without = will do');
delete from odd where id = 4;
select is((select deleted from baton.refresh_stream_table('documents')), 1::bigint, 'both ways');
select is((select count(*)::int from documents where plain_json::text = '{"a": 1}'), 2, 'the right one went');

-- whoever refreshes, results are those of the maker's session
create table moments (at timestamptz);
insert into moments values ('2026-03-01 23:30+00');
set timezone = 'Europe/Berlin';
select baton.create_stream_table('days', 'select at::date as day, at::text as shown from moments', null);
set timezone = 'America/New_York';
set datestyle = 'German';
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('days') $$, $$ values (0::bigint, 0::bigint) $$, 'a session''s time zone changes nothing');
reset datestyle;
select results_eq('select day::text, shown from days', $$ values ('2026-03-02', '2026-03-02 00:30:00+01') $$, 'the maker''s counts');
select is(current_setting('timezone'), 'America/New_York', 'and the session keeps its own');
reset timezone;
select * from finish();
