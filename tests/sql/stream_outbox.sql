-- The outbox of a stream table carries what each refresh changed, in the refresh's own transaction.
select no_plan();
create table items (id int primary key, name text, price numeric);
insert into items values (1, 'tea', 1.50), (2, 'milk', 2);
select baton.create_stream_table('shelf', 'select id, name, price from items', null);
select throws_ok($$ select baton.disable_outbox('shelf') $$, '42704', null, 'what has none cannot lose it');
select is(baton.disable_outbox('shelf', if_exists => true), false, 'unless that is fine');
select is(baton.enable_outbox('shelf'), 'public.outbox_shelf', 'an outbox is made');
select is(baton.enable_outbox('shelf'), 'public.outbox_shelf', 'once');
select throws_ok($$ select baton.enable_outbox('shelf', 48) $$, '42710', null, 'another retention is refused');
select throws_ok($$ select baton.enable_outbox('shelf', format => 'rows') $$, '42710', null, 'and another format');
select throws_ok($$ select baton.enable_outbox('shelf', format => 'xml') $$, '22023', null, 'and one that is none');
select throws_ok($$ select baton.enable_outbox('items') $$, '42704', null, 'a plain table has no deltas');
select results_eq($$ select outbox, outbox_format from baton.stream_table_status('shelf') $$, $$ values ('public.outbox_shelf', 'delta') $$, 'the state tells of it');
select baton.create_consumer_group('readers', 'outbox_shelf', auto_offset_reset => 'earliest');

-- deltas
insert into items values (3, 'salt', 0.10);
update items set price = 1.60 where id = 1;
delete from items where id = 2;
select baton.refresh_stream_table('shelf');
select is((select count(*)::int from outbox_shelf), 1, 'a refresh is an event');
select is(e.payload,
          '{"v": 1, "inserted": [{"id": 1, "name": "tea", "price": 1.60}, {"id": 3, "name": "salt", "price": 0.10}], "deleted": [{"id": 1, "name": "tea", "price": 1.50}, {"id": 2, "name": "milk", "price": 2}]}',
          'with what came and what went') from (select jsonb_set(jsonb_set(payload, '{inserted}', (select jsonb_agg(i order by i -> 'id') from jsonb_array_elements(payload -> 'inserted') i)),
              '{deleted}', (select jsonb_agg(i order by i -> 'id') from jsonb_array_elements(payload -> 'deleted') i)) as payload from outbox_shelf) e;
select results_eq('select event_type, aggregate_type, aggregate_id, headers ->> ''inserted_count'', headers ->> ''deleted_count'' from outbox_shelf',
                  $$ values ('stream_table.delta', 'stream_table', 'public.shelf', '2', '2') $$, 'of the stream table');
select results_eq('select id, inserted_count, deleted_count, is_claim_check from outbox_latest_shelf', $$ values (1::bigint, 2::bigint, 2::bigint, false) $$, 'the latest one has a view');
select is((select outbox_id from baton.stream_table_history('shelf', 1)), 1::bigint, 'the history knows the event');
select baton.refresh_stream_table('shelf');
select is((select count(*)::int from outbox_shelf), 1, 'a refresh that changes nothing is none');
begin;
set local baton.outbox_skip_empty_delta = off;
select baton.refresh_stream_table('shelf');
select is((select payload from outbox_latest_shelf), '{"v": 1, "inserted": [], "deleted": []}', 'unless a setting wants it');
rollback;
begin;
delete from items;
select baton.refresh_stream_table('shelf');
select is((select count(*)::int from outbox_shelf), 2, 'the event is written with the refresh');
rollback;
select is((select count(*)::int from outbox_shelf), 1, 'and goes with it');
begin;
delete from items;
select baton.set_setting('outbox_enabled', 'off');
select throws_ok($$ select * from baton.refresh_stream_table('shelf') $$, 'BT005', null, 'while publishing is switched off there is no refresh');
select is((select count(*)::int from shelf), 2, 'and no delta is lost');
rollback;
select is((select (e.payload -> 'inserted' -> 0) is not null from baton.poll_outbox('readers', 'r1') e limit 1), true, 'a group reads it as any outbox');
select throws_ok($$ select baton.drop_outbox('outbox_shelf', cascade => true) $$, '2BP01', null, 'it is not dropped without its stream table''s knowledge');
select is((select count(*)::int from pg_attribute a where a.attrelid = 'outbox_shelf'::regclass and a.attnum > 0 and has_column_privilege('baton_producer', a.attrelid, a.attnum, 'insert')), 0,
          'nobody else publishes into it');

-- columns
select throws_ok($$ select baton.alter_stream_table('shelf', query => 'select id, name from items') $$, '55000', null, 'columns do not change under an outbox');
select throws_ok($$ select baton.alter_stream_table('shelf', query => 'select id, name, price::text as price from items') $$, '55000', null, 'nor their types');
select throws_ok($$ select baton.alter_stream_table('shelf', query => 'select name, id, price from items') $$, '55000', null, 'nor their order');
select lives_ok($$ select baton.alter_stream_table('shelf', query => 'select id, name, price from items where id > 1') $$, 'another query will do');
select is((select payload from outbox_latest_shelf), '{"v": 1, "inserted": [], "deleted": [{"id": 1, "name": "tea", "price": 1.60}]}', 'its difference is a delta');

-- claim checks
insert into items select n, 'thing ' || n, n from generate_series(101, 110) n;
set baton.outbox_inline_threshold_rows = 10;
select baton.refresh_stream_table('shelf');
select is((select is_claim_check from outbox_latest_shelf), false, 'as many rows as the threshold are in the event');
update items set price = price + 1 where id between 101 and 105;
delete from items where id = 110;
select baton.refresh_stream_table('shelf');
select results_eq('select is_claim_check, inserted_count, deleted_count, payload - ''refresh_id'' from outbox_latest_shelf',
                  $$ values (true, 5::bigint, 6::bigint, '{"v": 1, "claim_check": true, "inserted_count": 5, "deleted_count": 6}'::jsonb) $$, 'one more, and the event says where they are');
select ok((select payload ->> 'refresh_id' = refresh_id from outbox_latest_shelf), 'under an id');
select id as claim from outbox_latest_shelf \gset
select results_eq(format('select op, count(*) from baton.outbox_delta_rows(''shelf'', %s) group by 1 order by 1', :claim), $$ values ('D', 6::bigint), ('I', 5) $$, 'the rows can be read');
select results_eq(format('select row_num, op from baton.outbox_delta_rows(''shelf'', %s)', :claim), $$ select n, case when n <= 6 then 'D' else 'I' end from generate_series(1, 11) n $$, 'in order');
select results_eq(format('select row_num from baton.outbox_delta_rows(''shelf'', %s, 4, 3)', :claim), '{5,6,7}'::int[], 'and by page');
select is((select payload from baton.outbox_delta_rows('shelf', :claim) where op = 'I' and payload ->> 'id' = '103'), '{"id": 103, "name": "thing 103", "price": 104}', 'as they are');
select is((select count(*)::int from outbox_delta_rows_shelf), 11, 'they are in a table beside the outbox');
select throws_ok($$ select * from baton.outbox_delta_rows('shelf', 1) $$, '02000', null, 'other events have none');
begin;
select baton.outbox_rows_consumed('shelf', :claim);
select is((select claim_check_pending_count from baton.outbox_status('outbox_shelf')), 0::bigint, 'the only group says that it has them');
rollback;
select is((select claim_check_pending_count from baton.outbox_status('outbox_shelf')), 1::bigint, 'until then they are pending');
select baton.create_consumer_group('others', 'outbox_shelf', auto_offset_reset => 'latest');
select throws_ok(format('select baton.outbox_rows_consumed(''shelf'', %s)', :claim), '42704', null, 'of several groups one must be named');
select throws_ok(format('select baton.outbox_rows_consumed(''shelf'', %s, ''nobody'')', :claim), '42704', null, 'that exists');
select baton_internal.release_claim_checks();
select is((select count(*)::int from outbox_delta_rows_shelf), 11, 'rows are kept while their event is in the log');
begin;
select baton.repair_outbox('outbox_shelf', 'as if the event had left the log');
delete from outbox_shelf where id = :claim;
select baton_internal.release_claim_checks();
select is((select count(*)::int from outbox_delta_rows_shelf), 11, 'and then until every group has them');
select baton.outbox_rows_consumed('shelf', :claim, 'readers'), baton.outbox_rows_consumed('shelf', :claim, 'readers');
select baton_internal.release_claim_checks();
select is((select count(*)::int from outbox_delta_rows_shelf), 0, 'a group that came later does not count');
select throws_ok(format('select * from baton.outbox_delta_rows(''shelf'', %s)', :claim), '02000', null, 'rows that are gone are told');
rollback;
reset baton.outbox_inline_threshold_rows;
update items set name = repeat(md5(id::text), 4000) where id between 101 and 109;
select baton.refresh_stream_table('shelf');
select is((select is_claim_check from outbox_latest_shelf), true, 'rows that are too large for an event are beside it, however few');

-- replayed from the beginning the deltas give the table
select is((select array_agg(r order by r ->> 'id') from (
             select d.row from (select id, jsonb_array_elements(payload -> 'inserted') as row, 1 as weight from outbox_shelf
                                union all select id, jsonb_array_elements(payload -> 'deleted'), -1 from outbox_shelf
                                union all select outbox_id, payload, case op when 'I' then 1 else -1 end from outbox_delta_rows_shelf
                                union all select 0, row, 1 from (values ('{"id": 1, "name": "tea", "price": 1.50}'::jsonb), ('{"id": 2, "name": "milk", "price": 2}')) first (row)) d
              group by d.row having sum(d.weight) > 0) x (r)), (select array_agg(to_jsonb(s) order by s.id::text) from shelf s), 'deltas replayed are the table');

-- ended
select throws_ok($$ select baton.disable_outbox('shelf') $$, '2BP01', null, 'an outbox with groups is not ended');
select throws_ok($$ select baton.drop_stream_table('shelf') $$, '2BP01', null, 'nor dropped with its stream table');
select is(baton.disable_outbox('shelf', cascade => true), true, 'unless asked to');
select is((select count(*)::int from pg_class where relname ~ 'outbox.*shelf'), 0, 'then nothing is left');
select is((select count(*)::int from shelf), 10, 'but the stream table');
select baton.enable_outbox('shelf', 12, 'delta');
select is((select retention from baton.outbox_status('outbox_shelf')), interval '12 hours', 'with a retention of its own');
select is(baton.drop_stream_table('shelf'), true, 'a stream table takes an outbox without groups along');
select is((select count(*)::int from pg_class where relname ~ 'shelf'), 0, 'all of it');

-- names
create table outbox_taken (n int);
select baton.create_stream_table('taken', 'select 1 as n', null), baton.create_stream_table(repeat('ä', 30), 'select 1 as n', null);
select is(baton.enable_outbox('taken'), 'public.outbox_taken_' || left(md5('public.taken'), 7), 'a name that is taken gets a digest');
select is(baton.enable_outbox(repeat('ä', 30)), format('public.%I', 'outbox_' || repeat('ä', 6) || '_' || left(md5('public.' || repeat('ä', 30)), 7)), 'so does one that is too long');
insert into outbox_taken values (1);
select is(baton.drop_stream_table('taken') and to_regclass('outbox_taken') is not null, true, 'the table of that name is left alone');

-- dropped by hand
create table goods (n int);
create function pg_temp.lose(format text, statement text)
returns void
language plpgsql
as $$
begin
    perform baton.create_stream_table('stock', 'select n from goods', null), baton.enable_outbox('stock', format => format);
    insert into goods values (1);
    perform baton.refresh_stream_table('stock');
    execute statement;
    insert into goods values (2);
end
$$;
select pg_temp.lose('delta', 'drop table outbox_stock cascade');
select throws_ok($$ select * from baton.refresh_stream_table('stock') $$, '55000', 'the outbox of stream table public.stock was dropped', 'without its outbox a stream table is not refreshed');
select throws_ok($$ select * from baton.repair_stream_table('stock') $$, '55000', 'the outbox of stream table public.stock was dropped', 'nor repaired');
select throws_ok($$ select baton.enable_outbox('stock') $$, '55000', 'the outbox of stream table public.stock was dropped', 'nor given another one');
select is((select outbox from baton.stream_table_status('stock')), 'dropped', 'its state says so');
select is((select missing from baton.verify_stream_table('stock')), 1::bigint, 'nothing was refreshed');
select is(baton.disable_outbox('stock'), true, 'what is left of the outbox can be removed');
select is((select count(*)::int from pg_class where relname ~ 'outbox.*stock') + (select count(*)::int from baton_internal.stream_outboxes l join baton.stream_tables s using (stream_id) where s.relation = 'stock'::regclass),
          0, 'then nothing is left');
select is((select inserted from baton.refresh_stream_table('stock')), 1::bigint, 'and the stream table goes on');
select is(baton.enable_outbox('stock'), 'public.outbox_stock', 'with a new one');
drop table outbox_delta_rows_stock;
insert into goods values (3);
select throws_ok($$ select * from baton.refresh_stream_table('stock') $$, '55000', 'the table for large deltas of stream table public.stock was dropped', 'the table beside the outbox is needed, too');
select is(baton.drop_stream_table('stock'), true, 'a stream table is dropped all the same');
select is((select count(*)::int from pg_class where relname ~ 'stock'), 0, 'all of it');
select pg_temp.lose('rows', 'drop table outbox_stock cascade');
select is(baton.drop_stream_table('stock'), true, 'also without its outbox');
select is((select count(*)::int from baton.stream_tables where query ~ 'goods'), 0, 'none is left');
select * from finish();
