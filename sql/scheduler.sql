-- The scheduler: a table of jobs, and routines that run what is due. The extension's worker runs them; without it the
-- baton daemon that holds the leader lease calls baton.run_due_jobs().
--
-- A topic registers its maintenance where it is defined:
--   insert into baton.jobs (name, routine, every) values ('drop old partitions', 'baton.drop_old_partitions', '1 minute');
-- A routine is a function, or a procedure that does not commit, callable without arguments. It runs as baton's owner, in a
-- transaction of its own. The worker is restricted: no temporary tables, no set role.
-- Long work is done in steps, a transaction each: a function from jsonb to jsonb gets null at first and then what it returned last,
-- until it returns null. Other jobs have their turn in between.

create table baton.jobs (
    name            text        primary key,
    routine         text        not null,  -- text, because pg_upgrade refuses columns of type regproc
    every           interval    not null check (every > interval '0' and every <= interval '100 years'),
    every_setting   text        references baton.setting_defaults,  -- a setting in seconds that replaces `every`
    enabled         boolean     not null default true,
    next_due        timestamptz not null default '-infinity',
    last_run        timestamptz,
    last_success    timestamptz,           -- when it last ended well
    last_duration   interval,
    last_error      text,
    runs            bigint      not null default 0,
    failures        bigint      not null default 0,
    failed_in_a_row int         not null default 0,
    work            text,                  -- a view with a column `due`: the job rests until the first of its moments has come
    built_in        boolean     not null default false,  -- comes with baton: a dump leaves it out
    resume          jsonb,                               -- where the next step of a run goes on, null when none is under way
    begun_at        timestamptz,                         -- since when a run or a step of it is under way, or was when its process ended
    begun_by        int                                  -- the process that runs it
);
comment on table baton.jobs is 'the jobs of the scheduler: what to run, when, and the results';

-- Return the time. Tests set the parameter baton.mock_now; as anybody can do that, no time is later than the real one: a job would wait for it.
create function baton_internal.clock()
returns timestamptz
language sql volatile
as $$ select least(nullif(pg_catalog.current_setting('baton.mock_now', true), '')::timestamptz, clock_timestamp()) $$;
comment on function baton_internal.clock() is 'the scheduler''s clock: the time, or baton.mock_now when it is earlier';

-- Write the statement that runs a routine, or the next step of it from $1.
create function baton_internal.job_statement(routine text)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    parts constant text[] := parse_ident(routine);
    call text;
begin
    select case when p.prokind = 'p' then 'call %I.%I()'
                when p.prorettype = 'jsonb'::regtype and p.proargtypes = array['jsonb'::regtype]::oidvector then 'select %I.%I($1)'
                else 'select %I.%I()' end into call
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname = parts[1] and p.proname = parts[2]
       and (p.pronargs = p.pronargdefaults
            or p.prokind = 'f' and p.prorettype = 'jsonb'::regtype and p.proargtypes = array['jsonb'::regtype]::oidvector);
    if not found or cardinality(parts) <> 2 then
        raise exception 'routine % cannot be called without arguments, or does not exist', routine
            using errcode = 'undefined_function', hint = 'name it with its schema, as in public.tidy_up';
    end if;
    return format(call, parts[1], parts[2]);
end
$$;
comment on function baton_internal.job_statement(text) is 'select or call of a job''s routine';

-- Run a job's routine, or the next step of it; says where to go on, or what went wrong. A cancel is an error of the job, too.
create function baton_internal.attempt_job(job baton.jobs, out resume jsonb, out problem text)
language plpgsql
as $$
declare
    statement text;
begin
    statement := baton_internal.job_statement(job.routine);
    if statement like '%($1)' then
        execute statement into resume using job.resume;
    else
        execute statement;
    end if;
exception when others or query_canceled or assert_failure then
    resume := null;
    problem := sqlstate || ': ' || sqlerrm;
end
$$;
comment on function baton_internal.attempt_job(baton.jobs) is 'runs a job''s routine; an error is returned, not raised';

-- When there is work for a job: at once, unless a view of its work says later.
create function baton_internal.work_begins(job baton.jobs)
returns timestamptz
language plpgsql stable
as $$
declare
    begins timestamptz := '-infinity';
begin
    if job.work is not null and job.resume is null then
        execute format('select coalesce(min(due), ''infinity'') from %s', job.work::regclass) into begins;
    end if;
    return begins;
end
$$;
comment on function baton_internal.work_begins(baton.jobs) is 'when a job has something to do';

-- Whether a job is due. One that ran or began in the future did so by a clock that has been set back since: so was its next time.
create function baton_internal.is_due(job baton.jobs)
returns boolean
language sql volatile
as $$
    select (job.next_due <= baton_internal.clock() or greatest(job.last_run, job.begun_at) > clock_timestamp() and job.next_due < 'infinity')
       and (job.work is null or baton_internal.work_begins(job) <= baton_internal.clock())
$$;
comment on function baton_internal.is_due(baton.jobs) is 'true when a job is to run now';

-- How long a job pauses after a run, with back-off after so many failures in a row.
create function baton_internal.job_pause(job baton.jobs, failed_in_a_row int)
returns interval
language sql stable
as $$
    select case when failed_in_a_row = 0 then p.pause else least(p.pause * (2 ^ least(failed_in_a_row - 1, 20)), greatest(p.pause, interval '10 minutes')) end
      from (select case when job.every_setting is null then job.every
                        else make_interval(secs => greatest(baton.setting(job.every_setting)::int, 1)) end as pause) p
$$;
comment on function baton_internal.job_pause(baton.jobs, int) is 'how long a job pauses';

-- Choose the job that has been due for longest, unless somebody else runs it, and note that a run of it begins; return its name, or null when
-- nothing is due. Committed before the run, so that a job that takes its process down is known to have done so: its next time has come by
-- back-off then, and the other jobs have had their turn. Who runs a job holds its row, so one that has begun and can be locked was cut off.
create function baton_internal.begin_due_job()
returns text
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    job baton.jobs;
    shortest constant interval := '2 seconds';  -- for whoever has noted the beginning, to lock the row again
begin
    select j.* into job from baton.jobs j
     where j.enabled and baton_internal.is_due(j)
     order by j.next_due, j.name limit 1
       for update skip locked;
    if not found then
        return null;
    end if;
    perform set_config('synchronous_commit', 'local', true);  -- what ends the process may end the server
    if job.begun_at is not null then
        if job.failed_in_a_row = 0 then
            perform baton_internal.alert('job_failed', job.name, jsonb_build_object('error', 'the process that ran it ended'));
        end if;
        update baton.jobs j
           set last_error = format('57P01: the process that ran it ended, begun at %s', job.begun_at), last_run = job.begun_at, last_duration = null,
               runs = j.runs + 1, failures = j.failures + 1, failed_in_a_row = j.failed_in_a_row + 1, resume = null
         where j.name = job.name returning * into job;
    end if;
    update baton.jobs j
       set begun_at = clock_timestamp(), begun_by = pg_backend_pid(),
           next_due = baton_internal.clock() + greatest(baton_internal.job_pause(job, job.failed_in_a_row + 1), shortest)
     where j.name = job.name;
    return job.name;
end
$$;
comment on function baton_internal.begin_due_job() is 'notes that a due job begins, for run_begun_job() in the next transaction';

-- Run the job that this session has begun, or a step of it. An error is recorded and the job tried again with back-off.
create function baton_internal.run_begun_job(name text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    job baton.jobs;
    started constant timestamptz := clock_timestamp();
    outcome record;
    pause interval;
begin
    select j.* into job from baton.jobs j
     where j.name = run_begun_job.name and j.begun_by = pg_backend_pid() and j.begun_at is not null for update;
    if not found then
        return;  -- dropped since, or somebody took this session for dead
    elsif not job.enabled then
        update baton.jobs j set begun_at = null, begun_by = null where j.name = job.name;
        return;
    end if;
    outcome := baton_internal.attempt_job(job);
    pause := case when outcome.resume is not null then interval '0'  -- behind the others that are due
                  when outcome.problem is null then baton_internal.job_pause(job, 0) else baton_internal.job_pause(job, job.failed_in_a_row + 1) end;
    if outcome.problem is not null and job.failed_in_a_row = 0 then
        perform baton_internal.alert('job_failed', job.name, jsonb_build_object('error', left(outcome.problem, 1000)));
    end if;
    update baton.jobs j
       set next_due = baton_internal.clock() + pause, resume = outcome.resume, begun_at = null, begun_by = null,
           last_error = case when outcome.resume is null then outcome.problem else j.last_error end,
           last_run = case when job.resume is null then started else j.last_run end,
           last_success = case when outcome.resume is null and outcome.problem is null then clock_timestamp() else j.last_success end,
           last_duration = clock_timestamp() - started + case when job.resume is null then interval '0' else j.last_duration end,
           runs = j.runs + (outcome.resume is null)::int, failures = j.failures + (outcome.problem is not null)::int,
           failed_in_a_row = case when outcome.resume is not null then j.failed_in_a_row
                                  when outcome.problem is null then 0 else j.failed_in_a_row + 1 end
     where j.name = job.name;
end
$$;
comment on function baton_internal.run_begun_job(text) is 'runs the job that begin_due_job() has chosen';

-- Do both at once, for callers that stay in a transaction; return the job's name, or null when nothing is due.
create function baton_internal.run_due_job()
returns text
language plpgsql
as $$
declare
    job constant text := baton_internal.begin_due_job();
begin
    perform baton_internal.run_begun_job(job) where job is not null;
    return job;
end
$$;
comment on function baton_internal.run_due_job() is 'runs one due job in this transaction';

-- Run every due job, each step in a transaction of its own. A cancel ends the job at hand and this call; the other jobs are run by the
-- next one.
create procedure baton.run_due_jobs()
language plpgsql
as $$
declare
    job text;
begin
    loop
        commit;
        set transaction isolation level read committed;  -- whatever the database's default is
        job := baton_internal.begin_due_job();
        exit when job is null;
        commit;
        set transaction isolation level read committed;
        perform baton_internal.run_begun_job(job);
        exit when exists (select from baton.jobs j where j.name = job and j.resume is null and j.last_error like '57014:%');
    end loop;
end
$$;
comment on procedure baton.run_due_jobs() is 'runs all due jobs; call it outside of a transaction block';

-- Say when the next job is due; null when there is none.
create function baton_internal.next_job_due()
returns timestamptz
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
    select min(case when j.next_due > baton_internal.clock() and baton_internal.is_due(j) then '-infinity' else greatest(j.next_due, baton_internal.work_begins(j)) end)
      from baton.jobs j where j.enabled
$$;
comment on function baton_internal.next_job_due() is 'when the next job is due';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}',
                                '{begin_due_job,run_begun_job,run_due_job,run_due_jobs,next_job_due}');
select baton_internal.declare_privileges('execute', '{baton_producer,baton_consumer,baton_relay,baton_operator,baton_viewer}', '{clock}');
select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer}', '{jobs}');
