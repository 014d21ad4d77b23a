-- Each outbox has functions of its own; publish() finds its way whatever becomes of the table's name.
select no_plan();
select baton.create_outbox('events');
select 'baton_internal.publish_' || outbox_id as own, 'baton_internal.publish_many_' || outbox_id as own_many, outbox_id from baton.outboxes where relation = 'events'::regclass \gset

select is(:own('order.placed', '{"n": 1}', aggregate_id => 'o1', headers => '{"h": 1}'), 1::bigint, 'an outbox has a function of its own, which returns the id');
select is((select (event_type, payload, aggregate_id, headers, schema_version)::text from events where id = 1), '(order.placed,"{""n"": 1}",o1,"{""h"": 1}",1)', 'and writes what was given');
select ok((select event_id is not null and occurred_at <= clock_timestamp() and available_at is null and tenant_id is null from events where id = 1), 'with the defaults of publish()');
select is(:own('once', '{}', idempotency_key => 'k1'), 2::bigint, 'a key publishes once ...');
select is(:own('once', '{}', idempotency_key => 'k1'), 2::bigint, '... and gives the first id again');
select throws_ok(format($$ select %s(null, '{}') $$, :'own'), '22004', null, 'an event has a type');
select is((select array_agg(i order by o) from :own_many('[{"event_type": "a"}, {"event_type": "b"}]') with ordinality as t (i, o)), '{4,5}'::bigint[], 'there is one for many');
begin;
set local baton.tenant_id = 't1';
select :own('t', '{}');
select is((select string_agg(tenant_id, ',') from events where event_type = 't'), 't1', 'the session''s tenant counts');
rollback;

-- switches
select baton.set_setting('outbox_enabled', 'off');
select throws_ok(format($$ select %s('x', '{}') $$, :'own'), 'BT005', null, 'publishing can be switched off');
select throws_ok($$ select baton.publish('events', 'x', '{}') $$, 'BT005', null, 'by name as well');
select throws_ok($$ select baton.publish_many('events', '[{"event_type": "x"}]') $$, 'BT005', null, 'and for many');
select throws_ok($$ insert into events (event_type) values ('x') $$, 'BT005', 'publishing is switched off', 'a plain insert is refused as well');
prepare plain as insert into events (event_type, payload) select 'plain', '{}' from generate_series(1, 2);
select throws_ok('execute plain', 'BT005', null, 'of many rows, too');
select throws_ok($$ insert into events (event_type, idempotency_key) values ('x', 'k1') $$, 'BT005', null, 'also of an event that was published before');
set baton.outbox_enabled = 'on';
select lives_ok('execute plain', 'unless the session says otherwise');
select lives_ok(format($$ select %s('x', '{}') $$, :'own'), 'unless the session says otherwise');
select lives_ok($$ select baton.publish('events', 'x', '{}') $$, 'by name as well');
reset baton.outbox_enabled;
delete from baton.settings where name = 'outbox_enabled';
select lives_ok(format($$ select %s('x', '{}') $$, :'own'), 'a setting that is forgotten is on again');
select lives_ok('execute plain', 'for plain inserts, too');
set baton.outbox_enabled = 'off';
select throws_ok(format($$ select %s('x', '{}') $$, :'own'), 'BT005', null, 'a session can switch it off for itself');
select throws_ok($$ select baton.publish('events', 'x', '{}') $$, 'BT005', null, 'by name as well');
select throws_ok('execute plain', 'BT005', null, 'and plain inserts');
reset baton.outbox_enabled;
begin;
select baton.set_setting('outbox_enabled', 'off');
select throws_ok('execute plain', 'BT005', null, 'who turns the switch is the first to be refused');
rollback;
select lives_ok('execute plain', 'a switch that is rolled back lets plain inserts through');
select lives_ok($$ select baton.publish('events', 'x', '{}') $$, 'a switch that is rolled back was never turned');

-- renamed: everything goes on at once, and quickly after maintenance
prepare by_name (text, text) as select baton.publish($1, $2, '{"n": 1}'::jsonb);
execute by_name('events', 'before');
alter table events rename to occurrences;
execute by_name('occurrences', 'after');
select lives_ok(format($$ select %s('own after', '{}') $$, :'own'), 'the function of a renamed outbox goes on');
select lives_ok($$ select baton.publish_many('occurrences', '[{"event_type": "many after"}]') $$, 'so does publishing many');
select is((select count(*)::int from occurrences where event_type in ('before', 'after', 'own after', 'many after')), 4, 'into the renamed table');
select throws_ok($$ select baton.publish('events', 'x', '{}') $$, '42P01', null, 'the old name is none any more');
select baton.create_outbox('events', payload_type => 'text');
execute by_name('events', 'in the new one');
execute by_name('occurrences', 'in the old one');
select lives_ok(format($$ select %s('own in the old one', '{}') $$, :'own'), 'another outbox under the old name ...');
select is((select string_agg(event_type, ',' order by id) from events), 'in the new one', '... gets what is published under that name');
select is((select count(*)::int from occurrences where event_type in ('in the old one', 'own in the old one')), 2, 'and nothing else');
create table plain_events (like occurrences including all);
alter table events rename to others;
alter table plain_events rename to events;
select throws_ok($$ select baton.publish('events', 'x', '{}') $$, '42704', null, 'a table that looks like an outbox is none');
drop table events;
create schema shop;
alter table occurrences set schema shop;
execute by_name('shop.occurrences', 'moved');
alter schema shop rename to store;
execute by_name('store.occurrences', 'moved again');
select is((select string_agg(event_type, ',' order by id) from store.occurrences where event_type like 'moved%'), 'moved,moved again', 'a table that is moved to another schema keeps working');
select baton.alter_outbox('store.occurrences', retention => '1 hour');
select matches((select prosrc from pg_proc where oid = :'own'::regproc), 'insert into store\.occurrences', 'altering the outbox makes its functions anew');
alter table store.occurrences rename to "Odd ""name""";
call baton.run_maintenance();
select matches((select prosrc from pg_proc where oid = :'own'::regproc), 'insert into store\."Odd ""name"""', 'so does maintenance');
select lives_ok(format($$ select %s('odd', '{}') $$, :'own'), 'whatever the name is');
select isnt(baton.publish('store."Odd ""name"""', 'odd', '{}'), null, 'by name as well');

-- who may
select 'producer_' || current_database() as producer, 'nobody_' || current_database() as nobody \gset
create role :"producer";
create role :"nobody";
grant :"producer", :"nobody" to current_user;
grant baton_producer to :"producer";
select baton.create_outbox('public.orders');
select 'baton_internal.publish_' || outbox_id as own, 'baton_internal.publish_many_' || outbox_id as own_many from baton.outboxes where relation = 'orders'::regclass \gset
set role :"producer";
select lives_ok(format($$ select %s('x', '{}') $$, :'own'), 'a producer may call it');
select lives_ok(format($$ select %s('[{"event_type": "x"}]') $$, :'own_many'), 'and that for many');
select lives_ok($$ select baton.publish('orders', 'x', '{}'), baton.publish_many('orders', '[{"event_type": "x"}]') $$, 'by name as well');
select throws_ok($$ select payload from orders $$, '42501', null, 'but reads no events');
select throws_ok($$ select * from baton.outboxes $$, '42501', null, 'nor the catalog');
reset role;
set role :"nobody";
select throws_ok(format($$ select %s('x', '{}') $$, :'own'), '42501', null, 'others may not');
select throws_ok($$ select baton.publish('orders', 'x', '{}') $$, '42501', null, 'by name neither');
reset role;
revoke insert on orders from baton_producer;
set role :"producer";
select throws_ok(format($$ select %s('x', '{}') $$, :'own'), '42501', null, 'the function gives no right on the table');
select throws_ok($$ select baton.publish('orders', 'x', '{}') $$, '42501', null, 'nor does publish()');
reset role;

-- a search path full of traps changes nothing
create schema trap;
create function trap.no(text, text) returns boolean language plpgsql as $$ begin raise exception 'caught'; end $$;
create operator trap.= (leftarg = text, rightarg = text, function = trap.no);
create operator trap.<> (leftarg = text, rightarg = text, function = trap.no);
create function trap.current_setting(text, boolean) returns text language plpgsql as $$ begin raise exception 'caught'; end $$;
create function trap.clock_timestamp() returns timestamptz language plpgsql as $$ begin raise exception 'caught'; end $$;
create function trap.gen_random_uuid() returns uuid language plpgsql as $$ begin raise exception 'caught'; end $$;
create function trap.to_regclass(text) returns regclass language plpgsql as $$ begin raise exception 'caught'; end $$;
create function trap.jsonb_array_elements(jsonb) returns setof jsonb language plpgsql as $$ begin raise exception 'caught'; end $$;
create table trap.orders (like public.orders including all);
set search_path = trap, pg_catalog, public;
select :own('trapped', '{}'), baton.publish('public.orders', 'trapped', '{}');
select * from :own_many('[{"event_type": "trapped"}]');
select * from baton.publish_many('public.orders', '[{"event_type": "trapped"}]');
reset search_path;
select is((select count(*)::int from public.orders where event_type = 'trapped'), 4, 'functions and tables of the caller''s schemas are not met');

-- an event that a trigger of the owner's leaves out has no id, as with an insert
select baton.create_outbox('filtered');
select 'baton_internal.publish_' || outbox_id as filtered from baton.outboxes where relation = 'filtered'::regclass \gset
create function leave_out() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger a_filter before insert on filtered for each row execute function leave_out();
select is(baton.publish('filtered', 'x', '{}'), null, 'an event that a trigger leaves out has no id');
select is(:filtered('x', '{}'), null, 'nor by the outbox''s function');
select is((select count(*)::int from baton.publish_many('filtered', '[{"event_type": "x"}, {"event_type": "y"}]')), 0, 'nor have many');

-- and away
select baton.drop_outbox('orders');
select is(to_regproc(:'own'), null, 'dropping an outbox drops its functions');
select is(to_regproc(:'own_many'), null, 'both');
select throws_ok($$ select baton.publish('orders', 'x', '{}') $$, '42P01', null, 'and nobody publishes');
create table noise (n int);
select throws_ok($$ select baton.publish('noise', 'x', '{}') $$, '42704', null, 'another table is no outbox');

select * from finish();
