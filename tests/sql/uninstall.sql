-- When baton goes, what it made goes too, and every other table works as it did before.
select no_plan();
create schema shop;
set search_path = shop, public;

-- tables that are there before
create table shop.orders_in (msg text primary key, kind text, at timestamptz default now(), done timestamptz, tries int not null default 0, problem text,
                             aggregate_id text, sequence_num bigint, priority int);
create table shop.parcels_in (msg text primary key, kind text, at timestamptz default now(), done timestamptz, tries int not null default 0, problem text, priority int);
create table shop.letters (id bigint generated always as identity primary key, event_type text not null default 't', payload jsonb);
create function pg_temp.everything() returns setof text language sql as $$
    select format('%s %s %s', c.relkind, c.oid::regclass, (select count(*) from pg_trigger t where t.tgrelid = c.oid)) from pg_class c
     where c.relnamespace in ('shop'::regnamespace, 'public'::regnamespace) and c.oid not in (select objid from pg_depend where deptype = 'e') order by 1 $$;
-- The server's worker looks at baton's tables meanwhile: who meets it in a circle tries again.
create procedure pg_temp.persist(statement text) language plpgsql as $$
begin
    loop
        begin
            execute statement;
            return;
        exception when deadlock_detected then null;
        end;
    end loop;
end $$;
create temp table before as select * from pg_temp.everything() e;

-- everything that baton makes
select baton.create_outbox('sales', archive_for => '1 day');
select baton.create_outbox('tenants', tenancy => true);
select baton.publish('sales', 'e', '{}');
select baton_internal.ensure_archive(o) from baton.outboxes o where o.relation = 'shop.sales'::regclass;
select baton.create_consumer_group('g', 'sales', 'earliest');
select baton.create_inbox('payments');
select baton.create_inbox('ordered'), baton.create_inbox('numbered'), baton.create_inbox('tiered'), baton.create_inbox('rooms', tenancy => true);
select baton.enable_inbox_ordering('ordered'), baton.enable_inbox_ordering('numbered', sequence_num_col => 'sequence_num'), baton.enable_inbox_priority('tiered');
select baton.receive('payments', 'p1', 't', '{}');
select baton.adopt_inbox('orders_in', null, 'msg', 'done', 'tries', 'problem', 'at', 'kind');
select baton.enable_inbox_ordering('orders_in', 'aggregate_id', 'sequence_num');
select baton.receive('orders_in', 'o1', 't', '{}', aggregate_id => 'a', sequence_num => 1);
select baton.adopt_inbox('parcels_in', null, 'msg', 'done', 'tries', 'problem', 'at', 'kind');
select baton.enable_inbox_priority('parcels_in');
select baton.create_stream_table('lettercount', 'select count(*) as n from letters'), baton.create_stream_table('above', 'select n from lettercount', null);
select baton.enable_outbox('lettercount'), baton.enable_outbox('above', format => 'rows');
select baton.capture_table('letters');

select form = 'extension' as is_extension from baton.installation \gset
select 'test_operator_' || current_database() as operator \gset
create role :"operator";
grant baton_operator to :"operator";
grant usage on schema public to :"operator";
grant :"operator" to current_user;
set role :"operator";
select throws_ok('select baton.uninstall(cascade => true)', '42501', null, 'an operator does not take baton out');
reset role;
drop owned by :"operator";
drop role :"operator";
select throws_ok('select baton.uninstall()', '2BP01', null, 'uninstalling drops nobody''s events by accident');
\if :is_extension
select throws_ok($$ call pg_temp.persist('drop extension baton') $$, '2BP01', null, 'nor does dropping the extension');
select lives_ok($$ call pg_temp.persist('drop extension baton cascade') $$, 'with cascade the extension goes');
\else
select is(baton.uninstall(cascade => true), 'drop schema baton, baton_internal cascade', 'with cascade it goes, and says how the rest does');
select lives_ok('drop schema baton, baton_internal cascade', 'as it says');
\endif
select results_eq('select * from pg_temp.everything()', 'select * from before', 'what is left is what was there before');
select is((select count(*)::int from shop.orders_in), 1, 'with its rows');
select lives_ok($$ insert into shop.orders_in (msg, aggregate_id, sequence_num) values ('o9', 'a', 9) $$, 'an adopted table takes rows');
select lives_ok($$ update shop.orders_in set done = now() $$, 'changes them in any order');
select lives_ok($$ delete from shop.orders_in $$, 'and loses them');
select lives_ok($$ insert into shop.parcels_in (msg) values ('p') $$, 'so does every other');
select lives_ok($$ insert into shop.letters default values $$, 'and one that was captured');
select is((select count(*)::int from pg_proc where proname ~ '^baton_capture'), 0, 'no function is left');
\if :is_extension
select lives_ok('create extension baton', 'it can come back');
select lives_ok($$ select baton.create_inbox('payments') $$, 'under the old names');
select is((select count(*)::int from payments), 0, 'without what was there');
select baton.capture_table('letters');
select is(baton.uninstall(cascade => true), 'drop extension baton', 'the function says what is next here, too');
select lives_ok($$ call pg_temp.persist('drop extension baton') $$, 'which needs no cascade then');
select lives_ok($$ insert into shop.letters default values $$, 'and the table that was captured is a table');
\endif
select * from finish();
