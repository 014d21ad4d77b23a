begin;
select no_plan();

select is((select coalesce(string_agg(format('%s: %s', name, last_error), ', '), '') from baton.jobs
            where baton_internal.job_statement(routine) is null or not built_in), '', 'every job that comes with baton can be called');
select set_eq($$ select name from baton.jobs where every_setting is not null $$,
              '{maintain outboxes,maintain inboxes,maintain adopted outboxes}'::text[], 'maintenance is scheduled');
update baton.jobs set enabled = true, next_due = '-infinity';
do $$ begin while baton_internal.run_due_job() is not null loop null; end loop; end $$;
select is((select count(*) from baton.jobs where runs = 0 and work is null or last_error is not null), 0::bigint, 'and runs without an error');

create table public.calls (who text);
create function public.work() returns void language sql as $$ insert into public.calls values ('work') $$;
create function public.with_default(n int default 1) returns void language sql as $$ insert into public.calls values ('default') $$;
create procedure public.step() language sql as $$ insert into public.calls values ('step') $$;
create function public.broken() returns void language plpgsql as $$
begin
    insert into public.calls values ('broken');
    raise exception 'the disk is gone' using errcode = 'BT005';
end $$;
delete from baton.jobs;

set local baton.mock_now = '2001-01-01 00:00:00+00';
select is(baton_internal.run_due_job(), null, 'nothing is due when there are no jobs');
insert into baton.jobs (name, routine, every) values ('a', 'public.work', '1 minute');
select is(baton_internal.next_job_due(), '-infinity'::timestamptz, 'a new job is due at once');
select is(baton_internal.run_due_job(), 'a', 'a due job runs');
select is(baton_internal.run_due_job(), null, 'and then is not due');
select is(baton_internal.next_job_due(), '2001-01-01 00:01:00+00'::timestamptz, 'until its time comes');
set local baton.mock_now = '2001-01-01 00:01:00+00';
select is(baton_internal.run_due_job(), 'a', 'when it runs again');
select is((select array[runs, failures] from baton.jobs), '{2,0}'::bigint[], 'and its runs are counted');
select is((select count(*) from public.calls), 2::bigint, 'twice it worked');

insert into baton.jobs (name, routine, every) values ('b', 'public.broken', '1 minute'), ('c', 'public.step', '1 hour'),
                                                     ('d', 'public.with_default', '1 hour');
select is(array[baton_internal.run_due_job(), baton_internal.run_due_job(), baton_internal.run_due_job(), baton_internal.run_due_job()], '{b,c,d,null}'::text[],
          'a job that fails does not keep the others from running');
select is((select last_error from baton.jobs where name = 'b'), 'BT005: the disk is gone', 'its error is recorded');
select is((select array_agg(who order by who) from public.calls where who <> 'work'), '{default,step}'::text[],
          'what it had done is rolled back; a procedure runs too, and a function with defaults');
select is((select next_due from baton.jobs where name = 'b'), '2001-01-01 00:02:00+00'::timestamptz, 'it is tried again');
set local baton.mock_now = '2001-01-01 00:02:00+00';
update baton.jobs set enabled = name = 'b';
select is(baton_internal.run_due_job(), 'b', 'when it is due');
select is((select next_due from baton.jobs where name = 'b'), '2001-01-01 00:04:00+00'::timestamptz, 'with back-off');
select is((select array[runs, failures, failed_in_a_row] from baton.jobs where name = 'b'), '{2,2,2}'::bigint[], 'failures are counted');
create or replace function public.broken() returns void language sql as $$ select $$;
set local baton.mock_now = '2001-01-01 00:04:00+00';
select is(baton_internal.run_due_job(), 'b', 'and when it is mended');
select is((select failed_in_a_row from baton.jobs where name = 'b' and last_error is null), 0, 'all is forgotten');
select is((select next_due from baton.jobs where name = 'b'), '2001-01-01 00:05:00+00'::timestamptz, 'and the pace is the old one');

update baton.jobs set every_setting = 'outbox_drain_interval_seconds' where name = 'b';
select baton.set_setting('outbox_drain_interval_seconds', '7');
set local baton.outbox_drain_interval_seconds = '1000000';
set local baton.mock_now = '2001-01-01 00:05:00+00';
select is(baton_internal.run_due_job(), 'b', 'a job whose pace is a setting');
select is((select next_due from baton.jobs where name = 'b'), '2001-01-01 00:05:07+00'::timestamptz, 'keeps to that, as it is stored');

-- who runs jobs does not decide when they run next
update baton.jobs set next_due = '-infinity' where name = 'b';
grant baton_relay to current_user;
set local role baton_relay;
set local baton.mock_now = '2300-01-01 00:00:00+00';
select baton_internal.run_due_job() as ran \gset
reset role;
select is(:'ran'::text, 'b', 'a job that somebody runs by another clock');
select ok((select next_due <= clock_timestamp() + interval '7 seconds' from baton.jobs where name = 'b'), 'does not wait for that clock');
set local baton.mock_now = '2001-01-01 00:05:00+00';

update baton.jobs set enabled = false;
insert into baton.jobs (name, routine, every) values ('e', 'public.nothing_there', '1 minute');
select is(baton_internal.run_due_job(), 'e', 'a routine that does not exist');
select matches((select last_error from baton.jobs where name = 'e'), '^42883', 'is an error of that job');

-- a cancel
update baton.jobs set enabled = false;
create function public.dawdle() returns void language sql as $$ select pg_sleep(600) $$;
insert into baton.jobs (name, routine, every) values ('long', 'public.dawdle', '1 minute'), ('patient', 'public.work', '1 minute');
set local statement_timeout = '100ms';
select is(baton_internal.run_due_job(), 'long', 'a job that takes too long');
set local statement_timeout = 0;
select matches((select last_error from baton.jobs where name = 'long'), '^57014', 'has failed when it is cancelled');
select is((select failed_in_a_row from baton.jobs where name = 'long' and next_due > baton_internal.clock()), 1, 'is tried again later');
select is(baton_internal.run_due_job(), 'patient', 'and the others have their turn');

-- a process that ended in the midst of a run
update baton.jobs set enabled = false;
insert into baton.jobs (name, routine, every) values ('a killed one', 'public.work', '1 minute');
update baton.jobs set enabled = true, next_due = baton_internal.clock() where name = 'patient';
select is(baton_internal.begin_due_job(), 'a killed one', 'that a job begins is noted');
select is(baton_internal.begin_due_job(), 'patient', 'the next in line is another one');
select baton_internal.run_begun_job('patient');
select is((select (begun_at is null, runs > 0) from baton.jobs where name = 'patient'), (true, true), 'which runs');
update baton.jobs set begun_by = 0 where name = 'a killed one';
select lives_ok($$ select baton_internal.run_begun_job('a killed one') $$, 'who did not begin a job');
select is((select runs from baton.jobs where name = 'a killed one'), 0::bigint, 'does not run it');
select is(baton_internal.run_due_job(), null, 'a job that was cut off waits for its time');
set local baton.mock_now = '2001-01-01 00:06:00+00';
update baton.jobs set enabled = false where name = 'patient';
select is(baton_internal.begin_due_job(), 'a killed one', 'then it begins again');
select is((select (runs, failures, failed_in_a_row, left(last_error, 5)) from baton.jobs where name = 'a killed one'), (1::bigint, 1::bigint, 1, '57P01'::text), 'and the run before has failed');
select is((select next_due from baton.jobs where name = 'a killed one'), '2001-01-01 00:08:00+00'::timestamptz, 'its next time is by back-off');
update baton.jobs set enabled = false;
select baton_internal.run_begun_job('a killed one');
select is((select (runs, begun_at is null) from baton.jobs where name = 'a killed one'), (1::bigint, true), 'a job that is disabled meanwhile does not run');

-- in steps
update baton.jobs set enabled = false;
create function public.count_up(resume jsonb) returns jsonb language plpgsql as $$
begin
    insert into public.calls values ('step ' || coalesce(resume ->> 'n', '0'));
    if resume ->> 'n' = '2' and not exists (select from public.calls where who = 'mended') then
        raise exception 'stumbled';
    end if;
    return case when resume is null then '{"n": 1}'::jsonb when (resume ->> 'n')::int < 3 then jsonb_build_object('n', (resume ->> 'n')::int + 1) end;
end $$;
insert into baton.jobs (name, routine, every) values ('steps', 'public.count_up', '1 minute');
update baton.jobs set enabled = true, next_due = baton_internal.clock() where name = 'patient';
select is(array[baton_internal.run_due_job(), baton_internal.run_due_job(), baton_internal.run_due_job()], '{steps,patient,steps}'::text[],
          'between two steps others have their turn');
select is((select (resume, runs) from baton.jobs where name = 'steps'), ('{"n": 2}'::jsonb, 0::bigint), 'a run that is under way is not counted');
select is(baton_internal.run_due_job(), 'steps', 'a step that fails');
select is((select (resume, runs, failures, last_error) from baton.jobs where name = 'steps'), (null::jsonb, 1::bigint, 1::bigint, 'P0001: stumbled'::text),
          'ends the run');
insert into public.calls values ('mended');
update baton.jobs set next_due = '-infinity' where name = 'steps';
do $$ begin for i in 1..3 loop perform baton_internal.run_due_job(); end loop; end $$;
select is((select (resume, last_error) from baton.jobs where name = 'steps'), ('{"n": 3}'::jsonb, 'P0001: stumbled'::text), 'the next one begins anew');
select is(baton_internal.run_due_job(), 'steps', 'and comes to its end');
select is((select (resume, runs, failed_in_a_row, last_error) from baton.jobs where name = 'steps'), (null::jsonb, 2::bigint, 0, null::text), 'which is one run');

update baton.jobs set enabled = false;
select is(baton_internal.run_due_job(), null, 'a disabled job does not run');
select is(baton_internal.next_job_due(), null, 'and is never due');
select throws_ok($$ insert into baton.jobs (name, routine, every) values ('f', 'public.work', '0') $$, '23514', null,
                 'a job that never pauses is refused');
select ok(not has_table_privilege('baton_operator', 'baton.jobs', 'insert'), 'only the owner adds jobs: they run with the owner''s rights');

select * from finish();
rollback;
