-- Every change of a captured table is an event, in the writer's transaction, with the row before and after.
select no_plan();
create table items (id int primary key, name text, price numeric);
insert into items values (0, 'old', 1);
create function told(outbox text, after_id bigint default 0) returns table (type text, key text, before text, after text) language plpgsql as $$
begin
    return query execute format('select split_part(event_type, ''.'', 2), aggregate_id, payload -> ''before'' ->> ''name'', payload -> ''after'' ->> ''name'' from %I where id > $1 order by id', outbox) using after_id;
end $$;
create function upto(outbox text) returns bigint language plpgsql as $$
declare n bigint; begin execute format('select coalesce(max(id), 0) from %I', outbox) into n; return n; end $$;

select is(baton.capture_table('items'), 'outbox_items', 'a table is captured with one line');
select results_eq('select * from baton.captured_tables()', $$ values ('items', 'outbox_items', '{id}'::text[], false) $$, 'and listed');
select is_empty($$ select * from told('outbox_items') $$, 'what was there is no change');
insert into items values (1, 'tea', 1.50), (2, 'milk', 2);
update items set name = 'green ' || name where id = 1;
delete from items where id = 2;
select results_eq($$ select * from told('outbox_items') $$, $$ values ('insert', '1', null, 'tea'), ('insert', '2', null, 'milk'), ('update', '1', 'tea', 'green tea'), ('delete', '2', 'milk', null) $$,
                  'inserts, updates and deletes are told');
select results_eq($$ select event_type, aggregate_type, partition_key, headers from outbox_items where id = 3 $$, $$ values ('table.update', 'public.items', '1', '{"op": "update"}'::jsonb) $$, 'by table and key');
select is((select payload from outbox_items where id = 3),
          '{"v": 1, "op": "update", "key": {"id": 1}, "before": {"id": 1, "name": "tea", "price": 1.50}, "after": {"id": 1, "name": "green tea", "price": 1.50}}', 'with whole rows');
select is((select payload from outbox_items where id = 4), '{"v": 1, "op": "delete", "key": {"id": 2}, "before": {"id": 2, "name": "milk", "price": 2}, "after": null}', 'a delete has the row that went');
begin;
insert into items values (3, 'gone');
savepoint s;
insert into items values (4, 'gone too');
rollback to s;
select is((select count(*)::int from outbox_items), 5, 'what was rolled back is no event');
rollback;
select is((select count(*)::int from outbox_items), 4, 'nor is anything of a transaction that was');

-- statements of every kind
select upto('outbox_items') as mark \gset
insert into items values (1, 'x'), (5, 'five') on conflict (id) do update set name = 'both';
with d as (delete from items where id = 5 returning *) insert into items select 6, name from d;
copy items (id, name) from stdin;
7	seven
8	eight
\.
select bag_eq(format('select * from told(''outbox_items'', %s)', :mark), $$ values ('update', '1', 'green tea', 'both'), ('insert', '5', null, 'five'), ('delete', '5', 'five', null), ('insert', '6', null, 'five'),
                  ('insert', '7', null, 'seven'), ('insert', '8', null, 'eight') $$, 'upserts, CTEs and COPY are told');
create table parts (id int primary key, item int references items on delete cascade on update cascade, name text);
select baton.capture_table('parts', retention_hours => 12);
insert into parts values (1, 7, 'lid');
delete from items where id = 7;
select results_eq($$ select * from told('outbox_parts') $$, $$ values ('insert', '1', null, 'lid'), ('delete', '1', 'lid', null) $$, 'and what foreign keys do');
select is((select retention from baton.outbox_status('outbox_parts')), interval '12 hours', 'an outbox has a retention of its own');
update items set name = name where id = 8;
select results_eq($$ select * from told('outbox_items', upto('outbox_items') - 1) $$, $$ values ('update', '8', 'eight', 'eight') $$, 'an update that changes nothing is an update');
select upto('outbox_items') as mark \gset
update items set name = 'n' where id = -1;
insert into items select where false;
select is(upto('outbox_items'), :mark::bigint, 'a statement without rows tells nothing');

-- while publishing is switched off a change that could not be told is not made
select baton.set_setting('outbox_enabled', 'off');
select throws_ok($$ insert into items values (99, 'untold') $$, 'BT005', null, 'a change that cannot be told is refused');
select throws_ok($$ truncate items cascade $$, 'BT005', null, 'so is one of all rows');
select baton.set_setting('outbox_enabled', 'on');
select is(upto('outbox_items'), :mark::bigint, 'and nothing is told of it');

-- keys
create table chain (id int, name text, primary key (id) deferrable initially deferred);
insert into chain values (1, 'a'), (2, 'b'), (3, 'c');
select baton.capture_table('chain');
update chain set id = id + 1;
select results_eq($$ select type, count(*) from (select type, row_number() over () > 3 as late from told('outbox_chain')) x group by type, late order by late $$, $$ values ('delete', 3::bigint), ('insert', 3) $$,
                  'where keys move on, all that goes does so before anything comes');
create function mirror(outbox text) returns table (name text) language plpgsql as $$
begin
    return query execute format($q$ select payload -> 'after' ->> 'name' from (select distinct on (partition_key) * from %I order by partition_key, id desc) last where event_type <> 'table.delete' $q$, outbox);
end $$;
select bag_eq($$ select * from mirror('outbox_chain') $$, 'select name from chain', 'so the last event of each key is the table');
create table pairs (a int, b text, name text, primary key (b, a));
select baton.capture_table('pairs');
insert into pairs values (1, 'x', 'n');
select is((select payload -> 'key' from outbox_pairs), '{"a": 1, "b": "x"}', 'a key has as many columns as it has');
create table bag (name text, n int unique);
select baton.capture_table('bag');
insert into bag values ('two', null), ('two', null);
update bag set name = 'three' where ctid = (select min(ctid) from bag);
select results_eq('select event_type, aggregate_id from outbox_bag order by id', $$ values ('table.insert', '{"n": null, "name": "two"}'), ('table.insert', '{"n": null, "name": "two"}'),
                  ('table.delete', '{"n": null, "name": "two"}'), ('table.insert', '{"n": null, "name": "three"}') $$, 'without a key the row is one');
delete from bag where n is null;
alter table bag alter n set not null;
insert into bag values ('four', 4);
select is((select aggregate_id from outbox_bag order by id desc limit 1), '4', 'a unique index without nulls is a key');
insert into bag select repeat('x', 3000), 5;
alter table bag drop constraint bag_n_key;
insert into bag select repeat('x', 3000), 6;
select is((select aggregate_id from outbox_bag order by id desc limit 1), md5((select to_jsonb(b)::text from bag b where n = 6)), 'a key that is too long is told by its digest');

-- TRUNCATE
create table small (id int primary key, name text);
select baton.capture_table('small', tombstones => true);
insert into small values (1, 'a'), (2, 'b');
truncate small;
select bag_eq($$ select * from told('outbox_small', 2) $$, $$ values ('delete', '1', null::text, null::text), ('delete', '2', null, null) $$, 'TRUNCATE deletes every row');
select is((select count(*)::int from outbox_small where payload is null), 2, 'with tombstones a delete has no payload');
begin isolation level repeatable read;
select throws_ok('truncate small', '55000', null, 'but not where rows could go unseen');
rollback;

-- sessions
set timezone = 'Asia/Tokyo';
set extra_float_digits = -5;
set intervalstyle = 'iso_8601';
set datestyle = 'German, DMY';
set search_path = pg_catalog;
create table public.settings (id int primary key, at timestamptz, f float8, i interval, d daterange);
select baton.capture_table('public.settings');
insert into public.settings values (1, '2024-01-01 12:00+00', 0.1::float8 + 0.2, '1 day 02:00', '[2024-02-01,2024-03-01)');
reset timezone; reset extra_float_digits; reset intervalstyle; reset datestyle; reset search_path;
select is(payload -> 'after', '{"id": 1, "at": "2024-01-01T12:00:00+00:00", "f": 0.30000000000000004, "i": "1 day 02:00:00", "d": "[2024-02-01,2024-03-01)"}', 'values look alike, whatever session wrote them')
  from public.outbox_settings;

-- the table changes
select upto('outbox_items') as mark \gset
alter table items add column more int default 3;
alter table items rename name to label;
alter table items drop column price;
alter table items rename id to number;
insert into items values (20, 'new');
alter table items alter label type varchar(40), alter number type bigint;
alter table items rename to goods;
update goods set more = 4 where number = 20;
select results_eq(format('select payload -> ''after'', aggregate_type from outbox_items where id > %s order by id', :mark),
                  $$ values ('{"number": 20, "label": "new", "more": 3}'::jsonb, 'public.items'), ('{"number": 20, "label": "new", "more": 4}', 'public.goods') $$, 'columns come, go and are renamed, and so is the table');
create schema elsewhere;
alter table goods set schema elsewhere;
delete from elsewhere.goods where number = 20;
select is((select aggregate_type || ' ' || aggregate_id from outbox_items order by id desc limit 1), 'elsewhere.goods 20', 'which may move');

-- what was there
create table stock (id int primary key, name text);
insert into stock values (1, 'a'), (2, 'b');
select baton.capture_table('stock', snapshot => true);
select baton.capture_table('stock', snapshot => true);
select bag_eq($$ select * from told('outbox_stock') $$, $$ values ('insert', '1', null, 'a'), ('insert', '2', null, 'b') $$, 'rows that are there can come first, once');
alter table stock disable trigger baton_captured_insert;
drop trigger baton_captured_delete on stock;
select is(baton.capture_table('stock', tombstones => true), 'outbox_stock', 'a capture is mended by asking for it again');
insert into stock values (3, 'c');
delete from stock where id = 3;
select results_eq('select event_type, payload is null from outbox_stock where id > 2 order by id', $$ values ('table.insert', false), ('table.delete', true) $$, 'with other options');
select throws_ok($$ select baton.capture_table('stock', retention_hours => 5) $$, '42710', null, 'the retention is changed elsewhere');

-- refused
create table parted (id int) partition by range (id);
create table part partition of parted for values from (0) to (10);
create table parent (id int);
create table child () inherits (parent);
create view seen as select 1 as n;
create temp table short (id int);
create unlogged table light (id int);
select baton.create_stream_table('streamed', 'select 1 as n', null);
select throws_ok(format('select baton.capture_table(%L)', t), '42809', null, t || ' cannot be captured')
  from unnest('{parted,part,parent,child,seen,short,light,streamed,baton.jobs,pg_class}'::text[]) t where to_regclass(t) is not null;
select throws_ok($$ select baton.capture_table('nothing') $$, '42P01', null, 'nor can a table that is not there');
select throws_ok($$ select baton.capture_table('stock', retention_hours => -1) $$, '22023', null, 'nor for less than no time');
create table stockist (id int primary key, name text) partition by range (id);
select throws_like('alter table stockist attach partition stock for values from (10) to (20)', '%baton_captured_alone%', 'a captured table becomes no partition');

-- ended
select throws_ok($$ select baton.drop_outbox('outbox_stock') $$, '2BP01', null, 'the outbox is not dropped under its table');
select baton.create_consumer_group('readers', 'outbox_stock');
select throws_ok($$ select baton.uncapture_table('stock') $$, '2BP01', null, 'a capture with groups is not ended');
insert into stock values (4, 'd');
select is(baton.uncapture_table('stock', cascade => true), true, 'unless asked to');
select is((select count(*)::int from pg_trigger where tgrelid = 'stock'::regclass) + (select count(*)::int from pg_class where relname ~ '^outbox_stock'), 0, 'then nothing is left');
select lives_ok('insert into stock values (5, ''e'')', 'and the table is a table');
select throws_ok($$ select baton.uncapture_table('stock') $$, '42704', null, 'what is not captured cannot be ended');
select is(baton.uncapture_table('stock', if_exists => true), false, 'unless that is fine');
select is(baton.uncapture_table('nothing', if_exists => true), false, 'or not there');
drop table small;
select lives_ok($$ select baton.drop_outbox('outbox_small') $$, 'the outbox of a table that was dropped is an outbox');
select is((select count(*)::int from pg_proc where proname ~ '^baton_capture_[0-9]'), (select count(*)::int from baton.captured_tables()), 'each capture has a function, which goes with the capture or with what is left of it');
select * from finish();
