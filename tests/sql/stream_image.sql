-- Images tell apart what `=` does not, and see no difference where a value is only stored in another way.
begin;
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset

create collation anyhow (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create type pair as (a numeric, b text);
create type mood as enum ('sad', 'ok');
create domain amount as numeric check (value >= 0);
create domain pair_domain as pair;
create domain pairs_domain as pair[];

-- Whether two values of a type have the same image.
create function pg_temp.same(type text, one text, other text, out same boolean)
language plpgsql
as $$ begin execute format('select baton_internal.image(%L::%s) = baton_internal.image(%L::%2$s)', one, type, other) into same; end $$;

select is(pg_temp.same(v.type, v.one, v.other), v.same, format('%s and %s as %s are %s', v.one, v.other, v.type, case when v.same then 'alike' else 'told apart' end))
  from (values ('float8', 'NaN', 'nan', true), ('float8', '0', '-0', false), ('float4', '0', '-0', false), ('float8', '0.1', '0.10000000000000002', false),
               ('numeric', 'NaN', 'NaN', true), ('numeric', '1.0', '1.0', true), ('numeric', '1.0', '1.00', false), ('numeric', '1e400', '1e401', false),
               ('amount', '1.0', '1.00', false), ('int2', '1', '1', true), ('int4', '-1', '1', false), ('int8', '4294967296', '0', false),
               ('interval', '1 day', '24 hours', false), ('interval', '1 month', '30 days', false), ('interval', '1 day', '1 day', true),
               ('timestamptz', '2026-01-01 00:00+00', '2026-01-01 01:00+01', true), ('timestamptz', 'infinity', '-infinity', false),
               ('timetz', '12:00+00', '13:00+01', false), ('date', '2026-01-01', '2026-01-02', false),
               ('text', 'a', 'A', false), ('text', 'a', 'a', true), ('text', '', ' ', false), ('varchar(3)', 'a', 'a ', false),
               ('bpchar', 'a', 'a ', false), ('char(3)', 'a', 'a ', true), ('"char"', 'a', 'b', false), ('name', 'a', 'a', true),
               ('jsonb', '{"a": 1.0}', '{"a": 1.00}', false), ('jsonb', '{"b":1, "a":2}', '{"a":2,"b":1}', true),
               ('json', '{"a":1}', '{"a": 1}', false), ('json', '{"a":1}', '{"a":1}', true),
               ('bytea', '\x00', '\x0000', false), ('uuid', '0e37df36-f698-11e6-8dd4-cb9ced3df976', '0E37DF36-F698-11E6-8DD4-CB9CED3DF976', true),
               ('boolean', 'true', 'false', false), ('mood', 'sad', 'ok', false), ('mood', 'sad', 'sad', true),
               ('numeric[]', '{1.0}', '{1.00}', false), ('int[]', '{1,2}', '[0:1]={1,2}', false), ('int[]', '{1,null}', '{1}', false), ('int[]', '{1,2}', '{1, 2}', true),
               ('int[]', '{{1,2}}', '{1,2}', false), ('numrange', '[1.0,2)', '[1.00,2)', false), ('numrange', '[1,2)', '[1,2]', false), ('int4range', '[1,2]', '[1,3)', true),
               ('nummultirange', '{[1,2),[3,4)}', '{[1,2), [3,4)}', true), ('nummultirange', '{[1,2)}', '{[1.0,2)}', false),
               ('pair', '(1.0,x)', '(1.00,x)', false), ('pair', '(1.0,x)', '(1.0,x)', true), ('pair', '(1.0,)', '(1.0,"")', false), ('pair', '(,)', '(,"")', false),
               ('pair[]', '{"(1.0,x)"}', '{"(1.00,x)"}', false), ('pair[]', '{"(1,x)"}', '{"(1,x)"}', true), ('pair[]', '{"(1,x)"}', '[0:0]={"(1,x)"}', false),
               ('pair[]', '{null}', '{}', false), ('pair[]', '{null,"(1,x)"}', '{"(1,x)",null}', false),
               ('pair_domain', '(1.0,x)', '(1.00,x)', false), ('pairs_domain', '{"(1,x)"}', '{"(1,x)"}', true), ('pairs_domain', '{"(1,x)"}', '{"(1,y)"}', false),
               ('xid8', '1', '1', true), ('inet', '10.0.0.1', '10.0.0.1/32', true), ('inet', '10.0.0.1/8', '10.0.0.1', false),
               ('point', '(0,0)', '(-0,0)', false), ('bit varying', '1', '10', false), ('tsvector', 'a b', 'b a', true), ('xml', '<a/>', '<a />', false)) v (type, one, other, same);

select ok('a' collate anyhow = 'A' collate anyhow and baton_internal.image('a'::text collate anyhow) <> baton_internal.image('A'::text collate anyhow),
          'what a collation calls equal is told apart');
select is(baton_internal.image(null::int), null, 'null has no image');
select is(baton_internal.image(null::pair), null, 'nor has a row that is null');
select isnt(baton_internal.image(row(null, null)::pair), null, 'but a row of nulls has one');
select isnt(baton_internal.image(row(null, row(null, null)::pair)), baton_internal.image(row(null, null::pair)), 'and within a row the two are told apart');
select isnt(baton_internal.image(row('a'::text, 'bc'::text)), baton_internal.image(row('ab'::text, 'c'::text)), 'columns of a row do not run into each other');
set datestyle = german; set timezone = 'Asia/Tokyo'; set extra_float_digits = -15; set intervalstyle = sql_standard;
select ok(not pg_temp.same('float8', '0.1', '0.10000000000000002') and not pg_temp.same('interval', '1 day', '24 hours'),
          'what a session wants to see is no matter');
reset all;

-- One long value, stored in three ways.
create table kept (id int, v text, j jsonb, a text[], p pair, pp pair[]);
alter table kept alter v set storage external, alter j set storage external, alter a set storage external;
create table squeezed (like kept);
create table in_place (v text);
create temp table words as select repeat('x', 3000) || string_agg(md5(n::text), '' order by n) as long from generate_series(1, 40) n;
insert into kept select 1, long, jsonb_build_object('k', long), array[long, 'x'], row(1.0, long)::pair, array[row(1.0, long)::pair, row(2, 'x')::pair] from (select long || '' as long from words) w;
insert into squeezed select * from kept;
insert into in_place select long from words;
insert into squeezed select 2, k.v, k.j, k.a, row(1.0, i.v)::pair, array[row(1.0, i.v)::pair, row(2, 'x')::pair] from kept k, in_place i;
select ok((select pg_column_size(v) > 4000 from kept) and (select bool_and(pg_column_size(v) < 3000) from squeezed) and (select pg_column_size(v) < 1990 from in_place),
          'a value is stored as it is, and compressed in other places');
select is(baton_internal.image(s.v), baton_internal.image(w.long), 'a compressed text is the text') from squeezed s, words w where s.id = 1;
select is(baton_internal.image(k.v), baton_internal.image(w.long), 'a text stored elsewhere, too') from kept k, words w;
select is(baton_internal.image(s.j), baton_internal.image(jsonb_build_object('k', w.long)), 'a compressed jsonb') from squeezed s, words w where s.id = 1;
select is(baton_internal.image(s.a), baton_internal.image(array[w.long, 'x']), 'a compressed array') from squeezed s, words w where s.id = 1;
select is(baton_internal.image(s.p), baton_internal.image(row(1.0, w.long)::pair), 'a compressed row') from squeezed s, words w where s.id = 1;
select is(baton_internal.image(s.p), baton_internal.image(row(1.0, w.long)::pair), 'a row with a compressed column') from squeezed s, words w where s.id = 2;
select is(baton_internal.image(s.pp), baton_internal.image(array[row(1.0, w.long)::pair, row(2, 'x')::pair]), 'an array of such rows') from squeezed s, words w where s.id = 2;
select is(count(distinct baton_internal.image(array[row(x.v)]::record[])), 1::bigint, 'and one of anonymous rows')
  from (select v from kept union all select v from squeezed union all select long from words) x;

\if :is_extension
-- The hash of a row follows the images.
select is(count(distinct baton_internal.row_hash(row(x.v, x.j, x.a, x.p, x.pp))), 1::bigint, 'rows have one hash, however they are stored')
  from (select v, j, a, p, pp from kept union all select v, j, a, p, pp from squeezed) x;
select is(count(distinct baton_internal.row_hash(x.r)), count(*), 'rows that are told apart have different hashes')
  from (values (row(1.0, 'a'::text)), (row(1.00, 'a'::text)), (row(1.0, null::text)), (row(null::numeric, 'a'::text)), (row(null::numeric, null::text)), (row(1.0, ''::text)),
               (row(1.0, 'A'::text))) x (r);
select isnt(baton_internal.row_hash(row(null::int, 1)), baton_internal.row_hash(row(1, null::int)), 'where a null stands matters');
select isnt(baton_internal.row_hash(row(0::float8)), baton_internal.row_hash(row('-0'::float8)), 'so does the sign of nothing');
select is(baton_internal.row_hash(null::pair), null, 'no row has no hash');
select ok(baton_internal.row_hash(k) is not null, 'a table''s row has one') from kept k;
select ok(baton_internal.row_hash(row()) is not null, 'a row without columns, too');
create table found_again (a numeric, gone int, b text collate anyhow, p pair);
alter table found_again drop gone;
insert into found_again select n / 10.0, 'b' || n, row(n, 'x')::pair from generate_series(1, 2000) n;
create index on found_again (baton_internal.row_hash(row(a, b, p)));
analyze found_again;
set enable_seqscan = off;
select is((select count(*) from found_again f where baton_internal.row_hash(row(f.a, f.b, f.p)) = baton_internal.row_hash(row(7 / 10.0, 'b7'::text, row(7, 'x')::pair))), 1::bigint,
          'an index finds the row by its hash');
select is((select count(distinct baton_internal.row_hash(f)) from found_again f), 2000::bigint, 'two thousand rows have as many hashes');
\endif

select * from finish();
rollback;
