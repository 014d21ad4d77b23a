-- Subqueries in arguments, FILTER and ORDER BY of aggregates, in HAVING and in window functions: a group is one row.
select no_plan();
create table customers (id int primary key, region text, rating numeric);
create table orders (id int primary key, customer int, amount int);
create table settings (n int);
insert into customers values (1, 'north', 1.0), (2, 'north', 1.00), (3, 'east', 2), (4, 'east', 2.0);
insert into orders values (1, 1, 10), (2, 1, 20), (3, 2, 5);
insert into settings values (1);
create table cases (name text, query text);
insert into cases values
    ('argument', 'select region, sum((select count(*) from orders o where o.customer = c.id)) as orders from customers c group by region'),
    ('argument_counted', 'select region, count(*) as n, sum((select count(*) from orders o where o.customer = c.id)) as orders, count((select count(*) from orders o where o.customer = c.id)) as m from customers c group by region'),
    ('no_group', 'select sum((select count(*) from orders o where o.customer = c.id)) as orders from customers c'),
    ('filter', 'select region, count(*) filter (where exists (select from orders o where o.customer = c.id)) as buyers from customers c group by region'),
    ('having_aggregate', 'select region from customers c group by region having sum((select count(*) from orders o where o.customer = c.id)) > 1'),
    ('having_beside', 'select region, count(*) as n from customers c group by region having count(*) > (select min(n) from settings)'),
    ('order_within', 'select region, array_agg(id order by (select count(*) from orders o where o.customer = c.id), id) as ids from customers c group by region'),
    ('any_within', 'select region, bool_or(id in (select customer from orders)) as some from customers c group by region'),
    ('beside', 'select region, (select count(*) from orders o where o.amount > length(c.region)) as n, count(*) as m from customers c group by region'),
    ('both', 'select region, (select max(n) from settings) as n, sum((select count(*) from orders o where o.customer = c.id)) as orders from customers c group by region'),
    ('equal_keys', 'select (select count(*) from orders o where o.customer::text = left(c.rating::text, 1)) as m, count(*) as n from customers c group by rating'),
    ('sets', 'select region, sum((select count(*) from orders o where o.customer = c.id)) as orders from customers c group by rollup (region)'),
    ('window_argument', 'select id, sum((select count(*) from orders o where o.customer = c.id)) over (partition by region order by id) as orders from customers c'),
    ('window_order', 'select id, rank() over (order by (select count(*) from orders o where o.customer = c.id)) as place from customers c'),
    ('window_of_groups', 'select region, sum(sum((select count(*) from orders o where o.customer = c.id))) over () as orders from customers c group by region'),
    ('window_frame', 'select id, sum(id) over (order by id rows between (select min(n) from settings) preceding and current row) as s from customers'),
    ('limit_by', 'select id from customers order by id limit (select min(n) from settings)'),
    ('below', 'select max(orders) as most from (select region, sum((select count(*) from orders o where o.customer = c.id)) as orders from customers c group by region) s');
select baton.create_stream_table('st_' || name, query, null) from cases;
create function look(moment text) returns setof text language plpgsql as $$
declare
    c record;
begin
    for c in select * from cases loop
        perform baton.refresh_stream_table('st_' || c.name);
        return next set_eq(format('select * from st_%s', c.name), c.query, c.name || ', ' || moment);
        return next is((select v.missing + v.surplus from baton.verify_stream_table('st_' || c.name) v)::int, 0, c.name || ' is verified, ' || moment);
    end loop;
end $$;
insert into orders values (4, 3, 7), (5, 3, 8), (6, 4, 1);
select look('after orders');
update settings set n = 2;
select look('after settings');
delete from orders where customer = 1;
insert into customers values (5, 'west', 3), (6, 'west', 3.0);
select look('after customers');
update customers set region = 'east' where id in (1, 5);
update orders set customer = 5 where id = 3;
select look('after moves');
select (select form from baton.installation) = 'extension' as has_module \gset
\if :has_module
select is(effective_mode, 'DIFFERENTIAL', name || ' is followed by changes') from cases join baton.stream_tables s on s.relation = to_regclass('st_' || name) where name in ('argument', 'no_group', 'filter', 'having_aggregate', 'any_within', 'sets');
select is(effective_mode, 'FULL', 'a subquery over keys that are equal and look different is computed in full') from baton.stream_tables where relation = 'st_equal_keys'::regclass;
\endif
select * from finish();
