begin;
select no_plan();

select is((select coalesce(string_agg(format('%s: %s', name, last_error), ', '), '') from baton.jobs
            where baton_internal.job_statement(routine) is null or not built_in), '', 'every job that comes with baton can be called');
select set_eq($$ select name from baton.jobs where every_setting is not null $$,
              '{maintain outboxes,maintain inboxes,maintain adopted outboxes}'::text[], 'maintenance is scheduled');
update baton.jobs set next_due = '-infinity';
do $$ begin while baton_internal.run_due_job() is not null loop null; end loop; end $$;
select is((select count(*) from baton.jobs where runs = 0 or last_error is not null), 0::bigint, 'and runs without an error');

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

set local baton.mock_now = '2026-01-01 00:00:00+00';
select is(baton_internal.run_due_job(), null, 'nothing is due when there are no jobs');
insert into baton.jobs (name, routine, every) values ('a', 'public.work', '1 minute');
select is(baton_internal.next_job_due(), '-infinity'::timestamptz, 'a new job is due at once');
select is(baton_internal.run_due_job(), 'a', 'a due job runs');
select is(baton_internal.run_due_job(), null, 'and then is not due');
select is(baton_internal.next_job_due(), '2026-01-01 00:01:00+00'::timestamptz, 'until its time comes');
set local baton.mock_now = '2026-01-01 00:01:00+00';
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
select is((select next_due from baton.jobs where name = 'b'), '2026-01-01 00:02:00+00'::timestamptz, 'it is tried again');
set local baton.mock_now = '2026-01-01 00:02:00+00';
update baton.jobs set enabled = name = 'b';
select is(baton_internal.run_due_job(), 'b', 'when it is due');
select is((select next_due from baton.jobs where name = 'b'), '2026-01-01 00:04:00+00'::timestamptz, 'with back-off');
select is((select array[runs, failures, failed_in_a_row] from baton.jobs where name = 'b'), '{2,2,2}'::bigint[], 'failures are counted');
create or replace function public.broken() returns void language sql as $$ select $$;
set local baton.mock_now = '2026-01-01 00:04:00+00';
select is(baton_internal.run_due_job(), 'b', 'and when it is mended');
select is((select failed_in_a_row from baton.jobs where name = 'b' and last_error is null), 0, 'all is forgotten');
select is((select next_due from baton.jobs where name = 'b'), '2026-01-01 00:05:00+00'::timestamptz, 'and the pace is the old one');

update baton.jobs set every_setting = 'outbox_drain_interval_seconds' where name = 'b';
set local baton.outbox_drain_interval_seconds = '7';
set local baton.mock_now = '2026-01-01 00:05:00+00';
select is(baton_internal.run_due_job(), 'b', 'a job whose pace is a setting');
select is((select next_due from baton.jobs where name = 'b'), '2026-01-01 00:05:07+00'::timestamptz, 'keeps to that');

update baton.jobs set enabled = false;
insert into baton.jobs (name, routine, every) values ('e', 'public.nothing_there', '1 minute');
select is(baton_internal.run_due_job(), 'e', 'a routine that does not exist');
select matches((select last_error from baton.jobs where name = 'e'), '^42883', 'is an error of that job');
update baton.jobs set enabled = false;
select is(baton_internal.run_due_job(), null, 'a disabled job does not run');
select is(baton_internal.next_job_due(), null, 'and is never due');
select throws_ok($$ insert into baton.jobs (name, routine, every) values ('f', 'public.work', '0') $$, '23514', null,
                 'a job that never pauses is refused');
select ok(not has_table_privilege('baton_operator', 'baton.jobs', 'insert'), 'only the owner adds jobs: they run with the owner''s rights');

select * from finish();
rollback;
