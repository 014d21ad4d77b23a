-- Maintenance of outboxes, in steps. Each step is a transaction of its own: the scheduler runs them one by one as a job, and
-- `call baton.run_maintenance()` does the same for people.
--
--   choose -> extend -> rotate -> copy <-> detach -> release -> watch -> choose ...
--
--   choose    the outbox whose turn it is, the one that waited longest first; null when all had their turn
--   extend    the log by partitions that lie ahead
--   rotate    the sequence moves on when it is time
--   copy      parked events, out of the partition that goes next
--   detach    that partition, then the next one
--   release   what was detached: into the archive, or dropped
--   watch     the size
--
-- Whatever a step needs to know is in the catalog, so a crash between or within steps costs nothing but the step. An error is noted
-- with its outbox, and the next outbox has its turn.

-- Do expired idempotency keys and silent consumers; true when there may be more.
create function baton_internal.maintain_common()
returns boolean
language plpgsql
as $$
declare
    step constant int := 10000;
    forgotten int;
begin
    -- A key that somebody is just using again is left to the publisher, who would have to wait.
    delete from baton_internal.idempotency_keys k
     where k.ctid = any (array(select o.ctid from baton_internal.idempotency_keys o where o.expires_at < clock_timestamp()
                                order by o.expires_at limit step for update skip locked));
    get diagnostics forgotten = row_count;
    if forgotten = step then
        return true;
    end if;
    perform baton_internal.watch_consumers();
    return false;
exception when others then  -- a consumer may hold what is wanted here for as long as its handler runs
    raise warning 'maintenance of idempotency keys and consumers failed: %', sqlerrm using errcode = sqlstate;
    return false;
end
$$;
comment on function baton_internal.maintain_common() is 'forgets expired idempotency keys and looks after silent consumers';

-- Choose the outbox whose turn it is in the round that began then, and note that it had its turn: one that hangs goes last in the next
-- round. Null when there is none. One that is being dropped, altered or restored is left alone, unless it was asked for by name. A turn in the
-- future was noted while the clock was ahead, and does not count; a round that began there is over.
create function baton_internal.choose_outbox(round_began timestamptz, relation regclass)
returns int
language sql
as $$
    with noted as (
        update baton.outboxes o set maintained_at = clock_timestamp()
         where o.outbox_id = (
            select x.outbox_id from baton.outboxes x
             where case when $2 is null
                        then (x.maintained_at between round_began and clock_timestamp()) is not true and round_began <= clock_timestamp()
                             and exists (select from pg_catalog.pg_class c where c.oid = x.relation)
                        else x.relation = $2 end and baton_internal.is_complete(x.relation)
             order by nullif(x.maintained_at, greatest(x.maintained_at, clock_timestamp())) nulls first, x.outbox_id limit 1 for no key update skip locked)
        returning o.outbox_id)
    select n.outbox_id from noted n
    union  -- one that was asked for has its turn although somebody else is at it: the steps wait a little for each other
    select x.outbox_id from baton.outboxes x where x.relation = $2 and baton_internal.is_complete(x.relation)
$$;
comment on function baton_internal.choose_outbox(timestamptz, regclass) is 'the outbox whose turn it is';

-- Do one phase of an outbox's maintenance; returns the next one, null after the last.
create function baton_internal.maintain_outbox(outbox baton.outboxes, phase text, tries int)
returns text
language plpgsql
as $$
declare
    most_tries constant int := 5;
    part baton_internal.outbox_partitions;
    outcome text;
begin
    case phase
    when 'extend' then
        perform baton_internal.verify_era(outbox.relation), baton_internal.make_outbox_calls(outbox), baton_internal.extend_outbox(outbox);
        return 'rotate';
    when 'rotate' then
        perform baton_internal.rotate_outbox(outbox);
        return 'copy';
    when 'copy', 'detach' then
        part := baton_internal.next_to_retire(outbox);
        if part is null or tries >= most_tries then
            return 'release';
        elsif phase = 'copy' then
            return case when baton_internal.copy_parked(part, 500) > 0 then 'copy' when baton_internal.needs_copies(part) then 'release' else 'detach' end;
        end if;
        outcome := baton_internal.detach_partition(outbox, part);
        return case outcome when 'held' then 'release' when 'busy' then 'detach' else 'copy' end;
    when 'release' then
        return case when baton_internal.release_partition(outbox) then 'release' else 'watch' end;
    when 'watch' then
        perform baton_internal.watch_storage(outbox);
        update baton.outboxes o set maintenance_error = null where o.outbox_id = outbox.outbox_id and o.maintenance_error is not null;
        return null;
    end case;
end
$$;
comment on function baton_internal.maintain_outbox(baton.outboxes, text, int) is 'one phase of an outbox''s maintenance';

-- Note what went wrong with an outbox's maintenance; an alert goes out when it is news.
create function baton_internal.note_trouble(outbox baton.outboxes, problem text)
returns void
language plpgsql
as $$
begin
    if outbox.maintenance_error is distinct from problem then
        update baton.outboxes o set maintenance_error = problem where o.outbox_id = outbox.outbox_id;
        perform baton_internal.alert('maintenance_failed', outbox.relation::text, jsonb_build_object('error', left(problem, 1000)));
    end if;
    raise warning 'maintenance of % failed: %', outbox.relation, problem;
end
$$;
comment on function baton_internal.note_trouble(baton.outboxes, text) is 'notes an outbox whose maintenance failed';

-- Do one step of the maintenance of one outbox or all; returns where to go on, null when the round is over.
create function baton_internal.maintenance_step(resume jsonb, relation regclass)
returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'  -- no lock that is waited for here stands in a writer's way; whoever needs a stronger one asks for less time
as $$
declare
    tries constant int := coalesce((resume ->> 'tries')::int, 0);
    phase constant text := resume ->> 'phase';
    most_tries constant int := 5;
    outbox baton.outboxes;
    next_phase text;
begin
    if resume is null then
        if relation is not null then
            perform baton_internal.find_outbox(relation);
        end if;
        return jsonb_build_object('round', clock_timestamp(), 'phase', 'common');
    elsif phase = 'common' then
        return resume || jsonb_build_object('phase', case when baton_internal.maintain_common() then 'common' else 'choose' end);
    elsif phase = 'choose' and relation is not null and resume ? 'outbox' then
        return null;
    elsif phase = 'choose' then
        return resume || jsonb_build_object('phase', 'extend', 'tries', 0, 'outbox', c.chosen)
          from baton_internal.choose_outbox((resume ->> 'round')::timestamptz, relation) c (chosen) where c.chosen is not null;
    end if;
    if tries > 0 then
        perform pg_sleep(0.05 * tries);  -- before any lock is taken
    end if;
    select o.* into outbox from baton.outboxes o join pg_catalog.pg_class c on c.oid = o.relation
     where o.outbox_id = (resume ->> 'outbox')::int for no key update of o skip locked;
    if found then
        begin
            next_phase := baton_internal.maintain_outbox(outbox, phase, tries);
        exception when others then
            perform baton_internal.note_trouble(outbox, sqlstate || ': ' || sqlerrm);
        end;
    elsif tries < most_tries and exists (select from baton.outboxes o where o.outbox_id = (resume ->> 'outbox')::int) then
        return resume || jsonb_build_object('tries', tries + 1);  -- somebody else maintains or alters it just now
    end if;
    return resume || jsonb_build_object('phase', coalesce(next_phase, 'choose'),
        'tries', case when phase = 'detach' and next_phase in ('detach', 'copy') then tries + 1 when phase = 'copy' then tries else 0 end);
end
$$;
comment on function baton_internal.maintenance_step(jsonb, regclass) is 'one step of maintenance, see baton.maintenance_step()';

-- Do one step of maintenance, for callers that commit themselves: pass on what it returned, until that is null. Other than
-- run_maintenance() it can be called in a transaction; what it locks stays locked until that ends.
create function baton.maintenance_step(resume jsonb default null, outbox text default null)
returns jsonb
language sql
as $$ select baton_internal.maintenance_step(resume, case when outbox is not null then baton_internal.resolve_table(outbox) end) $$;
comment on function baton.maintenance_step(jsonb, text) is 'one step of maintenance; returns where the next step begins, null at the end';

-- The job: maintenance of all outboxes, step by step.
create function baton_internal.maintain_outboxes(resume jsonb)
returns jsonb
language sql
as $$ select baton_internal.maintenance_step(resume, null) $$;
comment on function baton_internal.maintain_outboxes(jsonb) is 'the job that maintains outboxes, a step at a time';

-- Keep outboxes in order: partitions ahead, rotation, retention, alerts, dead consumers. The scheduler does it; so may you.
create procedure baton.run_maintenance(outbox text default null)
language plpgsql
as $$
declare
    relation constant regclass := case when outbox is not null then baton_internal.resolve_table(outbox) end;
    resume jsonb;
begin
    loop
        commit;
        set transaction isolation level read committed;  -- whatever the database's default is
        resume := baton_internal.maintenance_step(resume, relation);
        exit when resume is null;
    end loop;
end
$$;
comment on procedure baton.run_maintenance(text) is 'maintains one or all outboxes now; call it outside of a transaction block';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_relay}', '{run_maintenance,maintenance_step}');
