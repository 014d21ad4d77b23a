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
    last_duration   interval,
    last_error      text,
    runs            bigint      not null default 0,
    failures        bigint      not null default 0,
    failed_in_a_row int         not null default 0,
    built_in        boolean     not null default false,  -- comes with baton: a dump leaves it out
    resume          jsonb                                -- where the next step of a run goes on, null when none is under way
);
comment on table baton.jobs is 'what the scheduler runs, when, and how it went';

-- Return the time; tests set the parameter baton.mock_now.
create function baton_internal.clock()
returns timestamptz
language sql volatile
as $$ select coalesce(nullif(pg_catalog.current_setting('baton.mock_now', true), '')::timestamptz, clock_timestamp()) $$;
comment on function baton_internal.clock() is 'the scheduler''s clock: the time, or baton.mock_now';

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

-- Whether a job is due. One that ran in the future did so by a clock that has been set back since: so was its next time.
create function baton_internal.is_due(job baton.jobs)
returns boolean
language sql volatile
as $$ select job.next_due <= baton_internal.clock() or job.last_run > clock_timestamp() and job.next_due < 'infinity' $$;
comment on function baton_internal.is_due(baton.jobs) is 'whether a job is to be run now';

-- Run the job that has been due for longest, or a step of it, unless somebody else does; return its name, or null when nothing is due.
create function baton_internal.run_due_job()
returns text
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
     where j.enabled and baton_internal.is_due(j)
     order by j.next_due, j.name limit 1
       for update skip locked;
    if not found then
        return null;
    end if;
    outcome := baton_internal.attempt_job(job);
    pause := case when job.every_setting is null then job.every
                  else make_interval(secs => greatest(baton.setting(job.every_setting)::int, 1)) end;
    if outcome.resume is not null then
        pause := interval '0';  -- behind the others that are due
    elsif outcome.problem is not null then
        pause := least(pause * (2 ^ least(job.failed_in_a_row, 20)), greatest(pause, interval '10 minutes'));
        if job.failed_in_a_row = 0 then
            perform baton_internal.alert('job_failed', job.name, jsonb_build_object('error', left(outcome.problem, 1000)));
        end if;
    end if;
    update baton.jobs j
       set next_due = baton_internal.clock() + pause, resume = outcome.resume,
           last_error = case when outcome.resume is null then outcome.problem else j.last_error end,
           last_run = case when job.resume is null then started else j.last_run end,
           last_duration = clock_timestamp() - started + case when job.resume is null then interval '0' else j.last_duration end,
           runs = j.runs + (outcome.resume is null)::int, failures = j.failures + (outcome.problem is not null)::int,
           failed_in_a_row = case when outcome.resume is not null then j.failed_in_a_row
                                  when outcome.problem is null then 0 else j.failed_in_a_row + 1 end
     where j.name = job.name;
    return job.name;
end
$$;
comment on function baton_internal.run_due_job() is 'runs one due job; an error is recorded and the job tried again with back-off';

-- Run every due job, each step in a transaction of its own. A cancel ends the job at hand and this call; the other jobs are run by the
-- next one.
create procedure baton.run_due_jobs()
language plpgsql
as $$
declare
    ran text;
begin
    loop
        commit;
        set transaction isolation level read committed;  -- whatever the database's default is
        ran := baton_internal.run_due_job();
        exit when ran is null or exists (select from baton.jobs j where j.name = ran and j.resume is null and j.last_error like '57014:%');
    end loop;
end
$$;
comment on procedure baton.run_due_jobs() is 'runs what is due; call it outside of a transaction block';

-- Say when the next job is due; null when there is none.
create function baton_internal.next_job_due()
returns timestamptz
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$ select min(case when j.next_due > baton_internal.clock() and baton_internal.is_due(j) then '-infinity' else j.next_due end) from baton.jobs j where j.enabled $$;
comment on function baton_internal.next_job_due() is 'when the next job is due';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}',
                                '{run_due_job,run_due_jobs,next_job_due}');
select baton_internal.declare_privileges('execute', '{baton_producer,baton_consumer,baton_relay,baton_operator,baton_viewer}', '{clock}');
select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer}', '{jobs}');
