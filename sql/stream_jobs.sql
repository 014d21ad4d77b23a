-- What refreshes stream tables by their schedules: a job that takes one stream table per step, those that others read first. A failure of one does not
-- keep the others waiting. The job rests until one is due.

create view baton_internal.stream_work as
    select s.next_due as due from baton.stream_tables s where s.schedule is not null and not s.paused and s.stopped_at is null;
comment on view baton_internal.stream_work is 'when stream tables are due';

-- Refresh a stream table and note a failure: the next attempts come by back-off, and after too many the stream table is left alone.
create function baton_internal.attempt_refresh(stream baton.stream_tables)
returns void
language plpgsql
set lock_timeout = '5s'
as $$
declare
    begun constant timestamptz := clock_timestamp();
    problem text;
    most constant int := baton.setting('stream_max_failures')::int;
begin
    perform baton_internal.refresh_stream(stream.relation);
exception when others or query_canceled or assert_failure then
    problem := sqlstate || ': ' || sqlerrm;
    stream.failed_in_a_row := stream.failed_in_a_row + 1;
    update baton.stream_tables s
       set failed_in_a_row = stream.failed_in_a_row, last_error = problem,
           stopped_at = case when most > 0 and stream.failed_in_a_row >= most then clock_timestamp() end,
           next_due = greatest(baton_internal.next_refresh(s.schedule, baton_internal.clock()),
                               baton_internal.clock() + least(interval '1 second' * 2 ^ least(stream.failed_in_a_row, 20), interval '10 minutes'))
     where s.stream_id = stream.stream_id;
    insert into baton_internal.stream_refreshes (stream_id, begun_at, milliseconds, mode, error)
    values (stream.stream_id, begun, round(extract(epoch from clock_timestamp() - begun)::numeric * 1000, 3), stream.effective_mode, problem);
    if stream.failed_in_a_row = 1 then
        perform baton_internal.alert('stream_table_failed', stream.relation::text, jsonb_build_object('error', left(problem, 1000)));
    end if;
    if stream.failed_in_a_row = most then
        perform baton_internal.alert('stream_table_stopped', stream.relation::text, jsonb_build_object('error', left(problem, 1000), 'failures', most));
    end if;
end
$$;
comment on function baton_internal.attempt_refresh(baton.stream_tables) is 'refreshes a stream table; a failure is noted, not raised';

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

-- Refresh the first stream table that is due and that nobody else is at work on; null when there is none.
create function baton_internal.refresh_due_stream(state jsonb)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    stream baton.stream_tables;
begin
    select s.* into stream from baton.stream_tables s
     where s.schedule is not null and not s.paused and s.stopped_at is null and s.next_due <= baton_internal.clock()
     order by s.level, s.next_due limit 1
       for update skip locked;
    if not found then
        perform baton_internal.tidy_captures(false);
        return null;
    elsif exists (select from pg_class c where c.oid = stream.relation) then
        perform baton_internal.attempt_refresh(stream);
    else
        perform baton_internal.forget_stream(stream), baton_internal.record_action('forget_stream_table', stream.relation::text, jsonb_build_object('query', stream.query));
    end if;
    return jsonb_build_object('refreshed', coalesce((state ->> 'refreshed')::int, 0) + 1);
end
$$;
comment on function baton_internal.refresh_due_stream(jsonb) is 'job: refreshes stream tables that are due, one per step';

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
