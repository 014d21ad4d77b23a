-- Differential refreshes follow the changes of the sources; whenever something is in doubt a refresh is full. The plain install has none.
select no_plan();
select form = 'extension' as is_extension from baton.installation \gset
\if :is_extension
create table customers (id int primary key, region text);
create table orders (id int primary key, customer int, amount numeric, note text);
insert into customers select n, case n % 3 when 0 then 'north' when 1 then 'south' end from generate_series(1, 30) n;
insert into orders select n, n % 30 + 1, n, 'x' from generate_series(1, 300) n;
create function refreshed(name text) returns text language plpgsql as $$
declare
    done record := baton.refresh_stream_table(name);
    compared record := baton.verify_stream_table(name);
begin
    return format('%s %s-%s%s', done.mode, done.inserted, done.deleted, case when compared.missing + compared.surplus > 0 then format(' but %s missing, %s surplus', compared.missing, compared.surplus) end);
end $$;
select baton.create_stream_table('lines', 'select o.id, c.region, o.amount from orders o join customers c on c.id = o.customer', null, 'DIFFERENTIAL');
select baton.create_stream_table('regions', 'select c.region, sum(o.amount) as total, count(*) as n from orders o join customers c on c.id = o.customer group by c.region', null);
select results_eq($$ select effective_mode, reason, last_mode from baton.stream_table_status() $$, $$ select 'DIFFERENTIAL', null::text, 'FULL' from generate_series(1, 2) $$, 'the first refresh is full');
select ok((select bool_or(e ~ 'changes_') from baton.explain_stream_table('lines') e), 'the explanation shows the statement');

-- changes of all kinds
select is(refreshed('lines'), 'DIFFERENTIAL 0-0', 'nothing happened');
insert into orders values (1001, 1, 5, 'new');
select is(refreshed('lines'), 'DIFFERENTIAL 1-0', 'a row comes');
update orders set amount = amount + 1 where id between 1 and 3;
select is(refreshed('lines'), 'DIFFERENTIAL 3-3', 'rows change');
update orders set note = 'y';
select is(refreshed('lines') ~ '^DIFFERENTIAL 0-0', true, 'in a column that is not read');
delete from orders where id = 1001;
update customers set region = 'west' where id = 2;
select is(refreshed('lines'), 'DIFFERENTIAL 10-11', 'both sides of a join change');
begin;
insert into orders values (1002, 1, 5, 'new');
savepoint s;
insert into orders values (1003, 1, 5, 'new');
rollback to s;
update orders set amount = 6 where id = 1002;
delete from orders where id = 300;
commit;
select is(refreshed('lines'), 'DIFFERENTIAL 1-1', 'a transaction of many steps counts by its result');
begin;
insert into orders values (1004, 1, 5, 'new');
select is(refreshed('lines'), 'DIFFERENTIAL 1-0', 'a transaction sees its own changes');
update orders set amount = 7 where id = 1004;
select is(refreshed('lines'), 'DIFFERENTIAL 1-1', 'again and again');
commit;
select is(refreshed('lines'), 'DIFFERENTIAL 0-0', 'and they are not seen twice');
begin;
delete from orders where id < 10;
select is(refreshed('lines'), 'DIFFERENTIAL 0-9', 'what is undone');
rollback;
select is(refreshed('lines'), 'DIFFERENTIAL 0-0', 'was never there');
select is(refreshed('regions') ~ '^DIFFERENTIAL', true, 'another stream table has a frontier of its own');
begin;
truncate orders;
select is(refreshed('lines'), 'DIFFERENTIAL 0-301', 'a truncate is a change as any other');
rollback;

-- a chain
select baton.create_stream_table('big_regions', 'select region, total from regions where total > 10', null);
insert into orders values (1005, 3, 1000, null);
select is(refreshed('regions'), 'DIFFERENTIAL 1-1', 'a stream table that another reads');
select is(refreshed('big_regions'), 'DIFFERENTIAL 1-1', 'hands on what changed');

-- its outbox
select baton.enable_outbox('regions');
update orders set amount = amount + 1 where id = 1005;
select is(refreshed('regions'), 'DIFFERENTIAL 1-1', 'with an outbox');
select is((select jsonb_array_length(payload -> 'inserted') + jsonb_array_length(payload -> 'deleted') from outbox_latest_regions), 2, 'its changes are published');
select is((select headers ->> 'refresh_mode' from outbox_regions), 'DIFFERENTIAL', 'as what they are');

-- doubts
update baton.stream_tables set system_identifier = 1 where relation = 'lines'::regclass;
insert into orders values (1006, 1, 5, null);
select is(refreshed('lines'), 'FULL 2-0', 'after a restore elsewhere the refresh is full');
select is(refreshed('lines'), 'DIFFERENTIAL 0-0', 'and differential again');
begin;
update baton.stream_tables set writer = pg_current_xact_id(), writer_depth = 0 where relation = 'lines'::regclass;
delete from lines where id = 5;
commit;
delete from orders where id = 5;
select is(refreshed('lines'), 'FULL 0-0', 'a row that should go and is not there makes it full');
begin;
update baton.stream_tables set writer = pg_current_xact_id(), writer_depth = 0 where relation = 'lines'::regclass;
delete from lines where id = 6;
insert into lines values (-1, 'hand', 1);
commit;
select is(refreshed('lines'), 'DIFFERENTIAL 0-0 but 1 missing, 1 surplus', 'other damage by hand is found by verification');
select results_eq($$ select mode, inserted, deleted from baton.repair_stream_table('lines') $$, $$ values ('FULL', 1::bigint, 1::bigint) $$, 'and repaired');
select is(refreshed('lines'), 'DIFFERENTIAL 0-0', 'it goes on differentially');
alter table orders disable trigger baton_capture_insert;
insert into orders values (1007, 1, 5, null);
alter table orders enable trigger baton_capture_insert;
select is(refreshed('lines'), 'FULL 1-0', 'a capture that was interrupted makes it full');
alter table customers rename column region to area;
update customers set area = 'east' where id = 2;
select is(refreshed('lines') ~ '^[A-Z]+ 10-10$', true, 'a renamed column is followed');
select is(refreshed('lines'), 'DIFFERENTIAL 0-0', 'differentially from then on');
select baton.alter_stream_table('lines', query => 'select o.id, c.area as region, o.amount from orders o join customers c on c.id = o.customer where o.amount > 10');
delete from orders where id = 250;
select is(refreshed('lines'), 'DIFFERENTIAL 0-1', 'so is another query');
select baton.alter_stream_table('lines', query => 'select o.id, c.area as region, o.amount, o.note from orders o join customers c on c.id = o.customer');
update orders set note = 'z' where id = 20;
select is(refreshed('lines'), 'DIFFERENTIAL 1-1', 'with more columns');
select is((select count(*)::int from pg_index where indrelid = 'lines'::regclass), 1, 'and one index to find rows');
create table parts (id int, v int) partition by range (id);
create table parts_1 partition of parts for values from (0) to (10);
select baton.create_stream_table('of_parts', 'select id, v from parts', null);
insert into parts_1 values (1, 1);
select is(refreshed('of_parts'), 'DIFFERENTIAL 1-0', 'a partition''s changes are its table''s');
create table parts_2 (v int, id int);
insert into parts_2 values (5, 11);
alter table parts attach partition parts_2 for values from (10) to (20);
select is(refreshed('of_parts'), 'FULL 1-0', 'one that is attached makes it full');
insert into parts_2 values (6, 12);
select is(refreshed('of_parts'), 'DIFFERENTIAL 1-0', 'once');

-- views and functions of the query that are replaced
create view cheap as select id, amount from orders where amount < 50;
create function label(n int) returns text language sql immutable as $$ select 'order ' || n $$;
select baton.create_stream_table('labels', 'select label(id) as label, amount from cheap', null, 'DIFFERENTIAL');
select is(refreshed('labels'), 'DIFFERENTIAL 0-0', 'all is as it was');
create or replace view cheap as select id, amount from orders where amount < 60;
select is(refreshed('labels') ~ '^FULL [0-9-]+$', true, 'another view is another query');
create or replace function label(n int) returns text language sql immutable as $$ select 'no. ' || n $$;
select is(refreshed('labels') ~ '^FULL [0-9-]+$', true, 'so is another function');
update orders set amount = 59 where id = 250;
select is(refreshed('labels') ~ '^DIFFERENTIAL [0-9-]+$', true, 'and it goes on');
select baton.drop_stream_table('labels');
drop view cheap;

-- what cannot be followed
select is((select reason from baton.stream_table_status(baton.create_stream_table('timed', 'select id, now() as at from orders', null)::text)), 'the time of the query is used elsewhere than in a condition of WHERE or an inner join',
          'AUTO says why it is full');
select throws_ok($$ select baton.create_stream_table('chance', 'select random() as r from orders', null, 'DIFFERENTIAL') $$, '0A000', null, 'who insists is refused');
select throws_like($$ select baton.create_stream_table('chance', 'select random() as r from orders', null, 'DIFFERENTIAL') $$, '%random()%', 'with the reason');
select is((select effective_mode from baton.stream_table_status(baton.create_stream_table('words', $$select id from orders where note = ':table'$$, null)::text)), 'FULL', 'words of the compiler in a query are no trap');
select baton.alter_stream_table('lines', refresh_mode => 'FULL');
update orders set amount = amount + 1 where id = 1;
select is(refreshed('lines'), 'FULL 1-1', 'FULL is full');
select baton.alter_stream_table('lines', refresh_mode => 'AUTO');
select is(refreshed('lines'), 'FULL 0-0', 'back again the first is full');
select is(refreshed('lines'), 'DIFFERENTIAL 0-0', 'then it is differential');

-- what nobody needs any more goes
select refreshed(relation::text) from baton.stream_tables order by level;
select baton_internal.trim_changes();
select format('select count(*)::int from %s', baton_internal.change_buffer('orders')) as count_changes \gset
select is((:count_changes), 0, 'changes that all have seen are deleted');
update orders set amount = amount + 1 where id = 1;
select refreshed('lines');
select baton_internal.trim_changes();
select is((:count_changes), 2, 'others are kept');
select is(refreshed('regions'), 'DIFFERENTIAL 1-1', 'for whoever has not');
select baton.drop_stream_table('of_parts');
select baton_internal.maintain_streams();
select is(baton_internal.change_buffer('parts'), null, 'a source that nobody reads is not captured any more');
select is((select count(*)::int from pg_trigger t where t.tgrelid = 'parts_1'::regclass and not t.tgisinternal), 0, 'and has no triggers of ours');
select ok(baton_internal.change_buffer('orders') is not null, 'others still are');
select baton.disable_outbox('regions'), baton.drop_stream_table('regions', cascade => true), baton.drop_stream_table('lines'), baton.drop_stream_table('timed'), baton.drop_stream_table('words');
select baton_internal.maintain_streams();
select is((select count(*)::int from pg_class where relname ~ '^changes_'), 0, 'in the end nothing is left');

-- rights and policies
select 'reader_' || current_database() as reader \gset
create role :"reader";
grant baton_operator to :"reader";
grant :"reader" to current_user;
create schema room authorization :"reader";
create view area_one as select id, amount from orders where customer = 1;
grant select on area_one to :"reader";
grant select on customers to :"reader";
set role :"reader";
select is((select reason from baton.stream_table_status(baton.create_stream_table('room.by_view', 'select id, amount from public.area_one', null)::text)) ~ 'may not read', true,
          'a view that reads with its owner''s rights is not opened');
select is((select reason from baton.stream_table_status(baton.create_stream_table('room.copy', 'select id, area from public.customers', null)::text)) ~ 'grant trigger', true, 'capture takes the right to make triggers');
reset role;
grant trigger on customers to :"reader";
set role :"reader";
select baton.alter_stream_table('room.copy', refresh_mode => 'DIFFERENTIAL');
reset role;
select is(refreshed('room.copy'), 'FULL 0-0', 'with the right');
insert into customers values (100, 'far');
select is(refreshed('room.copy'), 'DIFFERENTIAL 1-0', 'changes are followed');
select is((select string_agg(a.attname, ' ' order by a.attnum) from pg_attribute a where a.attrelid = baton_internal.change_buffer('customers') and a.attnum > 0 and has_column_privilege(:'reader', a.attrelid, a.attnum, 'select')),
          'xid step weight c1 c2', 'whose owner may read of the buffer what the query reads');
alter table customers enable row level security;
create policy near on customers for select to public using (area <> 'far');
set role :"reader";
select baton.alter_stream_table('room.copy', refresh_mode => 'AUTO');
reset role;
select is((select deleted from baton.refresh_stream_table('room.copy')) >= 1, true, 'a policy counts');
select results_eq($$ select last_mode, reason ~ 'row-level security' from baton.stream_table_status('room.copy') $$, $$ values ('FULL', true) $$, 'and makes it full, with the reason');
drop schema room cascade;
drop owned by :"reader";
drop role :"reader";
\else
create table orders (id int);
select throws_ok($$ select baton.create_stream_table('st', 'select id from orders', refresh_mode => 'DIFFERENTIAL') $$, '0A000', null, 'a differential refresh needs the extension');
\endif
select * from finish();
