-- A server's clock that was ahead and was set back. Whatever was leased or put off meanwhile would stay so for as long as the clock had been ahead: a
-- dead consumer's events for hours. So the time is noted every minute, and when it has gone back, what lies ahead goes back with it.
--
-- The step is known to about a minute, so leases end at most that much later than they should. A lease that somebody took after the step and before this
-- was noticed may end early, if it is longer than a minute: then its events come again, as after any lost lease.

create table baton_internal.clock_marks (
    one     boolean     primary key default true check (one),
    seen_at timestamptz not null
);
comment on table baton_internal.clock_marks is 'the time at which the clock was read last';

-- By how much the clock was set back since it was last looked at, null when it was not. A few minutes are left alone: leases run out soon enough.
create function baton_internal.clock_step()
returns interval
language sql volatile
as $$
    select case when s.latest > clock_timestamp() + interval '5 minutes' then s.latest - clock_timestamp() end
      from (select greatest((select m.seen_at from baton_internal.clock_marks m), (select max(c.last_poll_at) from baton_internal.consumers c)) as latest) s
$$;
comment on function baton_internal.clock_step() is 'how far the clock was set back since it was read last';

-- Set back what consumers and relays of groups hold, when failed events are due, and when consumers were last seen.
create function baton_internal.set_groups_back(step interval, horizon timestamptz)
returns void
language plpgsql
as $$
declare
    of_group int;
begin
    for of_group in
        select p.group_id from baton_internal.pieces p where p.leased_until > horizon and p.leased_until < 'infinity'
        union select p.group_id from baton_internal.parked p where p.leased_until > horizon and p.leased_until < 'infinity' or p.state = 'retry' and p.due_at > horizon
        union select p.group_id from baton_internal.group_positions p where p.owned_until > horizon order by 1
    loop
        perform baton_internal.lock_position(of_group);
        update baton_internal.pieces p set leased_at = p.leased_at - step, leased_until = p.leased_until - step
         where p.group_id = of_group and p.leased_until > horizon and p.leased_until < 'infinity';
        update baton_internal.parked p set leased_at = p.leased_at - step, leased_until = p.leased_until - step
         where p.group_id = of_group and p.leased_until > horizon and p.leased_until < 'infinity';
        update baton_internal.parked p set due_at = p.due_at - step where p.group_id = of_group and p.state = 'retry' and p.due_at > horizon;
        update baton_internal.group_positions p set owned_until = p.owned_until - step where p.group_id = of_group and p.owned_until > horizon;
    end loop;
    update baton_internal.consumers c
       set last_poll_at = least(c.last_poll_at, horizon - interval '1 minute'), last_heartbeat_at = least(c.last_heartbeat_at, horizon - interval '1 minute')
     where greatest(c.last_poll_at, c.last_heartbeat_at) > horizon;
end
$$;
comment on function baton_internal.set_groups_back(interval, timestamptz) is 'sets leases of groups back with the clock';

-- Set back what workers of an inbox hold, and when failed messages are due. What somebody works on just now is left alone.
create function baton_internal.set_inbox_back(box baton.inboxes, step interval, horizon timestamptz)
returns void
language plpgsql
as $$
begin
    update baton_internal.inbox_sequences s set leased_until = s.leased_until - step where s.inbox = box.id and s.leased_until > horizon;
    if box.layout <> 'managed' then
        update baton_internal.inbox_work w
           set leased_until = case when w.leased_until > horizon then w.leased_until - step else w.leased_until end,
               available_at = case when w.available_at > horizon then w.available_at - step else w.available_at end
         where w.inbox = box.id and (w.leased_until > horizon or w.available_at > horizon);
        return;
    end if;
    execute format($sql$
        update %1$s t
           set leased_until = case when t.leased_until > $2 then t.leased_until - $1 else t.leased_until end,
               available_at = case when t.retry_count > 0 and t.available_at > $2 and t.available_at < 'infinity' then t.available_at - $1 else t.available_at end
         where t.ctid = any (array(select o.ctid from %1$s o where o.processed_at is null
                                      and (o.leased_until > $2 or o.retry_count > 0 and o.available_at > $2 and o.available_at < 'infinity')
                                      for no key update skip locked))$sql$, box.relation) using step, horizon;
end
$$;
comment on function baton_internal.set_inbox_back(baton.inboxes, interval, timestamptz) is 'sets leases of an inbox back with the clock';

-- The job: note the time; when it has gone back, set back what lies ahead.
create function baton_internal.watch_clock()
returns void
language plpgsql
as $$
declare
    step constant interval := baton_internal.clock_step();
    horizon constant timestamptz := clock_timestamp() + interval '1 minute';
    box baton.inboxes;
begin
    insert into baton_internal.clock_marks (seen_at) values (clock_timestamp()) on conflict (one) do update set seen_at = excluded.seen_at;
    if step is null then
        return;
    end if;
    perform baton_internal.alert('clock_set_back', current_database()::text, jsonb_build_object('seconds', round(extract(epoch from step))));
    perform baton_internal.set_groups_back(step, horizon);
    update baton_internal.adopted_owners o set owned_until = o.owned_until - step where o.owned_until > horizon;
    for box in select i.* from baton.inboxes i order by i.id loop
        begin
            perform baton_internal.set_inbox_back(box, step, horizon);
        exception when others then
            raise warning 'leases of inbox %.% were not set back with the clock: %', box.schema_name, box.name, sqlerrm using errcode = sqlstate;
        end;
    end loop;
end
$$;
comment on function baton_internal.watch_clock() is 'the job that sets leases back with the clock';
