-- Each role can do its job and nothing else; one tenant cannot see, publish as, or acknowledge another's events.
select no_plan();
select baton.create_outbox('events');
create table if not exists public.nothing (n int);
do $$
declare
    r text;
begin
    foreach r in array array['producer', 'consumer', 'relay', 'operator', 'viewer'] loop
        execute format('create role %I', 'test_' || r || '_' || current_database());
        execute format('grant %I to %I', 'baton_' || r, 'test_' || r || '_' || current_database());
        execute format('grant %I to current_user', 'test_' || r || '_' || current_database());
        execute format('grant usage on schema public to %I', 'test_' || r || '_' || current_database());
    end loop;
end
$$;
grant execute on all functions in schema public to public;
create function become(r text) returns void language sql as $$ select set_config('role', case when r = 'none' then 'none' else 'test_' || r || '_' || current_database() end, false) $$;
grant execute on function become(text) to public;

-- nobody
select is((select count(*)::int from pg_proc p where p.pronamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and has_function_privilege('public', p.oid, 'execute')), 0,
          'no function is open to everybody');
select is((select count(*)::int from pg_class c where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and c.relkind in ('r', 'v', 'p') and has_table_privilege('public', c.oid, 'select')), 0,
          'and no table');
select is((select count(*)::int from pg_proc p where p.pronamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and p.prosecdef
              and not coalesce(p.proconfig::text like '%search_path=pg_catalog, pg_temp%', false)), 0,
          'whatever runs with the owner''s rights has a pinned search path');

select is(array(select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'baton'::regnamespace
                    and not exists (select from aclexplode(p.proacl) a where a.grantee::regrole::text like 'baton\_%' escape '\') order by 1),
          '{}', 'what a person sees in schema baton is there for some role');

-- producer
select become('producer');
select is(baton.publish('public.events', 'e', '{}', partition_key => 'k'), 1::bigint, 'a producer publishes');
select lives_ok($$ insert into public.events (event_type) values ('e') $$, 'by plain insert too');
select throws_ok($$ insert into public.events (xid, event_type) values ('5', 'e') $$, '42501', null, 'but never chooses the transaction id');
select throws_ok($$ select payload from public.events $$, '42501', null, 'does not read events');
select throws_ok($$ update public.events set payload = '{}' $$, '42501', null, 'or change them');
select throws_ok($$ delete from public.events $$, '42501', null, 'or delete them');
select throws_ok($$ select * from baton.poll_outbox('g', 'c') $$, '42501', null, 'does not consume');
select throws_ok($$ select baton.create_outbox('mine') $$, '42501', null, 'makes no outbox');
select throws_ok($$ select * from baton.dead_letters $$, '42501', null, 'sees no dead letters');
select become('none');

-- consumer
select become('consumer');
select isnt(baton.create_consumer_group('g', 'public.events', 'earliest'), null, 'a consumer makes its group');
select is((select count(*)::int from baton.poll_outbox('g', 'c')), 2, 'polls');
select is((select count(*)::int from baton.fail_events('g', 'c', '{1}', 'boom', true)), 1, 'fails');
select is(baton.commit_offset('g', 'c', 2), true, 'and commits');
select lives_ok($$ select * from baton.consumer_lag('g') $$, 'sees its lag');
select throws_ok($$ select baton.publish('public.events', 'e', '{}') $$, '42501', null, 'does not publish');
select throws_ok($$ select * from public.events $$, '42501', null, 'does not read the table');
select throws_ok($$ select * from baton_internal.pieces $$, '42501', null, 'nor baton''s own');
select throws_ok($$ update baton_internal.group_positions set after_id = 0 $$, '42501', null, 'nor writes them');
select throws_ok($$ select baton.replay_dead_letters('{1}') $$, '42501', null, 'and is no operator');
select throws_ok($$ select baton.drop_consumer_group('g') $$, '42501', null, 'not even of its group');
select become('none');

-- viewer
select become('viewer');
select lives_ok($$ select * from baton.outbox_status() $$, 'a viewer looks at outboxes');
select lives_ok($$ select * from baton.group_lag $$, 'at lag');
select is((select count(*)::int from baton.dead_letters), 1, 'at dead letters');
select throws_ok($$ select * from baton_internal.parked $$, '42501', null, 'not at every tenant''s in the table behind');
select throws_ok($$ select * from baton.audit_trail $$, '42501', null, 'nor at what was discarded of others');
select throws_ok($$ select * from baton.poll_outbox('g', 'v') $$, '42501', null, 'but takes nothing');
select throws_ok($$ select baton.discard_dead_letters(array(select id from baton.dead_letters), 'no') $$, '42501', null, 'and does nothing');
select throws_ok($$ select baton.set_setting('outbox_enabled', 'off') $$, '42501', null, 'nor switches anything');
select become('none');

-- operator
select become('operator');
select is(baton.replay_dead_letters(array(select id from baton.dead_letters)), 1, 'an operator replays');
select lives_ok($$ select baton.seek_offset('g', 'c', 0) $$, 'seeks');
select lives_ok($$ select baton.maintenance_step(baton.maintenance_step()) $$, 'maintains');
select lives_ok($$ select baton.set_setting('outbox_retention_hours', '24') $$, 'sets');
select throws_ok($$ insert into public.events (event_type) values ('forged') $$, '42501', null, 'but does not write events behind the producers'' back');
select become('none');
select is((select actor from baton.audit_trail where action = 'seek_offset'), 'test_operator_' || current_database(), 'the trail names the role that acted');

-- relay
select become('relay');
select lives_ok($$ select * from public.events $$, 'a relay reads the log');
select is((select count(*)::int > 0 from baton.poll_outbox('g', 'r')), true, 'polls');
select throws_ok($$ insert into public.events (event_type) values ('forged') $$, '42501', null, 'and does not publish');
select throws_ok($$ select baton.drop_outbox('public.events') $$, '42501', null, 'nor drops');
select become('none');

-- tenants
select baton.create_outbox('shared', tenancy => true);
select become('producer');
set baton.tenant_id = 'a';
select lives_ok($$ insert into public.shared (event_type, partition_key) values ('of a', 'k') $$, 'a tenant publishes as itself');
select lives_ok($$ select baton.publish('public.shared', 'of a too', '{}') $$, 'by function too');
select throws_ok($$ insert into public.shared (event_type, tenant_id) values ('forged', 'b') $$, '42501', 'the event is of tenant "b", the session of tenant "a"', 'not as another');
select throws_ok($$ select baton.publish('public.shared', 'forged', '{}', tenant_id => 'b') $$, '42501', null, 'nor by function');
set baton.tenant_id = '';
select throws_ok($$ insert into public.shared (event_type) values ('of nobody') $$, '42501', 'an event of this outbox needs a tenant', 'nor as nobody');
select throws_ok($$ select baton.publish('public.shared', 'of a', '{}', tenant_id => 'a') $$, '42501', 'the event is of tenant "a", the session has none', 'nor for one that the session does not name');
do $$
declare
    hint text;
begin
    perform baton.publish('public.shared', 'of nobody', '{}');
exception when insufficient_privilege then
    get stacked diagnostics hint = pg_exception_hint;
    perform set_config('test.hint', hint, false);
end $$;
select is(current_setting('test.hint', true), 'name the tenant in your transaction: select set_config(''baton.tenant_id'', ''...'', true)', 'and is told what to do');
set baton.tenant_id = 'b';
select lives_ok($$ insert into public.shared (event_type, partition_key) values ('of b', 'k') $$, 'b publishes too');
select is((select count(id)::int from public.shared), 1, 'and sees no ids but its own');
select become('none');
set baton.tenant_id = '';
select throws_ok($$ insert into shared (event_type) values ('of nobody') $$, '42501', 'an event of this outbox needs a tenant', 'nobody publishes without a tenant');
begin;
select lives_ok($$ insert into shared (event_type, tenant_id) values ('of c', 'c') $$, 'whom row-level security does not bind may publish for any');
rollback;

select become('consumer');
set baton.tenant_id = 'a';
select isnt(baton.create_consumer_group('group_a', 'public.shared', 'earliest'), null, 'a tenant''s group');
select throws_ok($$ select baton.create_consumer_group('group_x', 'public.shared', 'earliest', tenant_id => 'b') $$, '42501', null, 'is for itself');
select is((select array_agg(event_type order by id) from baton.poll_outbox('group_a', 'c')), '{of a,of a too}', 'and gets its own events');
set baton.tenant_id = 'b';
select throws_ok($$ select * from baton.poll_outbox('group_a', 'c') $$, '42501', null, 'another tenant cannot poll it');
select throws_ok($$ select baton.commit_offset('group_a', 'c', 2) $$, '42501', null, 'nor acknowledge in it');
select throws_ok($$ select * from baton.fail_events('group_a', 'c', '{1}', 'x') $$, '42501', null, 'nor fail');
select throws_ok($$ select baton.seek_offset('group_a', 'c', 0) $$, '42501', null, 'nor seek');
select throws_ok($$ select * from baton.consumer_lag('group_a') $$, '42501', null, 'nor look');
set baton.tenant_id = '';
select throws_ok($$ select * from baton.poll_outbox('group_a', 'c') $$, '42501', null, 'nor can somebody without a tenant');
set baton.tenant_id = 'a';
select is(baton.commit_offset('group_a', 'c', 2), true, 'the tenant itself can');
select become('none');
set baton.tenant_id = '';
select become('relay');
select is((select count(*)::int from public.shared), 3, 'the relay sees all tenants');
select isnt(baton.create_consumer_group('group_all', 'public.shared', 'earliest'), null, 'and may read them in one group');
select is((select count(*)::int from baton.poll_outbox('group_all', 'r')), 3, 'which it does');
select become('none');
select become('consumer');
select throws_ok($$ select * from baton.poll_outbox('group_all', 'c') $$, '42501', 'the group is of all tenants', 'a consumer may not');
set baton.tenant_id = 'a';
select throws_ok($$ select * from baton.poll_outbox('group_all', 'c') $$, '42501', 'the group is of all tenants', 'nor may one of a tenant');
select become('none');
set baton.tenant_id = '';

do $$
declare
    r text;
begin
    foreach r in array array['producer', 'consumer', 'relay', 'operator', 'viewer'] loop
        execute format('drop owned by %I', 'test_' || r || '_' || current_database());
        execute format('drop role %I', 'test_' || r || '_' || current_database());
    end loop;
end
$$;
select * from finish();
