-- The relay reads the rows of a large delta as parts that explain themselves.
select no_plan();
create table items (id int primary key, name text);
select baton.create_stream_table('shelf', 'select id, name from items', null);
select baton.enable_outbox('shelf');
select baton.create_stream_table('copies', 'select id, name from items', null);
select baton.enable_outbox('copies', format => 'rows');
select baton.create_outbox('orders');
select baton.create_consumer_group('relay', 'outbox_shelf', auto_offset_reset => 'earliest');
set baton.outbox_inline_threshold_rows = 3;
insert into items values (1, 'a'), (2, 'b');
select baton.refresh_stream_table('shelf');
update items set name = repeat('x', 1000);
insert into items select n, repeat('x', 1000) from generate_series(3, 10) n;
select baton.refresh_stream_table('shelf');
select id as claim, payload as claim_check from outbox_latest_shelf \gset

create function part(after_row int, max_rows int, max_bytes bigint default 1000000, load_bytes bigint default 1000000) returns setof record language sql as
    $$ select * from baton_internal.read_claim_check_part('outbox_shelf', 2, after_row, max_rows, max_bytes, load_bytes, 7, (select payload from outbox_shelf where id = 2)) $$;
select is(:claim, 2, 'the second event is a claim check');
select results_eq('select a, b, c from part(0, 3) p (a int, b int, c boolean, d bigint, e text)', 'values (1, 3, false)', 'a part has as many rows as are wanted');
select results_eq('select a, b, c from part(3, 100) p (a int, b int, c boolean, d bigint, e text)', 'values (4, 12, true)', 'and the last one all that are left');
select is_empty('select 1 from part(12, 100) p (a int, b int, c boolean, d bigint, e text)', 'there is nothing behind it');
select is((e::jsonb - '{refresh_id,inserted,deleted}'::text[]), '{"v": 1, "part": 7, "last": false, "first_row": 1, "total_rows": 12}', 'a part says where it belongs')
  from part(0, 3) p (a int, b int, c boolean, d bigint, e text);
select is(jsonb_array_length(e::jsonb -> 'deleted') || ' ' || jsonb_array_length(e::jsonb -> 'inserted'), '2 1', 'what goes comes first') from part(0, 3) p (a int, b int, c boolean, d bigint, e text);
select is((select jsonb_agg(r order by r -> 'id') from jsonb_array_elements(e::jsonb -> 'deleted') r), '[{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]', 'as rows')
  from part(0, 3) p (a int, b int, c boolean, d bigint, e text);
select is(e::jsonb -> 'refresh_id', :'claim_check'::jsonb -> 'refresh_id', 'under the id of the refresh') from part(0, 3) p (a int, b int, c boolean, d bigint, e text);
select results_eq('select a, b, e is null from part(4, 100, 2500) p (a int, b int, c boolean, d bigint, e text)', 'values (5, 6, false)', 'a part is cut where it would be too large');
select results_eq('select a, b, e is null from part(4, 100, 10) p (a int, b int, c boolean, d bigint, e text)', 'values (5, 5, false)', 'but has one row at least');
select results_eq('select a, b, d > 1000, e from part(4, 100, 10, 100) p (a int, b int, c boolean, d bigint, e text)', 'values (5, 5, true, null::text)', 'which is not loaded when it is larger than may be');
select is_empty($$ select 1 from baton_internal.read_claim_check_part('outbox_shelf', 1, 0, 10, 1000, 1000, 1, '{}') $$, 'other events have no rows beside them');

-- which outboxes can have them
select lives_ok($$ select baton_internal.check_for_claim_checks('outbox_shelf') $$, 'the outbox of a stream table can hold claim checks');
select throws_ok($$ select baton_internal.check_for_claim_checks('outbox_copies') $$, '42809', null, 'not with an event per row');
select throws_ok($$ select baton_internal.check_for_claim_checks('orders') $$, '42809', null, 'nor any other outbox');

-- delivered
select epoch, group_id from baton_internal.take_group('relay', 'me') \gset
select throws_ok(format('select baton_internal.claim_check_delivered(%s, %s, 2)', :group_id, :epoch - 1), 'BT001', null, 'who lost the group delivers nothing');
select is((select claim_check_pending_count from baton.outbox_status('outbox_shelf')), 1::bigint, 'and the rows are pending');
select baton_internal.claim_check_delivered(:group_id, :epoch, 2), baton_internal.claim_check_delivered(:group_id, :epoch, 2);
select is((select claim_check_pending_count from baton.outbox_status('outbox_shelf')), 0::bigint, 'the owner says that the group has them, once or twice');
select * from finish();
