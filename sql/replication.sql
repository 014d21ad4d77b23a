-- What may leave the database: a commit that is on disk here and, where the operator asks for it, on disk at some standbys too. Otherwise a
-- failover could take back what the brokers have had already. With synchronous replication PostgreSQL itself shows no commit before
-- the standby has it.

-- How far the standbys have the log on disk: at least `standbys` of them have it up to here; null when there are not that many.
create function baton_internal.replicated_upto(standbys int)
returns pg_lsn
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from pg_stat_replication s where s.state is null) then
        raise exception 'the owner of baton, "%", may not see how far standbys are', current_user
            using errcode = 'insufficient_privilege',
                  hint = format('grant pg_monitor to %I, or set outbox_publish_after_standbys to 0', current_user);
    end if;
    return (select s.flush_lsn from pg_stat_replication s
             where s.state = 'streaming' and s.flush_lsn is not null
               and not exists (select from pg_replication_slots l where l.active_pid = s.pid and l.slot_type = 'logical')
             order by s.flush_lsn desc offset standbys - 1 limit 1);
end
$$;
comment on function baton_internal.replicated_upto(int) is 'the position up to which so many standbys have the log on disk';

-- Wait until as many standbys as the setting says have the log on disk up to a position; false when they do not within the time.
create function baton_internal.await_standbys(lsn pg_lsn, patience interval default '100 ms')
returns boolean
language plpgsql volatile
as $$
declare
    wanted constant int := baton.setting('outbox_publish_after_standbys')::int;
    deadline constant timestamptz := clock_timestamp() + patience;
begin
    if wanted = 0 then
        return true;
    end if;
    loop
        if baton_internal.replicated_upto(wanted) >= lsn then
            return true;
        end if;
        exit when clock_timestamp() >= deadline;
        perform pg_sleep(0.002);
    end loop;
    return false;
end
$$;
comment on function baton_internal.await_standbys(pg_lsn, interval) is 'waits a moment for standbys; true when enough of them have the log on disk up to a position';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}', '{await_standbys,replicated_upto}');
