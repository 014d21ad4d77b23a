-- A full refresh publishes what changed, or, where that is wanted, all rows with a mark that says so.
select no_plan();
create table items (id int primary key, name text);
insert into items values (1, 'tea'), (2, 'milk');
select baton.create_stream_table('shelf', 'select id, name from items', null, refresh_mode => 'FULL');
select baton.enable_outbox('shelf');
create function sorted(payload jsonb) returns text language sql as $$
    select jsonb_set(payload, '{inserted}', (select coalesce(jsonb_agg(i order by i), '[]') from jsonb_array_elements(payload -> 'inserted') i))::text $$;
insert into items values (3, 'salt');
select baton.refresh_stream_table('shelf');
select is((select payload from outbox_latest_shelf), '{"v": 1, "inserted": [{"id": 3, "name": "salt"}], "deleted": []}', 'what changed, unless all is wanted');

select baton.set_setting('outbox_full_refresh_snapshot', 'on');
set baton.outbox_full_refresh_snapshot = off;
delete from items where id = 1;
select is((select mode || ' ' || inserted || ' ' || deleted from baton.refresh_stream_table('shelf')), 'FULL 0 1', 'a refresh says what it changed');
select is((select sorted(payload) from outbox_latest_shelf), '{"v": 1, "deleted": [], "inserted": [{"id": 2, "name": "milk"}, {"id": 3, "name": "salt"}], "full_refresh": true}',
          'and publishes all rows; no parameter of a session undoes that');
select is((select (headers ->> 'inserted_count') || ' ' || (headers ->> 'deleted_count') from outbox_shelf order by id desc limit 1), '2 0', 'as its headers say');
select is((select outbox_id from baton.stream_table_history('shelf', 1)), (select max(id) from outbox_shelf), 'the history knows the event');
select baton.refresh_stream_table('shelf');
select is((select count(*) from outbox_shelf), 2::bigint, 'what changes nothing publishes nothing');
begin;
set local baton.outbox_skip_empty_delta = off;
select baton.refresh_stream_table('shelf');
select is((select count(*) from outbox_shelf where payload ? 'full_refresh'), 2::bigint, 'unless that is wanted');
rollback;
delete from items;
select baton.refresh_stream_table('shelf');
select is((select payload from outbox_latest_shelf), '{"v": 1, "inserted": [], "deleted": [], "full_refresh": true}', 'an empty table has no rows');

-- many rows stand beside the event
set baton.outbox_inline_threshold_rows = 10;
insert into items select n, 'thing ' || n from generate_series(1, 11) n;
select baton.refresh_stream_table('shelf');
select is((select payload - 'refresh_id' from outbox_latest_shelf), '{"v": 1, "claim_check": true, "inserted_count": 11, "deleted_count": 0, "full_refresh": true}', 'many rows are a claim check');
select is((select count(*) || ' ' || string_agg(distinct op, '') from baton.outbox_delta_rows('shelf', (select max(id) from outbox_shelf))), '11 I', 'with all of them');
update items set name = 'one' where id = 1;
select baton.refresh_stream_table('shelf');
select is((select count(*) from baton.outbox_delta_rows('shelf', (select max(id) from outbox_shelf))), 11::bigint, 'however few have changed');
select is((select count(*) from baton_internal.claim_checks c where c.row_count = 11), 2::bigint, 'and as many are counted');
select is((select payload::jsonb - '{refresh_id,inserted,deleted}'::text[]
             from baton_internal.read_claim_check_part('outbox_shelf', (select max(id) from outbox_shelf), 0, 4, 1000000, 1000000, 1, (select payload from outbox_latest_shelf))),
          '{"v": 1, "part": 1, "last": false, "first_row": 1, "total_rows": 11, "full_refresh": true}', 'a part has the mark, too');
reset baton.outbox_inline_threshold_rows;

-- rows that come more than once come as often
create table words (word text);
insert into words values ('a'), ('a'), ('b');
select baton.create_stream_table('said', 'select word from words', null, refresh_mode => 'FULL');
select baton.enable_outbox('said');
insert into words values ('a');
select baton.refresh_stream_table('said');
select is((select sorted(payload) from outbox_latest_said), '{"v": 1, "deleted": [], "inserted": [{"word": "a"}, {"word": "a"}, {"word": "a"}, {"word": "b"}], "full_refresh": true}', 'as often as they are there');

-- events of rows stay what they are
select baton.create_stream_table('rows', 'select id, name from items', null, refresh_mode => 'FULL');
create unique index on rows (id);
select baton.enable_outbox('rows', format => 'rows');
update items set name = 'two' where id = 2;
select baton.refresh_stream_table('rows');
select is((select count(*) || ' ' || max(event_type) from outbox_rows), '1 stream_table.upsert', 'a row that changed is one event');
select * from finish();
