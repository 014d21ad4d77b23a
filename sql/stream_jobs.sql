-- What refreshes stream tables by their schedules: a job that takes one stream table per step, those that others read first. A failure of one does not
-- keep the others waiting. The job rests until one is due.

-- Whether a stream table that is due rests: this session knows that nothing has happened to its sources. A cron expression names moments, not distances: it
-- is kept to the minute.
create function baton_internal.rests(stream baton.stream_tables)
returns boolean
language sql volatile
as $$
    select stream.source_state is not null and (length(stream.schedule) < 9 or stream.schedule !~ E'^\\s*\\S+(\\s+\\S+){4}\\s*$') and baton_internal.is_quiet(stream.stream_id)
$$;
comment on function baton_internal.rests(baton.stream_tables) is 'whether a stream table waits for a change of its sources';

-- What rests is looked at again every second. What a writer has stopped awaits its alert.
create view baton_internal.stream_work as
    select case when baton_internal.rests(s) then greatest(s.next_due, (select baton_internal.clock()) + interval '1 second') else s.next_due end as due,
           s.stream_id, s.level, s.schedule
      from baton.stream_tables s where s.schedule is not null and not s.paused and s.stopped_at is null
    union all
    select s.stopped_at, s.stream_id, s.level, s.schedule from baton.stream_tables s where s.stop_untold;
comment on view baton_internal.stream_work is 'when stream tables are due';

-- How many milliseconds a refresh by schedule may take; 0: as many as it wants.
create function baton_internal.refresh_limit()
returns int
language sql stable
as $$ select least(baton.setting('stream_refresh_limit_seconds')::bigint * 1000, 2147483647)::int $$;
comment on function baton_internal.refresh_limit() is 'how many milliseconds a refresh by schedule may take';

-- Cancel a refresh by schedule that has taken too long, for a session of the same role that looks on. Without the extension nothing else ends one. A step of the job
-- may be several refreshes; that it comes a second later tells a refresh which had all of its time from one that somebody cancelled.
create function baton_internal.cancel_long_refresh()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    longest constant int := baton_internal.refresh_limit();
begin
    if longest > 0 and (select i.form from baton.installation i) = 'sql' then
        perform pg_cancel_backend(a.pid) from baton.jobs j join pg_stat_activity a on a.pid = j.begun_by and a.backend_start <= j.begun_at
          where j.name = 'refresh stream tables' and clock_timestamp() > j.begun_at + (longest + 1000) * interval '1 millisecond';
    end if;
end
$$;
comment on function baton_internal.cancel_long_refresh() is 'ends a refresh that has taken too long; called by the relay';
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}', '{cancel_long_refresh,refresh_limit}');

-- How long to wait after so many failures in a row.
create function baton_internal.failure_pause(failures int)
returns interval
language sql immutable
as $$ select least(interval '1 second' * 2 ^ least(failures, 20), interval '10 minutes') $$;
comment on function baton_internal.failure_pause(int) is 'time until a refresh that failed is tried again';

-- Note that a refresh failed: the next attempts come by back-off, and after too many the stream table is left alone, or at once when what it did was absurd.
create function baton_internal.note_failure(stream baton.stream_tables, begun timestamptz, problem text, absurd boolean default false)
returns void
language plpgsql
as $$
declare
    most constant int := baton.setting('stream_max_failures')::int;
    longest constant int := baton_internal.refresh_limit();
    waits constant boolean := problem like 'BT005:%';  -- publishing is switched off: the refresh comes when it is on again, however long that takes
begin
    if problem like '57014:%' and longest > 0 and clock_timestamp() >= begun + longest * interval '1 millisecond' then
        problem := format('57014: the refresh took longer than stream_refresh_limit_seconds (%s)', longest / 1000);
    end if;
    stream.failed_in_a_row := stream.failed_in_a_row + case when waits then 0 else 1 end;
    update baton.stream_tables s
       set failed_in_a_row = stream.failed_in_a_row, last_error = problem,
           stopped_at = case when not waits and (absurd or most > 0 and stream.failed_in_a_row >= most) then clock_timestamp() end,
           next_due = greatest(baton_internal.next_refresh(s), baton_internal.clock() + baton_internal.failure_pause(case when waits then 3 else stream.failed_in_a_row end))
     where s.stream_id = stream.stream_id;
    insert into baton_internal.stream_refreshes (stream_id, begun_at, milliseconds, mode, error)
    values (stream.stream_id, begun, round(extract(epoch from clock_timestamp() - begun)::numeric * 1000, 3), stream.effective_mode, problem);
    if (waits and stream.last_error is distinct from problem) or (not waits and stream.failed_in_a_row = 1) then
        perform baton_internal.alert('stream_table_failed', stream.relation::text, jsonb_build_object('error', left(problem, 1000)));
    end if;
    if not waits and (absurd or stream.failed_in_a_row = most) then
        perform baton_internal.alert('stream_table_stopped', stream.relation::text, jsonb_build_object('error', left(problem, 1000), 'failures', stream.failed_in_a_row));
    end if;
end
$$;
comment on function baton_internal.note_failure(baton.stream_tables, timestamptz, text, boolean) is 'notes that a refresh by schedule failed';

-- Refresh a stream table on the state that is held; a failure is noted, and one that would change an absurd number of rows is one. The first refresh may.
create function baton_internal.attempt_refresh(stream baton.stream_tables, held jsonb)
returns void
language plpgsql
set lock_timeout = '5s'
as $$
declare
    begun constant timestamptz := clock_timestamp();
    done record;
    most_rows constant bigint := baton.setting('stream_fuse_rows')::bigint;
    absurd boolean := false;
begin
    perform baton_internal.begin_time_limit(baton_internal.refresh_limit());
    done := baton_internal.refresh_stream(stream.relation, held => held);
    perform baton_internal.end_time_limit();
    absurd := most_rows > 0 and stream.frontier is not null and done.inserted + done.deleted > most_rows;
    if absurd then
        raise exception 'the refresh would have changed % rows, more than stream_fuse_rows (%)', done.inserted + done.deleted, most_rows
            using errcode = 'program_limit_exceeded', hint = 'if that is right, call baton.refresh_stream_table(), which has no limit';
    end if;
exception when others or query_canceled or assert_failure then
    perform baton_internal.note_failure(stream, begun, sqlstate || ': ' || sqlerrm, absurd);
end
$$;
comment on function baton_internal.attempt_refresh(baton.stream_tables, jsonb) is 'refreshes a stream table; a failure is noted, not raised';

-- Do what a stream table needs before a state is held; a failure is noted. Gives what prepare_stream() gives: null after a failure, nothing when somebody writes to a
-- source for long.
create function baton_internal.attempt_to_prepare(stream baton.stream_tables, out prepared jsonb, out waited boolean)
language plpgsql
set lock_timeout = '1s'
as $$
declare
    begun constant timestamptz := clock_timestamp();
begin
    waited := false;
    prepared := '{}';
    if stream.effective_mode <> 'FULL' then
        perform baton_internal.begin_time_limit(baton_internal.refresh_limit());
        prepared := baton_internal.prepare_stream(stream);
        perform baton_internal.end_time_limit();
    end if;
exception
    when lock_not_available or deadlock_detected then
        waited := true;
    when others or query_canceled or assert_failure then
        perform baton_internal.note_failure(stream, begun, sqlstate || ': ' || sqlerrm);
        prepared := null;
end
$$;
comment on function baton_internal.attempt_to_prepare(baton.stream_tables) is 'prepares a stream table for a state to be held; a failure is noted, not raised';

-- The stream tables that are refreshed together with one: those of the same schedule that read the same tables or each other, and so on. Whoever reads two of them
-- in one snapshot sees both of one state.
create function baton_internal.stream_family(id int)
returns int[]
language plpgsql stable
as $$
declare
    rhythm constant text := (select s.schedule from baton.stream_tables s where s.stream_id = id and not s.paused and s.stopped_at is null);
    family int[] := '{}';
    latest int[] := array[id];
    read regclass[];
    near int[];
begin
    -- From member to member, in steps that find a few rows by an index whatever the planner thinks: to look at the ties of a thousand stream tables takes seconds.
    while latest <> '{}' loop
        family := family || latest;
        read := array(select x.source from baton_internal.stream_sources x where x.stream_id = any (latest));
        near := array(
            select y.stream_id from baton_internal.stream_sources y
             where y.source = any (read || array(select s.relation from baton.stream_tables s where s.stream_id = any (latest)))
            union
            select s.stream_id from baton.stream_tables s where s.relation = any (read));
        latest := array(select s.stream_id from baton.stream_tables s
                         where s.stream_id = any (near) and s.stream_id <> all (family) and s.schedule = rhythm and not s.paused and s.stopped_at is null);
    end loop;
    return array(select f from unnest(family) f order by f);
end
$$;
comment on function baton_internal.stream_family(int) is 'stream tables that are brought to one state with a stream table';

-- Leave a family alone for a moment: somebody has locked a table. When that goes on for long, it is told.
create function baton_internal.postpone_family(members int[], locked regclass)
returns void
language plpgsql
as $$
declare
    stream baton.stream_tables;
    problem constant text := format('55P03: somebody holds a lock on %s for long', locked);
begin
    for stream in update baton.stream_tables s
                     set next_due = greatest(s.next_due, baton_internal.clock() + interval '1 second'), held_up_since = coalesce(s.held_up_since, clock_timestamp())
                   where s.stream_id = any (members) returning s.* loop
        if stream.held_up_since < clock_timestamp() - interval '1 minute' and stream.last_error is null then
            update baton.stream_tables s set last_error = problem where s.stream_id = stream.stream_id;
            perform baton_internal.alert('stream_table_failed', stream.relation::text, jsonb_build_object('error', problem));
        end if;
    end loop;
end
$$;
comment on function baton_internal.postpone_family(int[], regclass) is 'lets stream tables that belong together wait for a lock';

-- Prepare members of a family, those first that others read. Gives those to be refreshed, and what preparing gave. Nobody is waited for twice: those whose sources had
-- to be captured anew are computed in full then, and captured by the next refresh.
create function baton_internal.prepare_family(members int[], out ready int[], out held jsonb)
language plpgsql
as $$
declare
    member baton.stream_tables;
    outcome record;
    waited boolean := false;
begin
    ready := '{}';
    held := '{}';
    for member in select s.* from baton.stream_tables s where s.stream_id = any (members) order by s.level, s.stream_id loop
        if not exists (select from pg_catalog.pg_class c where c.oid = member.relation) then
            perform baton_internal.forget_stream(member), baton_internal.record_action('forget_stream_table', member.relation::text, jsonb_build_object('query', member.query));
            continue;
        end if;
        if not waited then
            outcome := baton_internal.attempt_to_prepare(member);
            waited := outcome.waited;
            continue when outcome.prepared is null;
            held := held || outcome.prepared;
        end if;
        ready := ready || member.stream_id;
    end loop;
end
$$;
comment on function baton_internal.prepare_family(int[]) is 'prepares stream tables that belong together for one state';

-- Refresh the family of a stream table that is due, on one state. Its first member is locked first: where somebody else has that lock or has done the work, nothing
-- is done (false), so that nobody takes a part of a family that another one is at work on. Other members that somebody refreshes by hand are left out. Nothing is done
-- either while somebody has locked a table, and nobody waits for that.
create function baton_internal.refresh_family(id int)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
declare
    family constant int[] := baton_internal.stream_family(id);
    members int[];
    tables oid[];
    locked regclass;
    prepared record;
    member baton.stream_tables;
begin
    perform from baton.stream_tables s where s.stream_id = family[1] for update skip locked;
    if not found or not exists (select from baton_internal.stream_work w where w.stream_id = id and w.due <= baton_internal.clock()) then
        return false;
    end if;
    select array_agg(l.stream_id) into members
      from (select s.stream_id from baton.stream_tables s where s.stream_id = any (family) order by s.stream_id for update skip locked) l;
    tables := array(select distinct t from unnest(members) m cross join lateral unnest(baton_internal.tables_of_stream(m)) t order by t);
    locked := baton_internal.lock_tables(tables, array(select s.relation::oid from baton.stream_tables s where s.stream_id = any (members)));
    if locked is not null then
        perform baton_internal.postpone_family(members, locked);
        return false;
    end if;
    prepared := baton_internal.prepare_family(members);
    perform baton_internal.hold_state(tables);
    for member in select s.* from baton.stream_tables s where s.stream_id = any (prepared.ready) order by s.level, s.stream_id loop
        perform baton_internal.attempt_refresh(member, prepared.held);
    end loop;
    perform baton_internal.release_state();
    return true;
end
$$;
comment on function baton_internal.refresh_family(int) is 'refreshes stream tables that belong together';

-- Let go of captured changes that nobody needs any more, and of whole captures; without the extension there are none.
create function baton_internal.tidy_captures(release boolean)
returns void
language plpgsql
as $$
begin
    if (select i.form from baton.installation i) = 'extension' then
        perform baton_internal.trim_changes(all_buffers => release);
        perform baton_internal.release_sources() where release;
    end if;
end
$$;
comment on function baton_internal.tidy_captures(boolean) is 'deletes captured changes that every stream table has seen';

-- The same, unless neither a source nor a stream table has changed since this session did it. Most moments are like that, and a look at each buffer costs more than
-- everything else that a thousand idle stream tables need.
create function baton_internal.tidy_changed_captures()
returns void
language plpgsql
as $$
declare
    rings bigint;
    refreshes bigint;
begin
    if (select i.form from baton.installation i) <> 'extension' then
        return;
    end if;
    rings := baton_internal.source_rings(array(select distinct s.source::oid from baton_internal.stream_sources s where s.captured is not null));
    refreshes := (select coalesce(sum(s.refreshes), 0) from baton.stream_tables s);
    if not baton_internal.is_tidied(rings, refreshes) then
        perform baton_internal.tidy_captures(false);
        perform baton_internal.note_tidied(rings, refreshes);
    end if;
end
$$;
comment on function baton_internal.tidy_changed_captures() is 'deletes captured changes that every stream table has seen, when there can be some';

-- Whether there is nothing to do for a stream table that is due. Then it rests, or waits for its next moment.
create function baton_internal.is_idle(id int)
returns boolean
language plpgsql
as $$
declare
    stream constant baton.stream_tables := (select s from baton.stream_tables s where s.stream_id = id);
    idle boolean;
begin
    if stream.effective_mode = 'FULL' then
        return false;
    end if;
    begin
        perform baton_internal.begin_time_limit(baton_internal.refresh_limit());
        idle := baton_internal.is_current(stream);
        perform baton_internal.end_time_limit();
    exception when query_canceled then  -- the refresh takes long as well, and tells
        idle := false;
    end;
    if not idle then
        return false;
    elsif stream.held_up_since is not null or not baton_internal.rests(stream) then
        update baton.stream_tables s
           set next_due = baton_internal.next_refresh(s), held_up_since = null,
               last_error = case when s.held_up_since is null then s.last_error end
         where s.stream_id = id;
    end if;
    return true;
end
$$;
comment on function baton_internal.is_idle(int) is 'whether a stream table that is due needs no refresh';

-- Raise the alert for stream tables that a writer has stopped.
create function baton_internal.tell_stops()
returns void
language plpgsql
as $$
declare
    stream baton.stream_tables;
begin
    for stream in select s.* from baton.stream_tables s where s.stop_untold for no key update skip locked loop
        update baton.stream_tables s set stop_untold = false where s.stream_id = stream.stream_id;
        perform baton_internal.alert('stream_table_stopped', stream.relation::text, jsonb_build_object('error', left(stream.last_error, 1000), 'failures', stream.failed_in_a_row));
    end loop;
end
$$;
comment on function baton_internal.tell_stops() is 'raises alerts that a writer''s transaction could not';

-- Refresh the first stream table that is due and that nobody else is at work on, with its family; null when there is none.
create function baton_internal.refresh_due_stream(state jsonb)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    candidate int;
begin
    perform baton_internal.tell_stops();
    for candidate in select w.stream_id from baton_internal.stream_work w where w.due <= baton_internal.clock() order by w.level, w.due, w.stream_id loop
        continue when baton_internal.is_idle(candidate);
        if baton_internal.refresh_family(candidate) then
            return jsonb_build_object('refreshed', coalesce((state ->> 'refreshed')::int, 0) + 1);
        end if;
    end loop;
    perform baton_internal.tidy_changed_captures();
    return null;
end
$$;
comment on function baton_internal.refresh_due_stream(jsonb) is 'job: refreshes stream tables that are due, a family per step';

-- Refresh IMMEDIATE stream tables without a schedule after what no statement told of, and capture their sources again after alterations. One that a writer is at work on
-- is left for the next time.
create function baton_internal.catch_up_immediate()
returns void
language plpgsql
as $$
declare
    id int;
    stream baton.stream_tables;
begin
    for id in select s.stream_id from baton.stream_tables s where s.effective_mode = 'IMMEDIATE' and s.schedule is null order by s.level, s.stream_id loop
        select s.* into stream from baton.stream_tables s
         where s.stream_id = id and s.effective_mode = 'IMMEDIATE' and s.frontier is not null and not s.paused and s.stopped_at is null for update skip locked;
        continue when not found;
        continue when baton_internal.is_current(stream);
        perform baton_internal.attempt_refresh(stream, null);
    end loop;
end
$$;
comment on function baton_internal.catch_up_immediate() is 'refreshes IMMEDIATE stream tables that nobody else does';

-- Forget stream tables whose tables are gone and what was done long ago, and let go of delta rows that everybody has.
create function baton_internal.maintain_streams()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    stream baton.stream_tables;
begin
    for stream in select s.* from baton.stream_tables s where not exists (select from pg_class c where c.oid = s.relation) for update skip locked loop
        perform baton_internal.forget_stream(stream), baton_internal.record_action('forget_stream_table', stream.relation::text, jsonb_build_object('query', stream.query));
    end loop;
    update baton.stream_tables s set next_due = baton_internal.next_refresh(s)  -- the clock was set back: nobody is due later than by a refresh of now
     where s.schedule is not null and s.next_due > greatest(baton_internal.next_refresh(s), baton_internal.clock() + baton_internal.failure_pause(s.failed_in_a_row));
    perform baton_internal.identify_idle_rows(array(select s.relation from baton.stream_tables s)
        || array(select c.oid::regclass from pg_class c where c.relnamespace = 'baton_internal'::regnamespace and c.relkind = 'r' and c.relname ~ '^changes_[0-9]+$'));
    perform baton_internal.catch_up_immediate();
    delete from baton_internal.stream_refreshes r where r.begun_at < clock_timestamp() - make_interval(hours => baton.setting('stream_history_hours')::int);
    perform baton_internal.release_claim_checks(), baton_internal.tidy_captures(true);
end
$$;
comment on function baton_internal.maintain_streams() is 'job: tidies up after stream tables';
