-- A stream table is the result of its query: made, refreshed, changed and dropped; nobody else writes to it.
select no_plan();
select form = 'extension' as as_owner from baton.installation \gset
create table customers (id int primary key, region text);
create table orders (id int primary key, customer int, amount numeric(10,2), note varchar(20));
insert into customers values (1, 'north'), (2, 'south'), (3, 'south');
insert into orders values (1, 1, 10.50, 'a'), (2, 2, 5, 'b'), (3, 3, 7, null), (4, 1, 1, 'a');

-- made
select is(baton.create_stream_table('totals', 'select c.region, sum(o.amount) as total, count(*) as orders from orders o join customers c on c.id = o.customer group by c.region;')::text,
          'totals', 'a stream table is made');
select results_eq('select * from totals order by region', $$ values ('north', 11.50, 2::bigint), ('south', 12.00, 2) $$, 'and holds what its query gives');
select is((select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum) from pg_attribute a where a.attrelid = 'totals'::regclass and a.attnum > 0),
          'region text, total numeric, orders bigint', 'with the query''s columns and types, and no others');
select is((select relowner::regrole::text from pg_class where oid = 'totals'::regclass), quote_ident(current_user), 'it belongs to whoever made it');
select results_eq($$ select state, refresh_mode, schedule, last_inserted, last_deleted, refreshes, outbox from baton.stream_table_status('totals') $$,
                  $$ values ('active', 'AUTO', '1s', 2::bigint, 0::bigint, 1::bigint, null::text) $$, 'its state says so');
select is((select count(*)::int from baton.stream_table_status()), 1, 'all are told without a name');
select is((select array_agg(source || '(' || array_to_string(columns, ',') || ')' order by source) from baton.stream_table_dependencies('totals')),
          '{"public.customers(id,region)","public.orders(customer,amount)"}', 'it knows what the query reads');
select ok((select bool_or(e ~ 'sum\(') from baton.explain_stream_table('totals') e), 'and explains itself');

-- refreshed
update orders set amount = 20 where id = 2;
insert into orders values (5, 1, 0.5, 'c');
select results_eq($$ select mode in ('FULL', 'DIFFERENTIAL'), inserted, deleted, milliseconds > 0 from baton.refresh_stream_table('totals') $$, $$ values (true, 2::bigint, 2::bigint, true) $$,
                  'a refresh says what it did');
select results_eq('select * from totals order by region', $$ values ('north', 12.00, 3::bigint), ('south', 27.00, 2) $$, 'the table is up to date');
select results_eq($$ select inserted, deleted from baton.refresh_stream_table('totals') $$, $$ values (0::bigint, 0::bigint) $$, 'then there is nothing to do');
select is((select count(*)::int from baton.stream_table_history('totals')), 2, 'refreshes that changed something are kept');
select results_eq($$ select inserted, deleted, error from baton.stream_table_history('totals', 1) $$, $$ values (2::bigint, 2::bigint, null::text) $$, 'the newest first');
begin;
delete from orders where id = 5;
select is((select inserted + deleted from baton.refresh_stream_table('totals')), 2::bigint, 'a transaction''s own changes count');
rollback;
select results_eq($$ select missing, surplus from baton.verify_stream_table('totals') $$, $$ values (0::bigint, 0::bigint) $$, 'a rollback undoes both');
delete from orders where id = 5;
select results_eq($$ select missing, surplus from baton.verify_stream_table('totals') $$, $$ values (1::bigint, 1::bigint) $$, 'verification counts what differs');
select is((select inserted from baton.refresh_stream_table('totals')), 1::bigint, 'the next refresh mends it');

-- not initialized
select baton.create_stream_table('later', 'select id from orders', null, 'FULL', initialize => false);
select is((select count(*)::int from later), 0, 'without initialize it is empty');
select is((select state from baton.stream_table_status('later')), 'new', 'and says so');
select is((select inserted from baton.refresh_stream_table('later')), 4::bigint, 'until its first refresh');
select is((select state from baton.stream_table_status('later')), 'manual', 'without a schedule it is refreshed by hand');

-- written by hand: by nobody
select throws_ok($$ insert into totals values ('east', 1, 1) $$, '55000', null, 'an insert is refused');
select throws_ok($$ update totals set total = 0 $$, '55000', null, 'an update');
select throws_ok($$ delete from totals where false $$, '55000', null, 'a delete, whatever it would delete');
select throws_ok($$ truncate totals $$, '55000', null, 'a truncate');
select throws_ok($$ copy totals from program 'true' $$, null, null, 'a copy');
begin;
select set_config('baton.mock_now', '', false);
insert into orders values (6, 1, 1, null);
select baton.refresh_stream_table('totals');
select throws_ok($$ delete from totals $$, '55000', null, 'also in the transaction of a refresh');
rollback;
select is((select count(*)::int from pg_trigger t where t.tgrelid = 'totals'::regclass and t.tgname = 'baton_stream' and t.tgenabled = 'A'), 1, 'a replica does not get past the guard');

-- users' own additions
create unique index on totals (region);
update orders set amount = amount + 1;
select is((select inserted + deleted from baton.refresh_stream_table('totals')), 4::bigint, 'a unique index does not mind that rows are replaced');
create view on_top as select * from totals;
select throws_ok($$ select baton.drop_stream_table('totals') $$, '2BP01', null, 'a view on it keeps it from being dropped');
drop view on_top;

-- changed
select lives_ok($$ select baton.alter_stream_table('totals', schedule => '5 minutes', paused => true) $$, 'schedule and pause are changed');
select results_eq($$ select state, schedule from baton.stream_table_status('totals') $$, $$ values ('paused', '5 minutes') $$, 'as the state says');
select lives_ok($$ select baton.alter_stream_table('totals', paused => false, reset => '{schedule}') $$, 'the schedule is taken away');
select results_eq($$ select state, schedule, next_due from baton.stream_table_status('totals') $$, $$ values ('manual', null::text, null::timestamptz) $$, 'then it is refreshed by hand');
select lives_ok($$ select baton.alter_stream_table('totals', schedule => '0 3 * * *') $$, 'a cron expression is a schedule');
select ok((select next_due > now() and extract(minute from next_due) = 0 from baton.stream_table_status('totals')), 'and says when it is due');
select lives_ok($$ select baton.alter_stream_table('totals', query => 'select region, sum(amount) as total, count(*) as orders from orders o join customers c on c.id = o.customer where amount > 5 group by 1') $$,
                'the query is changed');
select results_eq('select * from totals order by region', $$ values ('north', 11.50, 1::bigint), ('south', 29.00, 2) $$, 'the table follows at once');
select is((select indisunique from pg_index where indrelid = 'totals'::regclass and not (indexprs is not null)), true, 'indexes stay while the columns do');
select lives_ok($$ select baton.alter_stream_table('totals', query => 'select region, count(*)::int as n, ''x''::varchar(3) collate "C" as "A b" from customers group by region') $$, 'to other columns, too');
select results_eq('select region, n, "A b" collate "default" from totals order by region', $$ values ('north', 1, 'x'::varchar(3)), ('south', 2, 'x') $$, 'in the new query''s order');
select is((select format_type(a.atttypid, a.atttypmod) || ' ' || a.attcollation::regcollation::text from pg_attribute a where a.attrelid = 'totals'::regclass and a.attname = 'A b'),
          'character varying(3) "C"', 'of its types and collations');
select throws_ok($$ select baton.alter_stream_table('totals', reset => '{query}') $$, '22023', null, 'only the schedule can be reset');
select throws_ok($$ select baton.alter_stream_table('orders', paused => true) $$, '42704', null, 'a table that is none is refused');
select throws_ok($$ select baton.alter_stream_table('nothing', paused => true) $$, '42P01', null, 'and one that is not there');

-- names with everything in them
create schema "My Schema";
create table "My Schema"."Source ""x"" $$" ("a b" int, "select" text);
insert into "My Schema"."Source ""x"" $$" values (1, 'one');
select lives_ok($t$ select baton.create_stream_table('"My Schema"."Result ''y'' $1 %s"', 'select "a b" as "c %I d", "select" from "My Schema"."Source ""x"" $$"') $t$, 'any name will do');
select results_eq($$ select "c %I d", "select" from "My Schema"."Result 'y' $1 %s" $$, $$ values (1, 'one') $$, 'for tables and columns');
set search_path = "My Schema", public;
select lives_ok($t$ select baton.create_stream_table('found', 'select "a b" as n from "Source ""x"" $$"') $t$, 'names are found by the search path');
reset search_path;
insert into "My Schema"."Source ""x"" $$" values (2, 'two');
select is((select inserted from baton.refresh_stream_table('"My Schema".found')), 1::bigint, 'and mean the same from then on');
select lives_ok($$ select baton.create_stream_table(repeat('n', 63), 'select 1 as one') $$, 'a name may have 63 bytes');
select is((select count(*)::int from pg_class c where c.relname ~ '^baton_query'), 0, 'nothing is left behind where it was made');

-- dropped
select is(baton.drop_stream_table('totals'), true, 'a stream table is dropped');
select is(to_regclass('totals'), null, 'with its table');
select is((select count(*)::int from pg_class c where c.relnamespace = 'baton_internal'::regnamespace and c.relname like 'stream\_%totals%'), 0, 'and its query');
select is(baton.drop_stream_table('totals', if_exists => true), false, 'again only if it exists');
select throws_ok($$ select baton.drop_stream_table('totals') $$, '42P01', null, 'else there is an error');
select throws_ok($$ select baton.drop_stream_table('orders', true) $$, '42704', null, 'nothing else is dropped');
drop table later;
select is((select count(*)::int from baton.stream_table_status() where stream_table = 'later'), 0, 'one that was dropped by hand is not told of');
select baton_internal.maintain_streams();
select is((select count(*)::int from baton.stream_tables s where not exists (select from pg_class c where c.oid = s.relation)), 0, 'and forgotten');
select * from finish();
