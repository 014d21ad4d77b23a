-- Locks on tables of users, for changes of what baton has made there.

-- Lock tables in these modes; false when that cannot be had for so long. Readers and writers that come meanwhile wait a moment at most: the locks are asked for again and
-- again rather than queued for. The first table is waited for, the others are had at the same moment or not.
create function baton_internal.lock_without_queue(relations regclass[], modes text[], patience interval)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp set lock_timeout = '100ms'
as $$
declare
    deadline constant timestamptz := clock_timestamp() + patience;
begin
    loop
        begin
            for i in 1 .. cardinality(relations) loop
                execute format('lock table %s in %s mode %s', relations[i], modes[i], case when i > 1 then 'nowait' end);
            end loop;
            return true;
        exception when lock_not_available or deadlock_detected then
            null;
        end;
        if clock_timestamp() >= deadline then
            return false;
        end if;
        perform pg_sleep(0.1);
    end loop;
end
$$;
comment on function baton_internal.lock_without_queue(regclass[], text[], interval) is 'locks tables so that nobody waits behind the lock; false when they are busy for long';

-- Raise unless a table was locked.
create function baton_internal.need_lock(relation regclass, is_locked boolean)
returns void
language plpgsql
as $$
begin
    if not is_locked then
        raise exception 'table % is too busy for this change', relation
            using errcode = 'lock_not_available', detail = 'somebody uses the table for long', hint = 'try again when long transactions on the table have ended';
    end if;
end
$$;
comment on function baton_internal.need_lock(regclass, boolean) is 'raises lock_not_available unless a table was locked';

-- How long the session wants to wait for locks, at most so long.
create function baton_internal.lock_patience(most interval)
returns interval
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select least(most, nullif(current_setting('lock_timeout')::interval, '0')) $$;
comment on function baton_internal.lock_patience(interval) is 'lock_timeout, or a limit where there is none';
