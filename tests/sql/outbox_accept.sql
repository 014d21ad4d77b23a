-- What an outbox takes in and what it refuses, whether publish(), a plain INSERT or COPY brings it.
select no_plan();

-- What a statement is refused with.
create function refusal(statement text, out state text, out message text, out hint text) language plpgsql as $$
begin
    execute statement;
exception when others then
    get stacked diagnostics state = returned_sqlstate, message = message_text, hint = pg_exception_hint;
end $$;

select baton.create_outbox('events');
select baton.create_outbox('texts', payload_type => 'text');
select baton.create_outbox('bytes', payload_type => 'bytea');
select baton.create_outbox('jsons', payload_type => 'json');

-- events that nobody could handle
select row_eq($$ select state, message from refusal($s$ select baton.publish('events', '', '{}') $s$) $$, row('22023'::text, 'an event needs an event_type'::text), 'an event type is not empty');
select row_eq($$ select state, message from refusal($s$ insert into events (event_type) values ('') $s$) $$, row('22023'::text, 'an event needs an event_type'::text), 'nor by a plain insert');
select is((select state from refusal($s$ select baton.publish_many('events', '[{"event_type": ""}]') $s$)), '22023', 'nor among many');
select row_eq($$ select state, message from refusal($s$ select baton.publish('events', 't', '{}', schema_version => -1) $s$) $$, row('22023'::text, 'schema_version cannot be negative, it is -1'::text), 'a schema version is not negative');
select is((select state from refusal($s$ insert into events (event_type, schema_version) values ('t', -1) $s$)), '22023', 'nor by a plain insert');
select is((select message from refusal(format('select baton.publish(%L, %L, %L, headers => %L)', 'events', 't', '{}', h))), 'headers must be a JSON object, not: ' || h, 'headers are an object, not ' || h)
  from unnest('{"[1, 2]","\"x\"",7,true}'::text[]) h;
select ok((select state = '22023' and hint is not null from refusal($s$ insert into events (event_type, headers) values ('t', '[]') $s$)), 'nor by a plain insert, with a hint');
select is((select count(*)::int from events), 0, 'nothing of that is in the log');
insert into events (event_type, headers) values ('t', 'null'), ('t', '{}'), ('t', null);
select is((select count(*)::int from events where headers is null), 2, 'the null of JSON means that there are no headers');

-- size: payload and headers together, by the stored setting
select is(baton.setting('outbox_max_payload_bytes'), '1048576', 'an event has up to a megabyte unless said otherwise');
select row_eq($$ select state, message, hint like '%max_payload_bytes%outbox_max_payload_bytes%' from refusal($s$ insert into texts (event_type, payload) values ('t', repeat('x', 1048577)) $s$) $$,
              row('BT006'::text, 'the event is too large: payload and headers have 1048577 bytes, 1048576 are allowed'::text, true), 'a byte more is refused, with size, limit and a way out');
select lives_ok($$ insert into texts (event_type, payload) values ('t', repeat('x', 1048576)) $$, 'a megabyte goes');
select lives_ok($$ insert into bytes (event_type, payload) values ('t', decode(repeat('00', 1048576), 'hex')) $$, 'bytes count as bytes, not as their text');
select is((select state from refusal($s$ insert into bytes (event_type, payload) values ('t', decode(repeat('00', 1048577), 'hex')) $s$)), 'BT006', 'also beyond the limit');
select is((select state from refusal($s$ insert into jsons (event_type, payload) values ('t', to_json(repeat('x', 1048575))) $s$)), 'BT006', 'json counts with its quotes');
select is((select state from refusal($s$ insert into events (event_type, payload) values ('t', to_jsonb(repeat('x', 1048576))) $s$)), 'BT006', 'jsonb too');
select is((select state from refusal($s$ select baton.publish('events', 't', to_jsonb(repeat('x', 1048576))) $s$)), 'BT006', 'and with publish()');
select is((select state from refusal($s$ select baton.publish_many('events', jsonb_build_array(jsonb_build_object('event_type', 't', 'payload', repeat('x', 1048576)))) $s$)), 'BT006', 'and among many');
select is((select state from refusal($s$ insert into texts (event_type, payload, headers) values ('t', repeat('x', 1048570), '{"a": 1}') $s$)), 'BT006', 'headers count');
select is((select state from refusal($s$ insert into events (event_type, headers) values ('t', jsonb_build_object('a', repeat('x', 1048576))) $s$)), 'BT006', 'headers alone can be too large');
select lives_ok($$ insert into events (event_type, payload) values ('t', (select jsonb_agg(1) from generate_series(1, 300000))) $$, 'what is small as text goes, however jsonb stores it');
create table elsewhere (payload text, document jsonb);
insert into elsewhere values (repeat('x', 2000000), to_jsonb(repeat('x', 2000000)));  -- compressed to some kilobytes
select is((select state from refusal($s$ insert into texts (event_type, payload) select 't', payload from elsewhere $s$)), 'BT006', 'a value that another table has compressed counts in full');
select is((select state from refusal($s$ insert into events (event_type, payload) select 't', document from elsewhere $s$)), 'BT006', 'as jsonb too');
set baton.outbox_max_payload_bytes = 100000000;
select is((select state from refusal($s$ insert into texts (event_type, payload) select 't', payload from elsewhere $s$)), 'BT006', 'a session does not lift the limit');
reset baton.outbox_max_payload_bytes;
select baton.set_setting('outbox_max_payload_bytes', '3000000');
select lives_ok($$ insert into texts (event_type, payload) select 't', payload from elsewhere $$, 'the stored setting does');
select baton.set_setting('outbox_max_payload_bytes', '70000');
select is((select count(*)::int from texts where octet_length(payload) > 70000), 2, 'what is in the log stays there');
select is((select state from refusal($s$ insert into texts (event_type, payload) values ('t', repeat('x', 70001)) $s$)), 'BT006', 'a lower limit holds at once');
truncate elsewhere;
insert into elsewhere values (repeat('x', 500000), jsonb_build_object('a', repeat('x', 500000)));
select ok(pg_column_size(payload) + pg_column_size(document) < 65536, 'a value that is small when it is compressed ...') from elsewhere;
select is((select state from refusal($s$ insert into texts (event_type, payload) select 't', payload from elsewhere $s$)), 'BT006', '... counts in full');
select is((select state from refusal($s$ insert into events (event_type, headers) select 't', document from elsewhere $s$)), 'BT006', 'in the headers too');
select baton.alter_outbox('texts', max_payload_bytes => 80000);
select lives_ok($$ insert into texts (event_type, payload) values ('t', repeat('x', 80000)) $$, 'an outbox may have a limit of its own');
select is((select message from refusal($s$ insert into texts (event_type, payload) values ('t', repeat('x', 80001)) $s$)), 'the event is too large: payload and headers have 80001 bytes, 80000 are allowed', 'which is kept');
select baton.alter_outbox('texts', reset => '{max_payload_bytes}');
select is((select state from refusal($s$ insert into texts (event_type, payload) values ('t', repeat('x', 80000)) $s$)), 'BT006', 'and can be given up');
select baton.create_outbox('small', payload_type => 'text', max_payload_bytes => 65536);
select is((select state from refusal($s$ insert into small (event_type, payload) values ('t', repeat('x', 65537)) $s$)), 'BT006', 'it can be there from the beginning');
select row_eq($$ select state, message from refusal($s$ select baton.alter_outbox('small', max_payload_bytes => 65535) $s$) $$, row('22023'::text, 'max_payload_bytes is from 65536 to 128000000, not 65535'::text), 'no limit is below 65536');
select row_eq($$ select state, message from refusal($s$ select baton.set_setting('outbox_max_payload_bytes', '65535') $s$) $$, row('22023'::text, 'setting "outbox_max_payload_bytes" takes a whole number from 65536 to 128000000, not "65535"'::text), 'nor as a setting');

-- tables that are no outboxes
create table orders (id int, payload jsonb);
create table notes (id int);
select baton.create_inbox('arrivals');
select row_eq($$ select state, message, hint like '%create_outbox%' from refusal($s$ select baton.publish('orders', 't', '{}') $s$) $$, row('42704'::text, '"public.orders" is not an outbox'::text, true), 'a table with a payload is no outbox');
select is((select state from refusal($s$ select baton.publish('notes', 't', '{}') $s$)), '42704', 'nor one without');
select ok((select state = '42704' and hint like 'it is an inbox%' from refusal($s$ select baton.publish('arrivals', 't', '{}') $s$)), 'nor an inbox');
select ok((select state = '42704' and hint like 'it is a partition%' from refusal($s$ select baton.publish('events_p1', 't', '{}') $s$)), 'nor a partition of one');
select is((select state from refusal($s$ select baton.publish_many('orders', '[{"event_type": "t"}]') $s$)), '42704', 'many events neither');
create table outbox_table (id bigint generated always as identity primary key, aggregate_type text, aggregate_id text, event_type text, payload jsonb, created_at timestamptz default now(), processed_at timestamptz);
select baton.adopt_outbox('outbox_table', mapping => '{"columns": {"id": "id", "event_type": "event_type", "payload": "payload", "processed_at": "processed_at"}}');
select ok((select state = '42704' and hint like 'it was adopted%' from refusal($s$ select baton.publish('outbox_table', 't', '{}') $s$)), 'an adopted table is inserted into');

select * from finish();
