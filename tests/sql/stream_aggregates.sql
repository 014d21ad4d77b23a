-- Aggregates that are carried on from their old values are what the query gives, after rows came, changed and went: the least and the greatest ones among them, the
-- last value and the last row of a group, NaN, nulls, and what a filter leaves out.
select no_plan();
create schema shop;
create table shop.sales (id serial primary key, shop int, units int, price numeric(8,2), kind text, paid boolean);
create table shop.towns (shop int, town text);
insert into shop.sales (shop, units, price, kind, paid)
select n % 4, nullif(n % 7, 3), nullif(n % 9, 4) * 1.25, chr(97 + n % 5), n % 3 <> 0 from generate_series(1, 40) n;
insert into shop.towns values (0, 'here'), (1, 'here'), (2, 'there');

create table shop.queries (number serial, query text);
insert into shop.queries (query) values
    ('select shop, sum(units) as s from shop.sales group by shop'),
    ('select shop, min(units) as least, max(units) as most, min(kind) as first, max(kind) as last from shop.sales group by shop'),
    ('select sum(price) as s, min(units) as least, max(kind) as last, bool_and(paid) as paid from shop.sales'),
    ('select shop, bool_and(paid) as a, bool_or(paid) as o, every(units > 0) as e, bit_or(units) as bits, bit_and(units) as common from shop.sales group by shop'),
    ('select shop, count(price) as n, sum(price) as s, avg(price) as a from shop.sales group by shop'),
    ('select shop, count(*) filter (where paid) as n, sum(units) filter (where kind < ''c'') as s, max(price) filter (where not paid) as m from shop.sales group by shop'),
    ('select shop, count(units) filter (where paid) as n, sum(units) filter (where paid) as s, avg(units) filter (where paid) as a from shop.sales group by shop'),
    ('select t.town, max(s.units) as most, min(s.id) as first, sum(s.price) as s from shop.towns t left join shop.sales s on s.shop = t.shop group by t.town');
\ir fixtures/stream_queries.sql
insert into shop.sales (shop, units, price, kind, paid) values (1, 99, 0.01, 'A', false), (7, null, null, null, null), (null, 1, 1, 'x', true);
select is_empty('select shop.refreshed()', 'new extremes and new groups');
delete from shop.sales where units = 99 or kind = 'x';
select is_empty('select shop.refreshed()', 'the extremes go');
update shop.sales set units = units + 1, price = price + 1 where id % 3 = 0;
select is_empty('select shop.refreshed()', 'values change');
update shop.sales set shop = shop + 1 where id % 5 = 0;
select is_empty('select shop.refreshed()', 'rows move to another group');
update shop.sales set units = null, price = null, paid = null where shop = 2;
select is_empty('select shop.refreshed()', 'no value is left');
delete from shop.sales where shop = 3;
select is_empty('select shop.refreshed()', 'no row is left');
insert into shop.sales (shop, units, price, kind, paid) values (3, 1, 'NaN', 'a', true), (2, 4, 2, 'b', false);
select is_empty('select shop.refreshed()', 'NaN comes');
delete from shop.sales where price = 'NaN';
select is_empty('select shop.refreshed()', 'and goes');
begin;
insert into shop.sales (shop, units, kind) values (0, 1000, 'Z');
update shop.towns set town = 'there' where shop = 0;
delete from shop.sales where units = 1000;
insert into shop.sales (shop, units, kind) select 0, max(units), 'a' from shop.sales;
delete from shop.sales where units = (select max(units) from shop.sales) and kind <> 'a';
commit;
select is_empty('select shop.refreshed()', 'what came and went says nothing, and one of two alike stays');
truncate shop.sales;
select is_empty('select shop.refreshed()', 'all go');
select * from finish();
