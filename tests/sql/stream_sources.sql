-- What a stream table reads: other stream tables, views, partitions; and what happens when somebody alters or drops it.
select no_plan();
create table orders (id int primary key, customer text, amount int, note text);
insert into orders values (1, 'ann', 10, 'x'), (2, 'bob', 20, 'y'), (3, 'ann', 5, 'z');
create view big as select id, customer, amount from orders where amount >= 10;

-- chains
select baton.create_stream_table('per_customer', 'select customer, sum(amount) as total from big group by customer');
select baton.create_stream_table('top', 'select max(total) as best from per_customer');
select baton.create_stream_table('beside', 'select p.customer, t.best from per_customer p cross join top t');
select results_eq('select stream_table, source, source_kind, level from baton.stream_table_dependencies() order by 4, 1, 2',
                  $$ values ('public.per_customer', 'public.orders', 'table', 1), ('public.top', 'public.per_customer', 'stream table', 2),
                            ('public.beside', 'public.per_customer', 'stream table', 3), ('public.beside', 'public.top', 'stream table', 3) $$, 'chains are known, through views as well');
insert into orders values (4, 'bob', 100, null);
select baton.refresh_stream_table('per_customer'), baton.refresh_stream_table('top');
select is((select best::int from top), 120, 'a stream table reads another');
select throws_ok($$ select baton.alter_stream_table('per_customer', query => 'select customer, total from per_customer') $$, '42P17', null, 'one cannot read itself');
select throws_ok($$ select baton.alter_stream_table('per_customer', query => 'select customer, best as total from beside') $$, '42P17', null, 'nor by way of another');
create view through as select customer, best from beside;
select throws_ok($$ select baton.alter_stream_table('per_customer', query => 'select customer, best as total from through') $$, '42P17', null, 'nor of a view');
drop view through;
select throws_ok($$ select baton.drop_stream_table('per_customer') $$, '2BP01', null, 'one that others read is not dropped');
select throws_like($$ select baton.drop_stream_table('per_customer') $$, '%other stream tables read it', 'and says why');
select throws_ok($$ drop table per_customer $$, '2BP01', null, 'nor by hand');
select is(baton.drop_stream_table('per_customer', cascade => true), true, 'unless asked to');
select is((select count(*)::int from baton.stream_tables), 0, 'then all go');
select is((select count(*)::int from pg_class where relname in ('top', 'beside', 'per_customer')), 0, 'with their tables');

-- the columns of a source
select baton.create_stream_table('sums', 'select customer, sum(amount) as total from orders group by customer', null);
alter table orders add column extra int default 7;
insert into orders values (5, 'cid', 1, null, 8);
select is((select inserted from baton.refresh_stream_table('sums')), 1::bigint, 'an added column changes nothing');
alter table orders rename column amount to cents;
alter table orders rename to purchases;
create schema moved;
alter table purchases set schema moved;
insert into moved.purchases values (6, 'cid', 2, null, 8);
select is((select inserted from baton.refresh_stream_table('sums')), 1::bigint, 'a renamed column, table or schema is followed');
select ok((select bool_or(e ~ 'moved\.purchases') from baton.explain_stream_table('sums') e), 'as the explanation shows');
select lives_ok($$ alter table moved.purchases drop column note $$, 'a column that is not read can go');
select throws_ok($$ alter table moved.purchases drop column cents $$, '2BP01', null, 'one that is read cannot');
select throws_ok($$ alter table moved.purchases alter column cents type bigint $$, '0A000', null, 'nor become of another type');
select throws_ok($$ drop table moved.purchases $$, '2BP01', null, 'a source is not dropped');
select is((select state from baton.stream_table_status('sums')), 'manual', 'nothing happened');

-- a source that goes all the same
drop table moved.purchases cascade;
select is((select state from baton.stream_table_status('sums')), 'broken', 'a source dropped with CASCADE breaks the stream table');
select ok((select count(*) > 0 from sums), 'which keeps what it had');
select throws_ok($$ select * from baton.refresh_stream_table('sums') $$, '55000', null, 'a refresh says so');
select throws_ok($$ select * from baton.repair_stream_table('sums') $$, '42P01', null, 'it cannot be repaired without its source');
create table moved.purchases (customer text, cents int);
insert into moved.purchases values ('dan', 1);
select results_eq($$ select inserted, deleted from baton.repair_stream_table('sums') $$, $$ values (1::bigint, 3::bigint) $$, 'with a new one it is');
select results_eq('select customer, total from sums', $$ values ('dan', 1::bigint) $$, 'and goes on');
drop table moved.purchases cascade;
create table elsewhere (who text, n int);
select lives_ok($$ select baton.alter_stream_table('sums', query => 'select who as customer, sum(n) as total from elsewhere group by who') $$, 'or it gets another query');
select is((select count(*)::int from sums), 0, 'which counts at once');
drop table elsewhere cascade;
select is(baton.drop_stream_table('sums'), true, 'a broken one can be dropped');

-- a guard that somebody took away
create table plain (n int);
insert into plain values (1), (2);
select baton.create_stream_table('guarded', 'select n from plain', null);
drop trigger baton_stream on guarded;
insert into guarded values (3);
delete from guarded where n = 1;
select results_eq($$ select missing, surplus from baton.verify_stream_table('guarded') $$, $$ values (1::bigint, 1::bigint) $$, 'damage by hand is found');
select results_eq($$ select inserted, deleted from baton.repair_stream_table('guarded') $$, $$ values (1::bigint, 1::bigint) $$, 'and repaired');
select throws_ok($$ insert into guarded values (3) $$, '55000', null, 'with the guard');

-- other kinds of sources
create table parts (id int, v int) partition by range (id);
create table parts_1 partition of parts for values from (0) to (10);
insert into parts values (1, 1);
create materialized view frozen as select count(*) as n from parts;
select baton.create_stream_table('of_parts', 'select sum(v) as v from parts', null);
select baton.create_stream_table('of_frozen', 'select n from frozen', null);
create table parts_2 (id int, v int);
insert into parts_2 values (11, 5);
alter table parts attach partition parts_2 for values from (10) to (20);
select is((select inserted from baton.refresh_stream_table('of_parts')), 1::bigint, 'a partition that is attached is seen');
alter table parts detach partition parts_1;
select baton.refresh_stream_table('of_parts');
select is((select v::int from of_parts), 5, 'and one that is detached');
refresh materialized view frozen;
select is((select inserted from baton.refresh_stream_table('of_frozen')), 0::bigint, 'a materialized view is read as it is');
select results_eq($$ select source_kind from baton.stream_table_dependencies() where stream_table in ('public.of_parts', 'public.of_frozen') order by 1 $$,
                  $$ values ('materialized view'), ('partitioned table') $$, 'and each is told by its kind');

-- A stream table that DROP TABLE took leaves its sources free.
create schema brief;
create table brief.source (n int);
create table brief.kept (n int);
select baton.create_stream_table('brief.first', 'select n from brief.source', null), baton.create_stream_table('brief.second', 'select s.n from brief.source s join brief.first f on f.n = s.n', null);
select baton.enable_outbox('brief.first');
select throws_ok('drop table brief.first', '2BP01', null, 'one that another one reads is not dropped');
drop table brief.second;
create function tidied() returns text language plpgsql as $$ begin if (select form <> 'extension' from baton.installation) then perform baton_internal.maintain_streams(); end if; return ''; end $$;
select tidied();
select is((select count(*)::int from baton.stream_tables s where s.query ~ 'brief'), 1, 'it is forgotten');
select lives_ok('drop table brief.first', 'then this one');
select tidied();
select is((select count(*)::int from baton.audit_trail where action = 'forget_stream_table'), 2, 'that stands in the audit trail');
select lives_ok('drop table brief.source', 'and the source');
select isnt(to_regclass('brief.outbox_first'), null, 'the outbox stays');
select baton.create_stream_table('brief.third', 'select n from brief.kept', null);
select lives_ok('drop schema brief cascade', 'all of a schema goes');
select tidied();
select is_empty($$ select from baton.stream_tables s where s.query ~ 'brief' $$, 'with its stream tables');
select is_empty($$ select from pg_views v where v.schemaname = 'baton_internal' and v.definition ~ 'brief' $$, 'and their views');

-- A column of a source is retyped while the stream table reads a copy of itself.
create table parcels (id int primary key, weight int);
insert into parcels values (1, 3), (2, 3), (3, 8);
select baton.create_stream_table('weights', 'select weight, count(*) as parcels from parcels group by weight', null);
select baton.enable_outbox('weights');
select throws_ok('alter table parcels alter column weight type bigint', '0A000', null, 'a column that a stream table reads is not retyped');
begin;
create table weights_kept as table weights;
select baton.alter_stream_table('weights', query => 'select * from weights_kept');
alter table parcels alter column weight type bigint;
select baton.alter_stream_table('weights', query => 'select weight::int as weight, count(*) as parcels from parcels group by weight');
drop table weights_kept;
commit;
select is_empty('select from outbox_weights', 'the outbox got nothing of that');
update parcels set weight = 3 where id = 3;
select baton.refresh_stream_table('weights');
select results_eq('select weight, parcels from weights', 'values (3, 3::bigint)', 'and the stream table goes on');

select * from finish();
