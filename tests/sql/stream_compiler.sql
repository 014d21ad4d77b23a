-- The compiler of stream tables says what it cannot follow, and refuses what no stream table may be. That its statements
-- compute the right change is tested by changing tables at random, see tests/isolation/stream_random_test.cpp.
begin;
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset

\if :is_extension
create schema shop;
create table shop.orders (id int primary key, customer int, amount numeric, note text, placed_at timestamptz);
create table shop.customers (id int primary key, name text);
create view shop.big as select id, customer from shop.orders where amount > 100;
create view shop.late as select id from shop.orders where placed_at < now();
create materialized view shop.kept as select id from shop.orders;
set search_path = shop, public;

-- What stands in the way of following the changes of a query, null for nothing.
create function pg_temp.obstacle(query text) returns text language sql as $$ select reason from baton_internal.compile_stream_query(query) $$;

select is(pg_temp.obstacle(v.query), v.reason, v.query)
  from (values ('select id from orders', null), ('select id from big', null), ('select 1 as one union all select id from orders', null), ('select count(*) from orders', null),
               ('with recursive r as (select 1 as n union all select n + 1 from r where n < 3) select n from r', 'the query reads no table'),
               ('with recursive r as (select id from orders union select c.id from customers c join r on c.id = r.id + 1) select id from r', null),
               ('with recursive r as (select id from orders union select c.id from r left join customers c on c.id = r.id + 1) select id from r', 'an outer join within a subquery looks outside of the subquery'),
               ('with recursive r as (select id from orders union select c.id from customers c join r on c.id = r.id + 1) search depth first by id set place select id from r', 'SEARCH or CYCLE of a recursive query'),
               ('select id from orders where placed_at > now()', null),
               ('select id from late', null),
               ('select id, now() as at from orders', 'the time of the query is used elsewhere than in a condition of WHERE or an inner join'),
               ('select o.id from orders o where exists (select from customers c where c.id = o.id and o.placed_at < now())', 'the time of the query is used elsewhere than in a condition of WHERE or an inner join'),
               ('select id, g.at from customers, generate_series(now(), now(), ''1 day'') g (at)', 'the time of the query is used elsewhere than in a condition of WHERE or an inner join'),
               ('select id from orders where note = current_user', 'a value of the session (the time with a precision, the user, the schema) may give another result when no row has changed'),
               ('select g from generate_series(1, (select max(id) from orders)) g, customers', null),
               ('select id from orders o where exists (select from (values (o.id)) v (x) where x > 1)', null),
               ('select o.id, x.n from orders o, lateral (select count(*) as n from customers c where c.id = o.customer) x', null),
               ('select o.id, x.n from orders o, lateral (select (select max(p.id) from orders p where p.id < c.id + o.id) as n from customers c) x', null),
               ('select o.id, x.n from orders o, lateral (select c.name as n from customers c left join orders p on p.id = o.id) x', 'an outer join within a subquery looks outside of the subquery'),
               ('select o.customer from orders o group by o.customer having max(o.id) > any (select c.id from customers c)', 'a subquery that uses an aggregate of the block around it'),
               ('select id, random() from orders', 'random() may give another result when no row has changed'),
               ('select id from orders where placed_at > current_timestamp', null),
               ('select date_trunc(''day'', placed_at) from orders', null),
               ('select id from orders tablesample system (10)', 'TABLESAMPLE takes rows by chance'),
               ('select id from kept', 'shop.kept is a materialized view'),
               ('select ctid from orders', 'the query reads a system column of shop.orders'),
               ('select o from orders o', 'the query takes whole rows of shop.orders as a value'),
               ('select id, (select max(id) from customers) as m from orders', null),
               ('select id, array(select id from customers) as c from orders', null),
               ('select 1 as one', 'the query reads no table')) v (query, reason);

select is(sources, jsonb_build_array(jsonb_build_object('relation', 'shop.orders'::regclass::oid::bigint, 'columns', '[1, 2, 3]'::jsonb)), 'a view is opened: its table is the source, with the columns that it needs')
  from baton_internal.compile_stream_query('select id from big');
select unalike(qualified, '% orders%', 'names are written with their schema') from baton_internal.compile_stream_query('select id from orders');

-- Aggregates that can be carried on from their old values are, and others are not.
create table shop.lines (id int, price numeric(10,2) not null, paid numeric(10,2), loose numeric not null);
select is(split_part(tree, e'\n', 1), v.label, v.query)
  from (values ('select id, count(*), sum(price) as s from lines group by id', 'aggregate (carried on)'), ('select count(*), sum(price * 2) as s from lines', 'aggregate (carried on)'),
               ('select id, count(*) as n, count(paid) as c, sum(paid) as s from lines group by id', 'aggregate (carried on)'),
               ('select id, count(*) as n, sum(paid) as s from lines group by id', 'aggregate (carried on)'),
               ('select id, sum(price) as s from lines group by id', 'aggregate (carried on)'),
               ('select o.id, count(*) as n, sum(price) as s from orders o left join lines l on l.id = o.id group by o.id', 'aggregate (carried on)'),
               ('select id, min(note) as a, max(id) as b, bool_or(id > 1) as c, bit_and(id) as d, count(*) filter (where id > 2) as e from orders group by id', 'aggregate (carried on)'),
               ('select id, count(paid) as n, sum(paid) as s, avg(paid) as a from lines group by id', 'aggregate (carried on)'),
               ('select id, avg(paid) as a from lines group by id', 'aggregate (of touched keys)'),                                  -- of which sum?
               ('select id, count(*) as n, sum(loose) as s from lines group by id', 'aggregate (of touched keys)'),      -- how many digits?
               ('select id, count(*) as n, sum(price / 3) as s from lines group by id', 'aggregate (of touched keys)'),
               ('select loose, count(*) as n from lines group by loose', 'aggregate (of touched keys)'),                 -- 1.0 or 1.00?
               ('select id, count(*) as n, min(loose) as m from lines group by id', 'aggregate (of touched keys)'),      -- which of both?
               ('select id, count(distinct paid) as n from lines group by id', 'aggregate (of touched keys)')) v (query, label)
 cross join lateral baton_internal.compile_stream_query(v.query);

select throws_ok(format('select * from baton_internal.compile_stream_query(%L)', v.query), v.code, v.message, v.query)
  from (values ('select 1; select 2', '42601', 'a stream table is made of one statement, not of 2'),
               ('delete from orders', '42601', 'a stream table is made of a SELECT'),
               ('with d as (delete from orders returning id) select id from d', '0A000', 'a stream table''s query cannot change data'),
               ('select id from orders for update', '0A000', 'a stream table''s query cannot lock rows'),
               ('select id, id from orders', '42701', 'the query has two columns named "id"'),
               ('select from orders', '42601', 'the query has no columns'),
               ('select nothing from orders', '42703', 'column "nothing" does not exist')) v (query, code, message);
create temporary table mine (id int);
select throws_like($$ select * from baton_internal.compile_stream_query('select id from mine') $$, 'the query reads pg_temp%.mine, a temporary table', 'a temporary table is refused');
\else
select pass('the compiler comes with the extension');
\endif

select * from finish();
rollback;
