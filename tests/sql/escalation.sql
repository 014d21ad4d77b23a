-- Nobody gets rights from baton by a name, by a table that lies where baton would put one, by a type, or by code that the server runs
-- within somebody else's statement.
select no_plan();
update baton.jobs set enabled = false;
\ir fixtures/mallory.sql
select 'viewer_' || current_database() as viewer \gset
create role :"viewer";
grant :"viewer" to current_user;
grant baton_viewer to :"viewer";
create schema shut;

-- names
set check_function_bodies = off;
select lives_ok($$ select baton.create_inbox('"a$body$;create table public.won();select $body$"') $$, 'an inbox may have any name');
select is(to_regclass('public.won'), null, 'which is not run');
select is(baton.receive('"a$body$;create table public.won();select $body$"', '1', 't', '{}'), 'new', 'and it works');
create table named ("i$body$;create table public.won();select $body$" text primary key, event_type text, payload jsonb, aggregate_id text, sequence_num bigint,
                    error text, retry_count int not null default 0, received_at timestamptz not null default now(), processed_at timestamptz);
select lives_ok($$ select baton.adopt_inbox('named', id_column => 'i$body$;create table public.won();select $body$'),
                          baton.enable_inbox_ordering('named', sequence_num_col => 'sequence_num') $$, 'so may a column');
select is(to_regclass('public.won'), null, 'which is not run either');
insert into named values ('n1', 't', '{}', 'a', 1), ('n2', 't', '{}', 'a', 2);
select lives_ok($$ update named set processed_at = now() where aggregate_id = 'a' and sequence_num = 1 $$, 'its messages are finished');
select throws_ok($$ update named set processed_at = null where sequence_num = 1; update named set processed_at = now(), sequence_num = 3 where sequence_num = 2 $$,
                 '55000', null, 'in order');
reset check_function_bodies;

-- tables that lie where baton would put one
select baton.create_outbox('sold', retention => '0', archive_for => '1 day');
create table sold_archive (note text);
create table sold_p3 (note text);
insert into sold_archive values ('somebody''s');
select baton.publish('sold', 'gone', '{}');
call baton.run_maintenance('sold');
update baton_internal.outbox_partitions set since = since - interval '3 days';
call baton.run_maintenance('sold');
update baton_internal.outbox_partitions set since = since - interval '3 hours' where state = 'left';
call baton.run_maintenance('sold');
select is((select maintenance_error from baton.outboxes where relation = 'sold'::regclass), null, 'names that are taken do not stop maintenance');
select is((select array_agg(relation::text order by first_id) from baton_internal.outbox_partitions where state in ('new', 'ahead', 'open')),
          '{sold_p2,sold_p3_2,sold_p4}', 'a partition gets another name');
select is((select array_agg(event_type) from sold_archive_2), '{gone}', 'so does the archive');
select lives_ok($$ select baton.drop_outbox('sold') $$, 'the outbox goes');
select is((select note from sold_archive), 'somebody''s', 'without what is somebody else''s');
select is(to_regclass('sold_archive_2'), null, 'with what is baton''s own');

-- a partition that has left the log and is not dropped yet
select baton.create_outbox('sold', retention => '0');
select baton.publish('sold', 'gone', '{}');
call baton.run_maintenance('sold');
update baton_internal.outbox_partitions set since = since - interval '3 days';
create function pg_temp.until_release() returns text language plpgsql as $$
declare
    step jsonb;
begin
    loop
        step := baton.maintenance_step(step, 'sold');
        exit when step is null or exists (select from baton_internal.outbox_partitions where state = 'detached');
    end loop;
    return (select relation::text from baton_internal.outbox_partitions where state = 'detached');
end $$;
select is(pg_temp.until_release(), 'sold_p1', 'a partition is out of the log');
select lives_ok($$ select baton.drop_outbox('sold') $$, 'when the outbox is dropped');
select is(to_regclass('sold_p1'), null, 'the partition goes too');
select lives_ok($$ select baton.create_outbox('sold') $$, 'and the name is free again');

-- code that the server runs as a table's owner within a statement of somebody else
set role :"mallory";
create function den.intrude() returns void language plpgsql volatile as $$
begin
    perform baton.create_inbox('mine', 'shut');
    insert into public.sightings values (current_user, 'made an inbox', true);
exception when others then
    insert into public.sightings values (current_user, sqlstate, false);
end $$;
create function den.by_statistics(x int) returns int language plpgsql immutable as $$ begin perform den.intrude(); return x; end $$;
select throws_ok($$ select baton.create_inbox('mine', 'shut') $$, '42501', null, 'who may not create in a schema makes no inbox there');
create table den.measured (x int);
create index on den.measured (den.by_statistics(x));
insert into den.measured values (1), (2);
reset role;
delete from public.sightings;
analyze den.measured;
select is((select array_agg(distinct who || ' ' || via) from public.sightings), array['mallory_' || current_database() || ' 42501'], 'not by ANALYZE of somebody who may, either');
select is((select count(*)::int from baton.inboxes where schema_name = 'shut'), 0, 'there is none');
select is(baton.create_inbox('mine', 'shut'), 'shut.mine', 'who may makes one');

\if :as_owner
-- the type of a column, changed after adoption
set role :"mallory";
create table den.box (event_id text primary key, event_type text, payload jsonb, aggregate_id text, sequence_num bigint, error text,
                      retry_count int not null default 0, received_at timestamptz not null default now(), processed_at timestamptz);
select baton.adopt_inbox('den.box'), baton.enable_inbox_ordering('den.box', sequence_num_col => 'sequence_num');
insert into den.box (event_id, event_type, aggregate_id, sequence_num) values ('1', 't', 'a', 1);
update den.box set processed_at = now();
set client_min_messages = error;
alter table den.box drop column event_id cascade;
reset client_min_messages;
create type den.disguise as (x text);
create function den.by_cast(d den.disguise) returns text language plpgsql as $$ begin perform den.grab('cast'); return 'x'; end $$;
create cast (den.disguise as text) with function den.by_cast(den.disguise) as assignment;
alter table den.box add column event_id den.disguise;
update den.box set event_id = row('1')::den.disguise, processed_at = null;
select lives_ok($$ update den.box set processed_at = now() $$, 'a message is finished again after the type of its id was changed');
reset role;
select is((select array_agg(who) from public.sightings where via = 'cast'), null, 'no cast of the table''s owner ran as anybody else');

-- the type of a source's column: nothing of its owner's runs for the sake of a change buffer, which is baton's
set role :"mallory";
create function den.by_constant(x int) returns boolean language plpgsql immutable as $$ begin return den.grab('constant'); end $$;
create function den.by_difference(one int, other int) returns float8 language plpgsql immutable as $$ begin perform den.grab('difference'); return one - other; end $$;
create domain den.checked as int check (den.by_check(value::text)) check (den.by_constant(1));
create type den.stretch as range (subtype = int, subtype_diff = den.by_difference);
create domain den.checked_stretch as den.stretch check (den.by_check(value::text));
create type den.pair as (x den.checked);
create table den.source (id int, a int, x den.checked, s den.stretch, many den.checked[], p den.pair, cs den.checked_stretch, later text);
select lives_ok($$ select baton.create_stream_table('den.first', 'select id, a from den.source', null, 'DIFFERENTIAL') $$, 'a source is followed');
insert into den.source select i, i, i, den.stretch(i, i + 1), array[i], row(i)::den.pair, den.stretch(i, i + 1), i::text from generate_series(1, 400) i;
reset role;
delete from public.sightings;
set role :"mallory";
select lives_ok(format('select baton.create_stream_table(%L, %L, null, %L)', 'den.of_' || c, 'select id, ' || c || ' from den.source', 'DIFFERENTIAL'), 'and so is its column ' || c)
  from unnest('{s,many,p,x,cs}'::text[]) c;
alter table den.source alter later type den.checked using later::int;
select lives_ok($$ select baton.create_stream_table('den.of_later', 'select id, later from den.source', null, 'DIFFERENTIAL') $$, 'and one that became a domain');
insert into den.source select i, i, i, den.stretch(i, i + 1), array[i], row(i)::den.pair, den.stretch(i, i + 1), i from generate_series(401, 800) i;
select lives_ok($$ select baton.refresh_stream_table('den.of_' || c) from unnest('{s,many,p,x,cs,later}'::text[]) c $$, 'all follow');
reset role;
select format('analyze %s', baton_internal.change_buffer('den.source')) \gexec
select lives_ok($$ select baton_internal.maintain_streams(), baton.refresh_stream_table('den.of_x') $$, 'maintenance goes on');
select is((select array_agg(distinct who || ' ' || via) from public.sightings where who <> 'mallory_' || current_database()), null, 'no code of a type ran as anybody but its owner');
select is((select count(*)::int from den.of_x), 800, 'and the rows are there');
select results_eq($$ select v.* from unnest('{s,many,p,x,cs,later}'::text[]) c cross join lateral baton.verify_stream_table('den.of_' || c) v $$,
                  $$ select 0::bigint, 0::bigint from generate_series(1, 6) $$, 'all of them');
\endif

-- functions and operators that fit better than the server's own, in a schema of the caller's search path
create schema traps;
grant all on schema traps to :"mallory";
set role :"mallory";
select format('create function traps.%s returns %s language plpgsql as $f$ begin perform den.grab(%L); return null; end $f$', t.signature, t.type, 'trap ' || t.signature)
  from (values ('format(text, text)', 'text'), ('format(text, text, text)', 'text'), ('format(text, name, text)', 'text'), ('format(text, name, name)', 'text'), ('format(text, regclass)', 'text'),
               ('format(text, regclass, text)', 'text'), ('cardinality(text[])', 'int'), ('unnest(text[])', 'text'), ('to_jsonb(text)', 'jsonb'), ('parse_ident(text)', 'text[]'),
               ('num_nonnulls(text, text, text, text)', 'int'), ('array_remove(text[], text)', 'text[]'), ('to_timestamp(int)', 'timestamptz'), ('to_timestamp(numeric)', 'timestamptz'),
               ('jsonb_build_object(text, text, text, bigint, text, bigint)', 'jsonb'), ('jsonb_build_object(text, bigint, text, bigint)', 'jsonb'),
               ('jsonb_build_object(text, text, text, text, text, text, text, text)', 'jsonb'),
               ('same(regclass, regclass)', 'boolean'), ('same_oid(oid, regclass)', 'boolean'),
               ('jsonb_build_object(text, text, text, text, text, text, text, jsonb, text, boolean)', 'jsonb'), ('jsonb_build_object(text, text, text, text, text, boolean)', 'jsonb'),
               ('jsonb_build_object(text, text, text, text, text, boolean, text, text, text, int, text, interval, text, interval, text, text)', 'jsonb'),
               ('jsonb_build_object(text, interval, text, interval, text, interval, text, bigint, text, interval, text, boolean, text, bigint)', 'jsonb'),
               ('jsonb_build_object(text, text, text, boolean, text, boolean, text, interval, text, bigint, text, interval, text, interval, text, interval, text, bigint)', 'jsonb')) t (signature, type) \gexec
create operator traps.= (leftarg = regclass, rightarg = regclass, function = traps.same);
create operator traps.= (leftarg = oid, rightarg = regclass, function = traps.same_oid);
grant usage on schema traps, den to public;
reset role;
delete from public.sightings;
create table public.trapped (id int);
set search_path = public, traps;
select lives_ok($$ select baton.create_stream_table('trapped_copy', 'select id from trapped', null) $$, 'a stream table is made');
select lives_ok($$ select baton.alter_stream_table('trapped_copy', query => 'select id, 1 as one from trapped', schedule => '1s') $$, 'changed');
select lives_ok($$ select baton.refresh_stream_table('trapped_copy'), baton.verify_stream_table('trapped_copy'), baton.repair_stream_table('trapped_copy') $$, 'refreshed, verified, repaired');
select lives_ok($$ select baton.enable_outbox('trapped_copy') $$, 'published');
select lives_ok($$ select baton.disable_outbox('trapped_copy'), baton.drop_stream_table('trapped_copy') $$, 'and dropped');
select lives_ok($$ select baton.create_outbox('trapped_events') $$, 'an outbox is made');
select lives_ok($$ select baton.alter_outbox('trapped_events', retention => '1 day') $$, 'changed');
select lives_ok($$ select baton.create_consumer_group('trapped_group', 'trapped_events') $$, 'read');
select lives_ok($$ select baton.publish('trapped_events', 't', '{}'), baton.drop_consumer_group('trapped_group') $$, 'written');
select lives_ok($$ select baton.drop_outbox('trapped_events') $$, 'and dropped');
select lives_ok($$ select baton.create_inbox('trapped_box'), baton.receive('trapped_box', '1', 't', '{}'), baton.receive('trapped_box', '2', 't', '{}', correlation_id => 'c'),
                          baton.drop_inbox('trapped_box') $$, 'so is an inbox');
create table public.trapped_mails (id int primary key, kind text, body text, sent_at timestamptz);
select lives_ok($$ select baton.adopt_outbox('trapped_mails', mapping => '{"columns": {"id": "id", "event_type": "kind", "payload": "body", "processed_at": "sent_at"}}', dry_run => dry)
                     from unnest('{t,f}'::boolean[]) dry $$, 'an outbox is adopted');
select lives_ok($$ select count(*) from baton.claim_adopted('trapped_mails', 'w') $$, 'worked');
select lives_ok($$ select baton.unadopt_outbox('trapped_mails') $$, 'and let go');
select lives_ok($$ select count(*) from baton.all_dead_letters(after => '1:x') $$, 'dead letters are listed');
select lives_ok($$ select baton.uuid_v7_time('0190a0a0-0000-7000-8000-000000000001') $$, 'and ids are read');
reset search_path;
select is((select array_agg(distinct who || ': ' || via) from public.sightings), null, 'nothing in a schema of the search path took the place of the server''s own functions');
delete from public.sightings;

-- tenants do not know of each other's groups
select 'worker_' || current_database() as worker \gset
create role :"worker";
grant :"worker" to current_user;
grant baton_consumer to :"worker";
select baton.create_outbox('shared', tenancy => true);
select baton.create_consumer_group('of_' || t, 'shared', tenant_id => t) from unnest('{a,b}'::text[]) t;
set role :"worker";
select is((select array_agg(group_name) from baton.consumer_lag() where group_name like 'of%'), null, 'who works for no tenant sees no tenant''s group');
set baton.tenant_id = 'a';
select is((select array_agg(group_name) from baton.consumer_lag() where group_name like 'of%'), '{of_a}', 'who works for one sees that one''s');
reset baton.tenant_id;
set role :"viewer";
select is((select array_agg(group_name order by group_name) from baton.group_lag where group_name like 'of%'), '{of_a,of_b}', 'who looks after all sees all');
reset role;

-- views of an adopted table show nothing that its owner does not show
create table lent (event_id text primary key, event_type text, payload jsonb, error text, retry_count int not null default 0,
                   received_at timestamptz not null default now(), processed_at timestamptz);
insert into lent values ('l1', 't', '"secret"');
select baton.adopt_inbox('lent');
set role :"viewer";
select throws_ok($$ select * from pending_lent $$, '42501', null, 'a viewer does not see the rows of an adopted table');
select throws_ok($$ select * from stats_lent $$, '42501', null, 'nor what is counted of them');
reset role;
grant select (event_id) on lent to :"viewer";
set role :"viewer";
select throws_ok($$ select event_id from pending_lent $$, '42501', null, 'nor all columns when one was granted');
reset role;
grant select on lent to :"viewer";
set role :"viewer";
select is((select event_id from pending_lent), 'l1', 'but those that its owner shows');
reset role;
alter table lent enable row level security;
set role :"viewer";
select throws_ok($$ select * from pending_lent $$, '42501', null, 'unless a policy hides some');
reset role;
select is((select event_id from pending_lent), 'l1', 'its owner sees all');
select * from finish();
