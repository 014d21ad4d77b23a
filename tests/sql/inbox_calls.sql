-- Each managed inbox has a function of its own; receive() finds its way whatever becomes of the table's name.
select no_plan();
select baton.create_inbox('payments');
select 'baton_internal.receive_' || id as own, id from baton.inboxes where name = 'payments' \gset

select is(:own('m1', 'paid', '{"n": 1}', 'bank', 'a1', '{"h": 1}', 't1', 5, 2), 'new', 'an inbox has a function of its own');
select is((select (event_type, payload, source, aggregate_id, headers, trace_id, sequence_num, priority, retry_count)::text from payments where event_id = 'm1'),
          '(paid,"{""n"": 1}",bank,a1,"{""h"": 1}",t1,5,2,0)', 'which writes what was given');
select ok((select received_at = available_at and received_at <= clock_timestamp() and arrival is not null from payments where event_id = 'm1'), 'with the defaults of receive()');
select is(:own('m1', 'paid', '{}'), 'duplicate', 'a message comes in once');
select is(baton.receive('payments', 'm1', 'paid', '{}'), 'duplicate', 'whichever way');
select is((select sum(duplicates)::int from baton_internal.inbox_duplicates), 2, 'duplicates are counted');
select is(:own('m2', null, null), 'new', 'a type may be missing');
select is((select event_type from payments where event_id = 'm2'), 'unknown', 'and is unknown then');
select throws_ok(format($$ select %s('', 'paid', '{}') $$, :'own'), '22023', null, 'an id is needed');
select throws_ok(format($$ select %s(null, 'paid', '{}') $$, :'own'), '22023', null, 'and not null');
select is(:own(repeat('x', 3000), 'paid', '{}'), 'new', 'a long id ...');
select is(baton.receive('payments', repeat('x', 3000), 'paid', '{}'), 'duplicate', '... is known again');
select throws_ok(format($$ select %s('m3', 'paid', '{}', aggregate_id => repeat('x', 3000)) $$, :'own'), '22001', null, 'other texts are not too long');
select is(:own('m4', 'paid', '{}', available_at => '2100-01-01'), 'new', 'a message may come for later');
select is((select available_at from payments where event_id = 'm4'), '2100-01-01'::timestamptz, 'which is kept');
delete from payments where event_id = 'm2';
select is(:own('m2', 'paid', '{}'), 'duplicate', 'what was deleted is remembered');
begin isolation level repeatable read;
select is(:own('m5', 'paid', '{}'), 'new', 'a snapshot that stands still goes the general way');
commit;

select baton.set_setting('inbox_enabled', 'off');
select throws_ok(format($$ select %s('x', 'paid', '{}') $$, :'own'), 'BT005', null, 'inboxes can be switched off');
select throws_ok($$ select baton.receive('payments', 'x', 'paid', '{}') $$, 'BT005', null, 'by name as well');
set baton.inbox_enabled = 'on';
select lives_ok(format($$ select %s('x1', 'paid', '{}') $$, :'own'), 'unless the session says otherwise');
reset baton.inbox_enabled;
select baton.set_setting('inbox_enabled', 'on');

prepare by_name (text, text) as select baton.receive($1, $2, 'paid', '{}'::jsonb);
execute by_name('payments', 'before');
alter table payments rename to takings;
execute by_name('payments', 'after');
select is(:own('own after', 'paid', '{}'), 'new', 'the function of a renamed table goes on');
select is(:own('own after', 'paid', '{}'), 'duplicate', 'and recognises');
create table payments (like takings including all);
select is(:own('beside', 'paid', '{}'), 'new', 'another table under the old name ...');
select is((select count(*)::int from payments), 0, '... gets nothing');
select is((select count(*)::int from takings where event_id in ('before', 'after', 'own after', 'beside')), 4, 'everything is in the renamed one');
drop table payments;
select count(*) from baton.run_inbox_maintenance();
select matches((select prosrc from pg_proc where oid = :'own'::regproc), 'insert into public\.takings', 'maintenance makes the function anew');
select is(:own('m9', 'paid', '{}'), 'new', 'which works');

-- a session that knows an inbox notices when it goes, and when another one comes
select baton.drop_inbox('payments', cascade => true);
select is(to_regproc(:'own'), null, 'dropping an inbox drops its function');
select throws_ok($$ execute by_name('payments', 'gone') $$, '42704', null, 'and its name is unknown at once');
select baton.create_inbox('payments');
execute by_name('payments', 'again');
create schema shop;
select baton.create_inbox('shop.payments');
set search_path = shop, public;
execute by_name('payments', 'in the shop');
set search_path = public;
execute by_name('payments', 'not there');
reset search_path;
select is((select string_agg(event_id, ',') from shop.payments), 'in the shop', 'the search path decides between inboxes of one name');
select is((select string_agg(event_id, ',' order by event_id) from public.payments), 'again,not there', 'each time');

-- who may
select 'consumer_' || current_database() as consumer, 'nobody_' || current_database() as nobody \gset
create role :"consumer";
create role :"nobody";
grant :"consumer", :"nobody" to current_user;
grant baton_consumer to :"consumer";
grant usage on schema baton, baton_internal to :"nobody";
select 'baton_internal.receive_' || id as own from baton.inboxes where name = 'payments' and schema_name = 'public' \gset
set role :"consumer";
select is(:own('c1', 'paid', '{}'), 'new', 'a consumer may call it');
select is(baton.receive('public.payments', 'c2', 'paid', '{}'), 'new', 'by name as well');
select throws_ok($$ insert into payments (event_id, event_type) values ('c3', 'paid') $$, '42501', null, 'but writes no table');
reset role;
set role :"nobody";
select throws_ok(format($$ select %s('x', 'paid', '{}') $$, :'own'), '42501', null, 'others may not');
reset role;

-- a search path full of traps, set by somebody who would like to be the owner
create schema trap;
grant usage on schema trap to :"consumer";
create function trap.no(text, text) returns boolean language plpgsql as $$ begin raise exception 'caught'; end $$;
create function trap.int_no(int, int) returns boolean language plpgsql as $$ begin raise exception 'caught'; end $$;
create operator trap.= (leftarg = text, rightarg = text, function = trap.no);
create operator trap.= (leftarg = int, rightarg = int, function = trap.int_no);
create operator trap.<= (leftarg = int, rightarg = int, function = trap.int_no);
create operator trap.> (leftarg = int, rightarg = int, function = trap.int_no);
create function trap.current_setting(text) returns text language plpgsql as $$ begin raise exception 'caught'; end $$;
create function trap.set_config(text, text, boolean) returns text language plpgsql as $$ begin raise exception 'caught'; end $$;
create function trap.octet_length(text) returns int language plpgsql as $$ begin raise exception 'caught'; end $$;
create function trap.to_regclass(text) returns regclass language plpgsql as $$ begin raise exception 'caught'; end $$;
create function trap.clock_timestamp() returns timestamptz language plpgsql as $$ begin raise exception 'caught'; end $$;
create table trap.payments (like public.payments including all);
set role :"consumer";
set search_path = trap, pg_catalog, public;
select :own('trapped', 'paid', '{}');
select :own('trapped', 'paid', '{}');
reset search_path;
reset role;
select is((select count(*)::int from public.payments where event_id = 'trapped'), 1, 'functions and tables of the caller''s schemas are not met');

select * from finish();
