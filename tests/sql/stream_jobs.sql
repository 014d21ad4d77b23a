-- Stream tables are refreshed by their schedules; one that fails does not keep the others, and is left alone after a while.
select no_plan();
create table source (n int);
insert into source values (1);
select baton.create_stream_table('base', 'select n from source', '1 minute'), baton.create_stream_table('above', 'select n + 1 as m from base', '1 minute'),
       baton.create_stream_table('by_hand', 'select n from source', null), baton.create_stream_table('resting', 'select n from source', '1 minute');
select baton.alter_stream_table('resting', paused => true);
create function due(names text[]) returns void language sql as $$ update baton.stream_tables set next_due = '-infinity' where relation::text = any (names) and schedule is not null $$;
create function run() returns text language plpgsql as $$
declare
    state jsonb;
    steps int := 0;
begin
    loop
        state := baton_internal.refresh_due_stream(state);
        exit when state is null;
        steps := steps + 1;
    end loop;
    return steps || ' steps';
end $$;

select is((select greatest(next_due, baton_internal.work_begins(j)) > now() from baton.jobs j where name = 'refresh stream tables'), true, 'the job rests until one is due');
select is(run(), '0 steps', 'nothing is due');
insert into source values (2);
select due('{above,base,by_hand,resting}');
select is((select baton_internal.is_due(j) from baton.jobs j where name = 'refresh stream tables'), true, 'then it is');
select is(run(), '1 steps', 'what is due is refreshed, together what belongs together');
select is((select array_agg(m order by m) from above), '{2,3}', 'those that others read first');
select is((select count(*)::int from by_hand) + (select count(*)::int from resting), 2, 'what has no schedule or is paused waits');
select ok((select bool_and(next_due - refreshed_at > interval '50 seconds') from baton.stream_table_status() where stream_table in ('public.base', 'public.above')), 'and is due again later');
select is(run(), '0 steps', 'not now');
begin;
update baton.jobs set enabled = true, next_due = '-infinity' where name = 'refresh stream tables';
select is(baton_internal.begin_due_job(), null, 'a job without work does not begin');
select due('{base}');
select is(baton_internal.run_due_job(), 'refresh stream tables', 'one with work does');
rollback;

-- while publishing is switched off the refresh of a stream table with an outbox waits, however often it is tried
select baton.create_stream_table('told', 'select n from source', '1 minute'), baton.enable_outbox('told');
select baton.set_setting('stream_max_failures', '1'), baton.set_setting('outbox_enabled', 'off');
insert into source values (9);
select due('{told}'), run(), due('{told}'), run();
select results_eq($$ select state, failed_in_a_row, last_error from baton.stream_table_status('told') $$, $$ values ('failing', 0, 'BT005: publishing is switched off') $$, 'a refresh waits and says why');
select is((select count(*)::int from told) + (select count(*)::int from outbox_told), 2, 'nothing is done by halves');
select baton.set_setting('outbox_enabled', 'on');
select due('{told}'), run();
select results_eq($$ select state, last_error from baton.stream_table_status('told') $$, $$ values ('active', null) $$, 'and comes when publishing is on again');
select is((select payload -> 'inserted' from outbox_latest_told), '[{"n": 9}]', 'with the delta');
select baton.drop_stream_table('told', cascade => true);
delete from source where n = 9;

-- failures
create table divisors (n int);
insert into divisors values (1);
select baton.create_stream_table('shaky', 'select 10 / n as q from divisors', '1 minute');
select baton.set_setting('stream_max_failures', '3');
insert into divisors values (0);
insert into source values (3);
select due('{shaky,base,above}');
update baton.stream_tables set next_due = '-infinity'::timestamptz where relation = 'shaky'::regclass;
select is(run(), '2 steps', 'a failure of one is a step as any other');
select is((select count(*)::int from base), 3, 'and the others are refreshed');
select results_eq($$ select state, failed_in_a_row, last_error from baton.stream_table_status('shaky') $$, $$ values ('failing', 1, '22012: division by zero') $$, 'it is told');
select results_eq($$ select mode, inserted, error from baton.stream_table_history('shaky', 1) $$,
                  $$ select effective_mode, null::bigint, '22012: division by zero' from baton.stream_tables where relation = 'shaky'::regclass $$, 'and kept');
select results_eq('select q from shaky', '{10}'::int[], 'the table is as before');
select throws_ok($$ select * from baton.refresh_stream_table('shaky') $$, '22012', null, 'who refreshes by hand gets the error');
select throws_ok($$ delete from shaky $$, '55000', null, 'and the table stays closed');
select due('{shaky}'), run(), due('{shaky}'), run();
select is((select state from baton.stream_table_status('shaky')), 'stopped', 'after so many failures it is left alone');
select due('{shaky}');
select is(run(), '0 steps', 'and not tried again');
delete from divisors where n = 0;
insert into divisors values (5);
select is((select inserted from baton.repair_stream_table('shaky')), 1::bigint, 'a repair lets it go on');
select is((select state from baton.stream_table_status('shaky')), 'active', 'as before');
insert into divisors values (0);
select due('{shaky}'), run(), due('{shaky}'), run(), due('{shaky}'), run();
select is((select state from baton.stream_table_status('shaky')), 'stopped', 'stopped again');
select baton.alter_stream_table('shaky', query => 'select 10 / n as q from divisors where n <> 0');
select is((select state from baton.stream_table_status('shaky')), 'active', 'another query lets it go on, too');

-- an absurd change
select baton.create_stream_table('wide', 'select n from source', '1 hour');
select baton.set_setting('stream_fuse_rows', '100');
insert into source select generate_series(1000, 1200);
select due('{wide}'), run();
select results_eq($$ select state, last_error from baton.stream_table_status('wide') $$,
                  $$ values ('stopped', '54000: the refresh would have changed 201 rows, more than stream_fuse_rows (100)') $$, 'too many rows at once stop a stream table');
select is((select count(*)::int from wide), 3, 'and nothing of it is done');
select is((select inserted from baton.refresh_stream_table('wide')), 201::bigint, 'by hand it goes on');
select is((select state from baton.stream_table_status('wide')), 'active', 'and is active again');
select baton.drop_stream_table('wide'), baton.set_setting('stream_fuse_rows', '0');

-- a query that takes too long
select baton.create_stream_table('slow', 'select n, pg_sleep(n)::text as nap from divisors where n = 30', '1 hour');
select baton.set_setting('stream_refresh_limit_seconds', '1');
insert into divisors values (30);
insert into source values (6000);
select due('{slow,base,above}');
select set_config('statement_timeout', case form when 'sql' then '3000' else '0' end, false) from baton.installation;  -- where the relay would cancel
select is(run(), '2 steps', 'a refresh that takes too long is a step as any other');
reset statement_timeout;
select results_eq($$ select state, last_error from baton.stream_table_status('slow') $$,
                  $$ values ('failing', '57014: the refresh took longer than stream_refresh_limit_seconds (1)') $$, 'it is cancelled, and says by what');
select is((select count(*)::int from base where n = 6000), 1, 'the others have had their turn');
begin;
create function awake() returns boolean language sql as $$ select pg_sleep(1.1) is not null $$;
select ok(awake(), 'what runs later is not cancelled by that limit');
rollback;
select baton.drop_stream_table('slow'), baton.set_setting('stream_refresh_limit_seconds', '300');
delete from divisors where n = 30;

-- what belongs together is refreshed to one state
create table other_source (n int);
select baton.create_stream_table('one', 'select n from source', '2 hours'), baton.create_stream_table('two', 'select o.n from source s join other_source o using (n)', '2 hours'),
       baton.create_stream_table('three', 'select n from other_source', '2 hours'), baton.create_stream_table('four', 'select n from other_source', '3 hours'),
       baton.create_stream_table('five', 'select n from one', '2 hours'), baton.create_stream_table('six', 'select n from divisors', '2 hours');
insert into other_source values (1);
insert into source values (5000);
select due('{three}');
select is(run(), '1 steps', 'one is due');
select is((select array_agg(s.relation::text order by s.stream_id) from baton.stream_tables s where s.frontier_xid = (select frontier_xid from baton.stream_tables where relation = 'three'::regclass)),
          '{one,two,three,five}', 'all of the same schedule that read the same tables or each other are refreshed with it, and no others');
select is((select count(distinct frontier::text)::int from baton.stream_tables where relation in ('one'::regclass, 'two'::regclass, 'three'::regclass, 'five'::regclass)), 1, 'from one state')
  from baton.installation where form = 'extension';
select is((select count(*)::int from five) + (select count(*)::int from three), (select count(*)::int from source) + 1, 'with what is new');
select baton.drop_stream_table(n, cascade => true) from unnest('{one,two,three,four,six}'::text[]) n;
select baton.drop_stream_table('five', if_exists => true);
drop table other_source;

-- tables that go without a word
select due('{base,above}');
drop table by_hand;
drop table above;
select lives_ok($$ select run() $$, 'a stream table that was dropped by hand is no error');
select baton_internal.maintain_streams();
select is((select count(*)::int from baton.stream_tables), 3, 'and forgotten');
select is((select count(*)::int from baton.audit_trail where action = 'forget_stream_table'), 2, 'with a note');

-- history ends
update baton_internal.stream_refreshes set begun_at = begun_at - interval '8 days';
select baton_internal.maintain_streams();
select is((select count(*)::int from baton.stream_table_history()), 0, 'what is long ago is forgotten');
select * from finish();
