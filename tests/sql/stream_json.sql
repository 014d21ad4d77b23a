-- Rows of a delta become jsonb as the server's to_jsonb() makes them, whatever their types are.
select no_plan();
select (select form from baton.installation) = 'extension' as has_module \gset
\if :has_module
create domain price as numeric(12,3);
create domain short_text as varchar(5);
create type mood as enum ('sad', 'glad');
create type pair as (a int, "b c" text);
create table everything (
    "Wide Name" int, a smallint, bb bigint, n numeric, p price, f float8, g float4, t text, v varchar(10), c char(6), s short_text, b boolean, d date, ts timestamp, tz timestamptz,
    i interval, u uuid, j json, jb jsonb, arr int[], texts text[], m mood, q pair, r int4range, by bytea, o oid, dropped int, nm name, x xml);
alter table everything drop column dropped;
insert into everything values
    (1, -32768, 9223372036854775807, 1.10, 2.5, 1e300, 0.1, E'quote " back \\ tab \t umlaut \u00e4', 'v', 'c', 'short', true, '2024-02-29', '2024-02-29 12:00', '2024-02-29 12:00+00',
     '1 day 02:00', '00000000-0000-0000-0000-000000000001', '{"b": 1,  "a": [1.0, 2.00]}', '{"b": 1, "a": [1.0, null]}', '{1,NULL,3}', '{a,"b c"}', 'glad', row(1, 'x'), '[1,5)', '\x00ff', 7, 'n', '<a/>'),
    (null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
    (-2147483648, 0, -9223372036854775808, 'NaN', 'NaN', 'NaN', 'Infinity', '', '', '', '', false, 'infinity', '-infinity', 'infinity', '-1 year', null, 'null', '[]', '{}', '{}', 'sad', row(null, null), 'empty', '', 0, '', ''),
    (0, 1, 0, 1e-20, 0.000, -0.0, 1, repeat('long ', 50000), 'x', 'y', 'z', true, '0001-01-01 BC', '0001-01-01 BC', '0001-01-01 00:00+00 BC', '0', null, '"text"', '"text"', '{{1,2},{3,4}}', null, 'sad', null, null, null, 1, 'z', null);
insert into everything (n) values ('Infinity'), ('-Infinity'), (1234567890123456789012345678901234567890.123456789), (-0.00), (1e100);
select is(baton_internal.row_json(e)::text, to_jsonb(e)::text, 'a row of everything') from everything e;
select is(baton_internal.row_json(r)::text, to_jsonb(r)::text, 'a row of a query') from (select 1 as z, 'y'::text as aa, null::int as b) r;
select is((select baton_internal.delta_json(w, r, 1000000)::text from (values (1, 'in'), (-2, 'twice out'), (0, 'nothing'), (3, 'thrice')) v (w, t) cross join lateral (select v.t as word, v.w as weight) r),
          '{"v": 1, "deleted": [{"word": "twice out", "weight": -2}, {"word": "twice out", "weight": -2}], "inserted": [{"word": "in", "weight": 1}, {"word": "thrice", "weight": 3}, {"word": "thrice", "weight": 3}, {"word": "thrice", "weight": 3}]}',
          'a delta has each row as often as its weight says');
select is((select baton_internal.delta_json(1, r, 1000)::text from (select 1 as n where false) r), '{"v": 1, "deleted": [], "inserted": []}', 'or none');
select is((select baton_internal.delta_json(1, r, 1000) from (select 'some text' as t from generate_series(1, 100)) r), null, 'and is given up when it is too large');
select isnt((select baton_internal.delta_json(1, r, 1000) from (select 'some text' as t from generate_series(1, 20)) r), null, 'not before');
\else
select pass('the server''s to_jsonb() is used');
\endif
select * from finish();
