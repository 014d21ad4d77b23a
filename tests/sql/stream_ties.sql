-- What chooses among rows within a query is followed by changes only where its order tells the rows apart: otherwise the sums over it would be none that the query gives.
select no_plan();
select (select form from baton.installation) = 'extension' as has_module \gset
create table prices (id int primary key, shop int not null, price int not null, weight numeric, exact numeric(10, 2), name text, share float8);
insert into prices select n, n % 5, n % 3, (n % 4)::numeric, n % 4, 'n' || n % 6, n / 7.0 from generate_series(1, 40) n;
create table open_cases (name text, query text);
insert into open_cases values
    ('distinct_on', 'select sum(x.price) as total from (select distinct on (shop) shop, price from prices order by shop) x'),
    ('distinct_on_by', 'select sum(x.id) as total from (select distinct on (shop) shop, id from prices order by shop, price) x'),
    ('limit_none', 'select sum(x.price) as total from (select price from prices limit 7) x'),
    ('limit_by', 'select sum(x.id) as total from (select id from prices order by price limit 7) x'),
    ('limit_all_but', 'select count(*) as n, min(x.id) as least from (select id, price from prices order by price offset 3) x'),
    ('ties_after', 'select sum(x.id) as total from (select id, price from prices order by price offset 3 fetch first 4 rows with ties) x'),
    ('array', 'select x.prices[1] as first, count(*) as n from (select shop, array_agg(price) as prices from prices group by shop) x group by 1'),
    ('string', 'select x.names, count(*) as n from (select shop, string_agg(name, '','' order by price) as names from prices group by shop) x group by 1'),
    ('number', 'select x.id, x.shop from (select id, shop, row_number() over (partition by shop order by price) as place from prices) x where x.place <= 2'),
    ('frame', 'select sum(x.s) as total from (select id, price, sum(id) over (partition by shop order by price rows 1 preceding) as s from prices) x where x.s > 9'),
    ('value_below', 'select s.shop, (select p.id from prices p where p.shop = s.shop order by p.price limit 1) as id from (select distinct shop from prices) s'),
    ('lateral_below', 'select s.shop, x.id from (select distinct shop from prices) s, lateral (select p.id from prices p where p.shop = s.shop order by p.price limit 2) x'),
    ('one_side', '(select price from prices order by shop limit 4) union all select 1'),
    ('key_hidden', 'select distinct on (shop) price from prices order by shop'),
    ('looks', 'select x.weight::text as look, count(*) as n from (select weight from prices group by weight) x group by 1'),
    ('looks_distinct', 'select x.weight::text as look, count(*) as n from (select distinct weight, shop from prices) x group by 1'),
    ('looks_union', 'select x.weight::text as look, count(*) as n from (select weight from prices union select weight + 1 from prices) x group by 1'),
    ('looks_least', 'select x.least::text as look, count(*) as n from (select shop, min(weight::float8) as least from prices group by shop) x group by 1'),
    ('looks_of_numeric', 'select x.least::text as look, count(*) as n from (select shop, min(weight) as least from prices group by shop) x group by 1'),
    ('looks_of_window', 'select x.most::text as look, count(*) as n from (select shop, max(weight) over (partition by shop) as most from prices) x group by 1'),
    ('looks_of_either', 'select x.most::text as look, count(*) as n from (select shop, max(case when price = 1 then exact else exact * 1.0 end) as most from prices group by shop) x group by 1'),
    ('floats', 'select x.total, count(*) as n from (select shop, sum(share) as total from prices group by shop) x group by 1');
create table closed_cases (name text, query text);
insert into closed_cases values
    ('c_key', 'select sum(x.price) as total from (select distinct on (shop) shop, price from prices order by shop, id) x'),
    ('c_same', 'select sum(x.price) as total from (select distinct on (shop) shop, price from prices order by shop, price desc) x'),
    ('c_made', 'select sum(x.price) as total from (select price * 2 + 1 as price from prices order by price limit 7) x'),
    ('c_limit', 'select x.name, count(*) as n from (select name, weight from prices order by price, id limit 7) x group by 1'),
    ('c_all', 'select sum(x.price) as total from (select price from prices limit all) x'),
    ('c_ties', 'select sum(x.id) as total from (select id, price from prices order by price fetch first 4 rows with ties) x'),
    ('c_groups', 'select sum(x.n) as total from (select shop, count(*) as n from prices group by shop order by shop limit 2) x'),
    ('c_array', 'select x.prices[1] as first, count(*) as n from (select shop, array_agg(price order by price desc) as prices from prices group by shop) x group by 1'),
    ('c_string', 'select x.names, count(*) as n from (select shop, string_agg(name, '','' order by id) as names from prices group by shop) x group by 1'),
    ('c_number', 'select x.id, x.shop, x.weight from (select id, shop, weight, row_number() over (partition by shop order by price, id) as place from prices) x where x.place <= 2'),
    ('c_rank', 'select x.id, x.shop from (select id, shop, rank() over (partition by shop order by price) as place from prices) x where x.place <= 2'),
    ('c_frame', 'select sum(x.s) as total from (select id, sum(price) over (partition by shop order by price) as s from prices) x where x.s > 2'),
    ('c_exact', 'select x.exact::text as look, count(*) as n from (select exact, min(exact) from prices group by exact) x group by 1'),
    ('c_scale', 'select x.most::text as look, count(*) as n from (select shop, max(exact * (1 - exact) + 0.5) as most from prices group by shop) x group by 1'),
    ('c_scale_of_sum', 'with sums as (select shop, price, sum(exact * 2) as total from prices group by shop, price) select s.shop, s.total::text as total from sums s where s.total = (select max(total) from sums)'),
    ('c_scale_below', 'select x.most::text as look, count(*) as n from (select shop, max(total) as most from (select shop, price, sum(coalesce(exact, 0.00)) as total from prices group by shop, price) y group by shop) x group by 1'),
    ('c_scale_of_cast', 'select x.least::text as look, count(*) as n from (select shop, min(weight::numeric(10, 1)) as least from prices group by shop) x group by 1'),
    ('c_looks', 'select count(*) as n from (select weight::text as look, count(*) as n from prices group by weight::text) x'),
    ('c_unseen', 'select sum(x.n) as total from (select count(*) as n from prices group by weight) x'),
    ('c_decided', 'select x.weight, count(*) as n from (select id, weight, count(*) as n from prices group by id) x group by x.weight'),
    ('c_root', 'select distinct on (shop) shop, price, id from prices order by shop, price'),
    ('c_root_limit', 'select id from prices order by price limit 5'),
    ('c_value', 'select s.shop, (select p.id from prices p where p.shop = s.shop order by p.price, p.id limit 1) as id from (select distinct shop from prices) s');
select lives_ok(format('select baton.create_stream_table(%L, %L, null)', name, query), name) from (select * from open_cases union all select * from closed_cases) c;

-- Change rows so that the server finds those that tie in another order, again and again.
create function changed() returns setof text language plpgsql as $$
declare
    c record;
    done record;
begin
    for n in 1 .. 3 loop
        update prices set name = name || n where id % 2 = n % 2;
        delete from prices where id % 7 = n;
        insert into prices select i, i % 5, i % 3, (i % 4)::numeric(8, 1), i % 4, 'm' || i % 6, i / 9.0 from generate_series(100 * n, 100 * n + 9) i;
        for c in select o.name, o.query from open_cases o union all select o.name, o.query from closed_cases o where o.name !~ 'root' loop
            done := baton.refresh_stream_table(c.name);
            return next is(done.mode, (select s.effective_mode from baton.stream_tables s where s.relation = to_regclass(c.name)), c.name || ' needed no repair, ' || n);
            return next is((select v.missing + v.surplus from baton.verify_stream_table(c.name) v)::int, 0, c.name || ' is what its query gives, ' || n);
        end loop;
    end loop;
end $$;
select changed();
\if :has_module
select is(s.effective_mode, 'FULL', c.name || ' is computed in full') from open_cases c left join baton.stream_tables s on s.relation = to_regclass(c.name);
select ok(s.reason ~ 'tell apart|leaves open|look different', c.name || ' says why: ' || coalesce(s.reason, 'nothing')) from open_cases c left join baton.stream_tables s on s.relation = to_regclass(c.name);
select is(s.effective_mode || coalesce(': ' || s.reason, ''), 'DIFFERENTIAL', c.name || ' is followed by changes') from closed_cases c left join baton.stream_tables s on s.relation = to_regclass(c.name);

-- A key that goes takes along what it determined.
alter table prices drop constraint prices_pkey cascade;
insert into prices values (1, 0, 2, 1.00, 1, 'twin', 1);
select is((select r.mode from baton.refresh_stream_table('c_key') r), 'FULL', 'without its key the table leaves open which row is taken');
select matches((select effective_mode || ': ' || reason from baton.stream_tables where relation = 'c_key'::regclass), '^FULL: DISTINCT ON within the query', 'and the stream table says so');

-- A column that each of many views mentions twice is not followed as often as two to the number of views.
create table tower_0 (g int, a numeric(10, 2));
insert into tower_0 values (1, 1);
do $$
begin
    for n in 1 .. 30 loop
        execute format('create view tower_%s as select g, sum(a) + sum(a) as a from tower_%s group by g', n, n - 1);
    end loop;
end
$$;
select lives_ok($$ select baton.create_stream_table('tower', 'select g, max(a) as a from tower_30 group by g', null) $$, 'a tower of views is looked through');
select results_eq('select a from tower', 'select 2 ^ 30::numeric + 0.00', 'and counted right');
\endif
select * from finish();
