-- What refreshes stream tables by their schedules: a job that takes one stream table per step, those that others read first. A failure of one does not
-- keep the others waiting. The job rests until one is due.

-- Whether a stream table that is due rests: this session knows that nothing has happened to its sources. A cron expression names moments, not distances: it
-- is kept to the minute.
create function baton_internal.rests(stream baton.stream_tables)
returns boolean
language sql volatile
as $$ select stream.source_state is not null and stream.schedule !~ '^\s*\S+(\s+\S+){4}\s*$' and baton_internal.is_quiet(stream.stream_id) $$;
comment on function baton_internal.rests(baton.stream_tables) is 'whether a stream table waits for a change of its sources';

-- What rests is looked at again every second.
create view baton_internal.stream_work as
    select case when baton_internal.rests(s) then greatest(s.next_due, baton_internal.clock() + interval '1 second') else s.next_due end as due,
           s.stream_id, s.level, s.schedule
      from baton.stream_tables s where s.schedule is not null and not s.paused and s.stopped_at is null;
comment on view baton_internal.stream_work is 'when stream tables are due';

-- Refresh a stream table and note a failure: the next attempts come by back-off, and after too many the stream table is left alone. So it is at once when a
-- refresh would change an absurd number of rows; the first one may.
create function baton_internal.attempt_refresh(stream baton.stream_tables, held boolean)
returns void
language plpgsql
set lock_timeout = '5s'
as $$
declare
    begun constant timestamptz := clock_timestamp();
    problem text;
    done record;
    most constant int := baton.setting('stream_max_failures')::int;
    most_rows constant bigint := baton.setting('stream_fuse_rows')::bigint;
    absurd boolean := false;
begin
    done := baton_internal.refresh_stream(stream.relation, held => held);
    absurd := most_rows > 0 and stream.frontier is not null and done.inserted + done.deleted > most_rows;
    if absurd then
        raise exception 'the refresh would have changed % rows, more than stream_fuse_rows (%)', done.inserted + done.deleted, most_rows
            using errcode = 'program_limit_exceeded', hint = 'if that is right, call baton.refresh_stream_table(), which has no limit';
    end if;
exception when others or query_canceled or assert_failure then
    problem := sqlstate || ': ' || sqlerrm;
    stream.failed_in_a_row := stream.failed_in_a_row + 1;
    update baton.stream_tables s
       set failed_in_a_row = stream.failed_in_a_row, last_error = problem,
           stopped_at = case when absurd or most > 0 and stream.failed_in_a_row >= most then clock_timestamp() end,
           next_due = greatest(baton_internal.next_refresh(s.schedule, baton_internal.clock()),
                               baton_internal.clock() + least(interval '1 second' * 2 ^ least(stream.failed_in_a_row, 20), interval '10 minutes'))
     where s.stream_id = stream.stream_id;
    insert into baton_internal.stream_refreshes (stream_id, begun_at, milliseconds, mode, error)
    values (stream.stream_id, begun, round(extract(epoch from clock_timestamp() - begun)::numeric * 1000, 3), stream.effective_mode, problem);
    if stream.failed_in_a_row = 1 then
        perform baton_internal.alert('stream_table_failed', stream.relation::text, jsonb_build_object('error', left(problem, 1000)));
    end if;
    if absurd or stream.failed_in_a_row = most then
        perform baton_internal.alert('stream_table_stopped', stream.relation::text, jsonb_build_object('error', left(problem, 1000), 'failures', stream.failed_in_a_row));
    end if;
end
$$;
comment on function baton_internal.attempt_refresh(baton.stream_tables, boolean) is 'refreshes a stream table; a failure is noted, not raised';

-- The stream tables that are refreshed together with one: those of the same schedule that read the same tables or each other, and so on. Whoever reads two of them
-- in one snapshot sees both of one state.
create function baton_internal.stream_family(id int)
returns int[]
language plpgsql stable
as $$
begin
    return array(
        with recursive peers as (
            select s.stream_id, s.relation from baton.stream_tables s
             where s.schedule = (select m.schedule from baton.stream_tables m where m.stream_id = id) and not s.paused and s.stopped_at is null),
        ties (one, other) as materialized (
            select a.stream_id, b.stream_id from peers a join baton_internal.stream_sources x on x.stream_id = a.stream_id
              join baton_internal.stream_sources y on y.source = x.source join peers b on b.stream_id = y.stream_id
            union
            select a.stream_id, b.stream_id from peers a join baton_internal.stream_sources x on x.stream_id = a.stream_id join peers b on b.relation = x.source
            union
            select b.stream_id, a.stream_id from peers a join baton_internal.stream_sources x on x.stream_id = a.stream_id join peers b on b.relation = x.source),
        family (member) as (
            select id
            union
            select t.other from family f join ties t on t.one = f.member)
        select f.member from family f order by f.member);
end
$$;
comment on function baton_internal.stream_family(int) is 'stream tables that are brought to one state with a stream table';

-- Refresh the family of a stream table that is due, on one state. Its first member is locked first: where somebody else has that lock or has done the work, nothing
-- is done (false), so that nobody takes a part of a family that another one is at work on. Other members that somebody refreshes by hand are left out.
create function baton_internal.refresh_family(id int)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
declare
    family constant int[] := baton_internal.stream_family(id);
    members int[];
    member baton.stream_tables;
    held boolean := true;
begin
    perform from baton.stream_tables s where s.stream_id = family[1] for update skip locked;
    if not found or not exists (select from baton_internal.stream_work w where w.stream_id = id and w.due <= baton_internal.clock()) then
        return false;
    end if;
    select array_agg(l.stream_id) into members
      from (select s.stream_id from baton.stream_tables s where s.stream_id = any (family) order by s.stream_id for update skip locked) l;
    begin
        perform baton_internal.hold_state(array(select distinct t from unnest(members) m cross join lateral unnest(baton_internal.tables_of_stream(m)) t order by t));
    exception when lock_not_available or deadlock_detected then
        held := false;  -- somebody alters a table: each for itself, then
    end;
    for member in select s.* from baton.stream_tables s where s.stream_id = any (members) order by s.level, s.stream_id loop
        if exists (select from pg_class c where c.oid = member.relation) then
            perform baton_internal.attempt_refresh(member, held);
        else
            perform baton_internal.forget_stream(member), baton_internal.record_action('forget_stream_table', member.relation::text, jsonb_build_object('query', member.query));
        end if;
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
        perform baton_internal.trim_changes();
        perform baton_internal.release_sources() where release;
    end if;
end
$$;
comment on function baton_internal.tidy_captures(boolean) is 'deletes captured changes that every stream table has seen';

-- Whether there is nothing to do for a stream table that is due. Then it rests, or waits for its next moment.
create function baton_internal.is_idle(id int)
returns boolean
language plpgsql
as $$
declare
    stream constant baton.stream_tables := (select s from baton.stream_tables s where s.stream_id = id);
begin
    if stream.effective_mode = 'FULL' then
        return false;
    elsif not baton_internal.is_current(stream) then
        return false;
    end if;
    if not baton_internal.rests(stream) then
        update baton.stream_tables s set next_due = baton_internal.next_refresh(s.schedule, baton_internal.clock()) where s.stream_id = id;
    end if;
    return true;
end
$$;
comment on function baton_internal.is_idle(int) is 'whether a stream table that is due needs no refresh';

-- Refresh the first stream table that is due and that nobody else is at work on, with its family; null when there is none.
create function baton_internal.refresh_due_stream(state jsonb)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    candidate int;
begin
    for candidate in select w.stream_id from baton_internal.stream_work w where w.due <= baton_internal.clock() order by w.level, w.due, w.stream_id loop
        continue when baton_internal.is_idle(candidate);
        if baton_internal.refresh_family(candidate) then
            return jsonb_build_object('refreshed', coalesce((state ->> 'refreshed')::int, 0) + 1);
        end if;
    end loop;
    perform baton_internal.tidy_captures(false);
    return null;
end
$$;
comment on function baton_internal.refresh_due_stream(jsonb) is 'job: refreshes stream tables that are due, a family per step';

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
    delete from baton_internal.stream_refreshes r where r.begun_at < clock_timestamp() - make_interval(hours => baton.setting('stream_history_hours')::int);
    perform baton_internal.release_claim_checks(), baton_internal.tidy_captures(true);
end
$$;
comment on function baton_internal.maintain_streams() is 'job: tidies up after stream tables';
