-- The worker hears of stream tables that are due sooner than it knows.

create trigger poke_scheduler after insert or update of schedule, paused, stop_untold on baton.stream_tables
    for each statement execute function baton_internal.poke_scheduler();

-- For the worker: refresh what is live and due, a family at a time, without the ceremony of a job. What was not refreshed well by its schedule's job yet is left
-- to the job, which knows when it took its process down. Says what the worker does then, null when nothing is live:
--   pause   milliseconds to sleep
--   deaf    whether it need not listen to sources meanwhile: the interval of one that has changed is not over
create function baton_internal.refresh_live(out pause int, out deaf boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    candidate int;
    begins timestamptz;
begin
    if not exists (select from baton.stream_tables s where s.schedule = 'live' and not s.paused and s.stopped_at is null) then
        return;
    end if;
    for candidate in select s.stream_id from baton.stream_tables s
                      where s.schedule = 'live' and not s.paused and s.stopped_at is null and s.frontier is not null and s.failed_in_a_row = 0 and s.effective_mode <> 'FULL'
                        and s.next_due <= baton_internal.clock() and not baton_internal.rests(s)
                      order by s.level, s.next_due, s.stream_id loop
        continue when baton_internal.is_idle(candidate);
        if baton_internal.refresh_family(candidate) then
            select 0, true into pause, deaf;
            return;
        end if;
    end loop;
    select min(s.next_due) into begins from baton.stream_tables s where s.schedule = 'live' and not s.paused and s.stopped_at is null and not baton_internal.rests(s);
    deaf := begins is not null;
    if exists (select from baton.stream_tables s where s.schedule = 'live' and not s.paused and s.stopped_at is null and s.effective_mode <> 'FULL'
                  and strpos(s.delta, 'baton_internal.frontier_time()') > 0 and baton_internal.rests(s)) then  -- nobody tells that the time has passed
        begins := least(begins, baton_internal.clock() + baton.setting('stream_live_interval_ms')::int * interval '1 millisecond');
    end if;
    pause := greatest(ceil(extract(epoch from least(begins - baton_internal.clock(), '1 second')) * 1000), 1);
end
$$;
comment on function baton_internal.refresh_live() is 'refreshes live stream tables that are due, and says how long the worker may sleep';

-- For the worker: how many helpers could be of use now: as many stream tables as have something to do and have waited for their turn. A helper is a new session that
-- has to find out everything about them, so one that the worker knows to be idle is no reason.
create function baton_internal.stream_helpers()
returns int
language sql
set search_path = pg_catalog, pg_temp
as $$
    select count(*)::int from (
        select w.stream_id from baton_internal.stream_work w where w.due < baton_internal.clock() - interval '500 milliseconds' order by w.due limit 100) late
     where not baton_internal.is_idle(late.stream_id)
$$;
comment on function baton_internal.stream_helpers() is 'how many processes could refresh stream tables beside the worker';
