-- Format rows: an event per changed row, keyed by the stream table's key, so that a compacted topic mirrors the table.
select no_plan();
create table items (id int, shop text, price numeric);
insert into items values (1, 'a', 1), (2, 'a', 2);
select baton.create_stream_table('prices', 'select id, shop, price from items', null);
create unique index on prices (id);
select baton.enable_outbox('prices', format => 'rows');
update items set price = 1.5 where id = 1;
delete from items where id = 2;
insert into items values (3, 'b', 3);
select baton.refresh_stream_table('prices');
select results_eq('select event_type, aggregate_type, aggregate_id, partition_key, payload, headers ->> ''op'' from outbox_prices order by aggregate_id',
    $$ values ('stream_table.upsert', 'public.prices', '1', '1', '{"v": 1, "op": "upsert", "key": {"id": 1}, "before": {"id": 1, "shop": "a", "price": 1}, "after": {"id": 1, "shop": "a", "price": 1.5}}'::jsonb, 'upsert'),
              ('stream_table.delete', 'public.prices', '2', '2', null, 'delete'),
              ('stream_table.upsert', 'public.prices', '3', '3', '{"v": 1, "op": "upsert", "key": {"id": 3}, "before": null, "after": {"id": 3, "shop": "b", "price": 3}}', 'upsert') $$,
    'an event per key: what it was and what it is, or nothing any more');
select baton.refresh_stream_table('prices');
select is((select count(*)::int from outbox_prices), 3, 'nothing changed, no event');
select is(to_regclass('outbox_delta_rows_prices'), null, 'large changes are many events, with nothing beside them');
insert into items select n, 'bulk', n from generate_series(10, 2009) n;
select baton.refresh_stream_table('prices');
select is((select count(*)::int from outbox_prices where payload -> 'after' ->> 'shop' = 'bulk'), 2000, 'however many');
select is((select array_agg(payload -> 'after' order by aggregate_id) from (select distinct on (aggregate_id) * from outbox_prices order by aggregate_id, id desc) e where payload is not null),
          (select array_agg(to_jsonb(p) order by p.id::text) from prices p), 'the last event of each key is the row');

-- keys
drop index prices_id_idx;
create unique index on prices (shop, id);
update items set price = 4 where id = 3;
select baton.refresh_stream_table('prices');
select is((select aggregate_id from outbox_prices order by id desc limit 1), '{"id": 3, "shop": "b"}', 'a key of several columns');
alter table prices add primary key (id);
select is(baton_internal.stream_key('prices'), '{id}', 'the primary key comes first');
alter table prices drop constraint prices_pkey;
drop index prices_shop_id_idx;
create unique index on prices (id) where id > 5;
create unique index on prices ((id + 1));
create unique index on prices (id) include (shop);
select is(baton_internal.stream_key('prices'), '{id}', 'included columns are no key');
drop index prices_id_shop_idx;
select is(baton_internal.stream_key('prices'), '{}', 'parts of the table and expressions are none');
drop index prices_expr_idx;
delete from items where id > 5;
select baton.refresh_stream_table('prices');
insert into items values (3, 'b', 4), (3, 'b', 4);
select baton.refresh_stream_table('prices');
select results_eq($$ select event_type, payload -> 'after' from outbox_prices order by id desc limit 2 $$,
                  $$ select 'stream_table.upsert', '{"id": 3, "shop": "b", "price": 4}'::jsonb from generate_series(1, 2) $$, 'without a key the row is its own, each copy an event');
insert into items values (4, repeat('x', 3000), 1);
select baton.refresh_stream_table('prices');
select is((select aggregate_id from outbox_prices order by id desc limit 1), md5((select to_jsonb(p)::text from prices p where id = 4)), 'a key that is too long is told by its digest');
select baton.drop_stream_table('prices');
select * from finish();
