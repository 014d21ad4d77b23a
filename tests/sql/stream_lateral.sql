-- LATERAL items, subqueries that look at the row around them, and WITH RECURSIVE follow their tables: after rows came, changed and went, each stream table holds
-- what its query gives, and with the extension none of them had to be computed in full.
select no_plan();
create schema shop;
create table shop.people (id int primary key, boss int, team text, tags text[]);
create table shop.visits (person int, page int, at int);
create table shop.pages (id int primary key, parent int, weight int);
insert into shop.people select n, nullif(n / 3, 0), (array['a', 'b', null])[n % 3 + 1], array[n::text, 'x'] from generate_series(1, 12) n;
insert into shop.visits select n % 13, n % 7, n from generate_series(1, 60) n;
insert into shop.pages select n, nullif(n / 2, 0), n % 3 from generate_series(1, 6) n;

create table shop.queries (number serial, query text);
insert into shop.queries (query) values
    -- one row, the best rows, and none, of each row
    ('select p.id, v.n, v.last from shop.people p, lateral (select count(*) as n, max(v.at) as last from shop.visits v where v.person = p.id) v'),
    ('select p.id, v.page, v.at from shop.people p left join lateral (select v.page, v.at from shop.visits v where v.person = p.id order by v.at desc, v.page limit 2) v on v.at > 20'),
    ('select p.id, v.page, w.weight from shop.people p join lateral (select distinct v.page from shop.visits v where v.person = p.id) v on true
        left join lateral (select g.weight from shop.pages g where g.id = v.page and g.weight < p.id) w on true'),
    ('select p.id, x.what from shop.people p, lateral (select v.at as what from shop.visits v where v.person = p.id union all select g.weight from shop.pages g where g.id = p.id) x'),
    ('select p.id, x.s from shop.people p, lateral (select sum(q.at) as s from (select v.at from shop.visits v where v.person = p.id order by v.at limit 3) q) x'),
    ('select p.team, count(*) as n from shop.people p, lateral (select 1 from shop.visits v where v.page < p.id and v.at > 50) x group by p.team'),
    ('select p.id, x.d, x.y from shop.people p, lateral (select v.at is distinct from v.page as d, extract(year from date ''2026-01-01'' + v.at) as y from shop.visits v where v.person = p.id) x'),
    -- functions and VALUES of columns
    ('select p.id, t.tag, t.place from shop.people p left join unnest(p.tags) with ordinality t (tag, place) on t.tag <> ''x'''),
    ('select p.id, t.a, t.b from shop.people p, rows from (unnest(p.tags), generate_series(1, p.id % 4)) t (a, b)'),
    ('select p.id, x.v from shop.people p, lateral (values (p.id), (p.boss)) x (v) where x.v is not null'),
    ('select p.id, g.n from shop.people p, generate_series(1, (select max(weight) from shop.pages)) g (n) where g.n = p.id'),
    -- values of subqueries
    ('select p.id, array(select v.page from shop.visits v where v.person = p.id order by v.page, v.at) as pages from shop.people p'),
    ('select p.id, (p.id, p.boss) = (select v.person, max(v.page) from shop.visits v where v.person = p.id group by v.person) as same from shop.people p'),
    ('select p.id, (select v.page from shop.visits v where v.person = p.id order by v.at desc, v.page limit 1) as last from shop.people p'),
    ('select p.id, (select max(at) from shop.visits) as latest, (select count(*) from shop.visits v where v.person = p.id) as n from shop.people p'),
    ('select p.id from shop.people p where exists (select from unnest(p.tags) t where t > ''5'')'),
    ('select p.id from shop.people p where exists (select 1 from shop.visits v where v.person = p.id group by v.page having count(*) > 1)'),
    ('select p.id from shop.people p where p.id % 7 in (select v.page from shop.visits v where v.person = p.id order by v.at, v.page limit 2)'),
    ('select p.id from shop.people p where p.id > all (select v.at - 40 from shop.visits v join shop.pages g on g.id = v.page and g.weight = p.id % 3 where v.person = p.id)'),
    ('select distinct p.team, (select count(*) from shop.visits v where v.person = p.boss) as n from shop.people p'),
    ('select p.id, (select max(v.at) from shop.visits v where v.person = p.id) as last from shop.people p order by p.id desc limit 5'),
    -- LIMIT over set operations
    ('with w as (select page from shop.visits where at % 2 = 0) select q.page from (select page from w union all select id from shop.pages order by 1 desc limit 7) q'),
    -- recursion
    ('with recursive below as (select id, 0 as depth from shop.people where boss is null union all select p.id, b.depth + 1 from below b join shop.people p on p.boss = b.id) select id, depth from below'),
    ('with recursive reach (page) as (select page from shop.visits where at > 55 union select g.parent from reach r, shop.pages g where g.id = r.page and g.parent is not null)
      select r.page, count(v.at) as n from reach r left join shop.visits v on v.page = r.page group by r.page'),
    ('select p.id from shop.people p where p.id in (with recursive up (id) as (select boss from shop.people where team = ''b'' union select q.boss from up join shop.people q on q.id = up.id) select id from up)');

\ir fixtures/stream_queries.sql
select is_empty('select shop.refreshed()', 'nothing has happened');
insert into shop.visits values (3, 2, 70), (3, 2, 71), (11, 6, 72), (null, 1, 73);
select is_empty('select shop.refreshed()', 'rows come in a table that is read inside');
update shop.visits set page = page + 1 where at % 9 = 0;
delete from shop.visits where at between 20 and 24;
select is_empty('select shop.refreshed()', 'they change and go');
update shop.people set boss = 2, tags = tags || 'y'::text where id = 9;
delete from shop.people where id in (4, 6);
insert into shop.people values (20, 9, 'b', '{7}'), (21, null, null, null);
select is_empty('select shop.refreshed()', 'so do rows around');
begin;
insert into shop.visits values (20, 5, 80), (9, 5, 81);
update shop.people set id = 22, boss = 20 where id = 21;
update shop.pages set parent = 5, weight = 9 where id = 2;
delete from shop.visits where person = 22 or page = 3;
delete from shop.people where id = 3;
commit;
select is_empty('select shop.refreshed()', 'both at once');
truncate shop.visits;
select is_empty('select shop.refreshed()', 'a table is emptied');
insert into shop.visits select n % 25, n % 6, n from generate_series(1, 40) n;
update shop.people set boss = 9 where id = 1;
select is_empty('select shop.refreshed()', 'and filled, and a chain is tied elsewhere');

-- A row and a partner that were never there together do not raise what the query does not.
create table shop.names (id int, name text);
insert into shop.names values (1, 'one');
select baton.create_stream_table('named', 'select p.id, (select n.name from shop.names n where n.id = p.id) as name from shop.people p', null);
delete from shop.people where id = 1;
insert into shop.names values (1, 'uno');
select lives_ok('select baton.refresh_stream_table(''named'')', 'two names for a person who has gone');
select results_eq('select missing + surplus from baton.verify_stream_table(''named'')', 'select 0::bigint', 'and no row is wrong');

select * from finish();
