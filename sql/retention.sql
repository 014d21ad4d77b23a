-- Retention: partitions are begun, left, taken out of the log, archived and dropped whole. Nothing here reads or rewrites events,
-- apart from parked ones that are copied before their partition goes. docs/adr/0007-maintenance-in-phases.md says why it is safe;
-- sql/maintenance.sql runs these phases, each in a transaction of its own.

-- Read the place of an outbox's sequence: the id that the next publisher gets.
create function baton_internal.next_id(relation regclass)
returns bigint
language plpgsql volatile
as $$
declare
    next_value bigint;
begin
    execute format('select last_value + is_called::int from %s', pg_get_serial_sequence(relation::text, 'id')) into next_value;
    return next_value;
end
$$;
comment on function baton_internal.next_id(regclass) is 'the id that the next event of an outbox gets';

-- Refuse a sequence that hands out ids in advance: a session would publish into a partition long after the log has left it.
create function baton_internal.check_sequence(relation regclass)
returns void
language plpgsql stable
as $$
declare
    sequence_name constant text := pg_get_serial_sequence(relation::text, 'id');
begin
    if (select s.seqcache > 1 or s.seqincrement < 1 from pg_catalog.pg_sequence s where s.seqrelid = sequence_name::regclass) then
        raise exception 'the sequence % hands out ids in advance or downwards', sequence_name
            using errcode = 'object_not_in_prerequisite_state',
                  hint = format('alter sequence %s increment 1 cache 1', sequence_name);
    end if;
end
$$;
comment on function baton_internal.check_sequence(regclass) is 'refuses an id sequence with CACHE above 1';

-- Note where the log is. The sequence says so, whatever a crash has left in the catalog: what lies before it has been left.
create function baton_internal.note_place(outbox baton.outboxes)
returns baton_internal.outbox_partitions
language plpgsql
as $$
declare
    next_value constant bigint := baton_internal.next_id(outbox.relation);
    here baton_internal.outbox_partitions;
begin
    update baton_internal.outbox_partitions p
       set state = 'left', since = clock_timestamp(), last_id = coalesce(p.last_id, p.end_id - 1)
     where p.outbox_id = outbox.outbox_id and p.state in ('new', 'ahead', 'open') and p.end_id <= next_value;
    update baton_internal.outbox_partitions p set state = 'open', since = clock_timestamp()
     where p.outbox_id = outbox.outbox_id and p.state in ('new', 'ahead') and p.first_id <= next_value;
    select * into here from baton_internal.outbox_partitions p
     where p.outbox_id = outbox.outbox_id and p.first_id <= next_value and p.end_id > next_value;
    if here.state is distinct from 'open' then
        raise exception 'the next id of outbox % is %, which no open partition takes', outbox.relation, next_value
            using errcode = 'object_not_in_prerequisite_state',
                  hint = format('somebody has moved the sequence %s: set it back to its last value', pg_get_serial_sequence(outbox.relation::text, 'id'));
    end if;
    return here;
end
$$;
comment on function baton_internal.note_place(baton.outboxes) is 'notes which partition the sequence has left, and which is open';

-- Note partitions of the log and of the archive that the catalog does not know. A dump without one of its tables leaves the catalog without the rows of
-- all of them. Where the sequence is tells what has been left; their time counts from now.
create function baton_internal.find_partitions(outbox baton.outboxes)
returns void
language sql
as $$
    insert into baton_internal.outbox_partitions (outbox_id, first_id, end_id, relation, state)
    select outbox.outbox_id, b.ids[1]::bigint, b.ids[2]::bigint, c.oid, case when i.inhparent = outbox.relation then 'new' else 'archived' end
      from pg_catalog.pg_inherits i
      join pg_catalog.pg_class c on c.oid = i.inhrelid
     cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), $r$FROM \('?(\d+)'?\) TO \('?(\d+)'?\)$r$) as b (ids)
     where i.inhparent in (outbox.relation, baton_internal.archive_of(outbox)) and not i.inhdetachpending and b.ids is not null
    on conflict (outbox_id, first_id) do nothing
$$;
comment on function baton_internal.find_partitions(baton.outboxes) is 'notes partitions that are missing in the catalog after a restore';

-- Keep two partitions ahead of the log. Nobody waits for that.
create function baton_internal.extend_outbox(outbox baton.outboxes)
returns void
language plpgsql
as $$
begin
    delete from baton_internal.outbox_partitions p  -- somebody has dropped the table by hand
     where p.outbox_id = outbox.outbox_id and not exists (select from pg_catalog.pg_class c where c.oid = p.relation);
    perform baton_internal.find_partitions(outbox);
    update baton_internal.outbox_partitions p set since = clock_timestamp()  -- noted while the clock was ahead
     where p.outbox_id = outbox.outbox_id and p.since > clock_timestamp();
    perform baton_internal.note_place(outbox);
    while (select count(*) from baton_internal.outbox_partitions p where p.outbox_id = outbox.outbox_id and p.state in ('new', 'ahead')) < 2 loop
        perform baton_internal.add_partition(outbox);
    end loop;
end
$$;
comment on function baton_internal.extend_outbox(baton.outboxes) is 'makes the partitions that come next';

-- Note which new partitions everybody knows by now. A statement learns at its start which partitions there are; an id of a later one would
-- make it fail. So whoever was writing when the partition had come must have ended. One made in this transaction nobody knows.
create function baton_internal.note_known_partitions(outbox baton.outboxes)
returns void
language plpgsql
as $$
declare
    writers constant text[] := array(
        select l.virtualtransaction from pg_catalog.pg_locks l
         where l.locktype = 'relation' and l.relation = outbox.relation and l.pid <> pg_backend_pid()
           and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database()));
begin
    update baton_internal.outbox_partitions p
       set waits_for = array(select w from unnest(coalesce(p.waits_for, writers)) w where w = any (writers))
     where p.outbox_id = outbox.outbox_id and p.state = 'new' and p.since < now();
    update baton_internal.outbox_partitions p set state = 'ahead', waits_for = null
     where p.outbox_id = outbox.outbox_id and p.state = 'new' and p.waits_for = '{}';
end
$$;
comment on function baton_internal.note_known_partitions(baton.outboxes) is 'marks new partitions as ahead once every writer knows them';

-- The highest id in a partition, null when it is empty.
create function baton_internal.highest_id(part baton_internal.outbox_partitions)
returns bigint
language plpgsql volatile
as $$
declare
    highest bigint;
begin
    execute format('select max(id) from %s', part.relation) into highest;
    return highest;
end
$$;
comment on function baton_internal.highest_id(baton_internal.outbox_partitions) is 'highest id in a partition';

-- Begin the next partition when the current one is old or large enough: the sequence moves to its first id, at once for everybody.
-- A quiet log is left too, so that what it holds can go; only an empty partition stays.
create function baton_internal.rotate_outbox(outbox baton.outboxes)
returns void
language plpgsql
as $$
declare
    here constant baton_internal.outbox_partitions := baton_internal.note_place(outbox);
    coming baton_internal.outbox_partitions;
    highest constant bigint := baton_internal.highest_id(here);  -- read before the sequence
    next_value bigint;
begin
    perform baton_internal.check_sequence(outbox.relation), baton_internal.note_known_partitions(outbox);
    next_value := baton_internal.next_id(outbox.relation);
    select * into coming from baton_internal.outbox_partitions p
     where p.outbox_id = outbox.outbox_id and p.first_id = here.end_id and p.state = 'ahead';
    if found and next_value > here.first_id
       and (here.since + outbox.partition_interval <= clock_timestamp() or pg_table_size(here.relation) >= outbox.partition_bytes
            or highest >= next_value) then  -- an id that was not drawn: publishers would come upon it
        perform setval(pg_get_serial_sequence(outbox.relation::text, 'id'),
                       greatest(coming.first_id, baton_internal.highest_id(coming) + 1), false);
        update baton_internal.outbox_partitions p set last_id = next_value - 1
         where p.outbox_id = outbox.outbox_id and p.first_id = here.first_id;
        perform baton_internal.note_place(outbox);
    end if;
end
$$;
comment on function baton_internal.rotate_outbox(baton.outboxes) is 'lets the next partition begin when it is time';

-- The groups that have not settled everything in a partition: an event of it is not dispatched yet, or is part of a piece. Parked events
-- do not hold it; they are copied when it goes. Positions, pieces and events are read under one snapshot. The answer is final only
-- while the caller keeps writers out.
create function baton_internal.partition_holders(part baton_internal.outbox_partitions)
returns setof text
language plpgsql volatile
set enable_bitmapscan = off set enable_seqscan = off set jit = off  -- each look is one descent into an index
as $$
begin
    return query execute format($sql$
        select g.group_name
          from baton.consumer_groups g
          join baton_internal.group_positions p using (group_id)
          left join baton_internal.windows w on w.group_id = p.group_id and w.window_number = p.window_number and p.window_open
         cross join lateral (
               select coalesce(w.sight, p.seen) as sight, coalesce(max(e.last_id) filter (where e.era < p.era), 0) as before_era,
                      coalesce(max(e.last_id) filter (where e.era = p.era), 9223372036854775807) as era_end
                 from baton_internal.outbox_eras e where e.outbox_id = g.outbox_id) s
         where g.outbox_id = $1
           and (exists (select from %1$s t where t.id > s.era_end)
                or exists (select from %1$s t where t.xid >= pg_snapshot_xmax(s.sight) and t.id > s.before_era and t.id <= s.era_end)
                or exists (select from pg_snapshot_xip(s.sight) x
                            cross join lateral (select from %1$s t where t.xid = x and t.id > s.before_era and t.id <= s.era_end limit 1) late)
                or exists (select from %1$s t where t.id > p.after_id and t.id >= w.first_id and t.id <= s.era_end)
                or exists (select from unnest(w.late) x
                            cross join lateral (select from %1$s t where t.xid = x and t.id > p.after_id limit 1) late)
                or exists (select from baton_internal.pieces q where q.group_id = g.group_id and q.upto_id >= $2 and q.after_id < $3 - 1))
         order by 1$sql$, part.relation) using part.outbox_id, part.first_id, part.end_id;
end
$$;
comment on function baton_internal.partition_holders(baton_internal.outbox_partitions) is 'groups that have not settled everything in a partition';

-- Copy parked events out of a partition, some at a time; returns how many. Those that somebody works on wait for the next call.
create function baton_internal.copy_parked(part baton_internal.outbox_partitions, step int)
returns int
language plpgsql
set enable_bitmapscan = off set enable_seqscan = off set jit = off
as $$
declare
    copied int;
begin
    execute format($sql$
        with chosen as materialized (
            select q.parked_id, %2$s as event
              from baton.consumer_groups g
              join baton_internal.parked q using (group_id)
              join %1$s e on e.id = q.id
             where g.outbox_id = $1 and q.id >= $2 and q.id < $3 and q.event is null
             limit $4 for update of q skip locked)
        update baton_internal.parked q set event = c.event from chosen c where q.parked_id = c.parked_id$sql$, part.relation, baton_internal.event_as_json())
      using part.outbox_id, part.first_id, part.end_id, step;
    get diagnostics copied = row_count;
    return copied;
exception when data_exception or program_limit_exceeded or internal_error then
    return baton_internal.copy_parked_singly(part, step);
end
$$;
comment on function baton_internal.copy_parked(baton_internal.outbox_partitions, int) is 'copies parked events, so that their partition can go';

-- The same one by one, where jsonb has no place for one of them: that one becomes a dead letter, and the log keeps its partition until it is discarded.
create function baton_internal.copy_parked_singly(part baton_internal.outbox_partitions, step int)
returns int
language plpgsql
as $$
declare
    outbox baton.outboxes;
    q baton_internal.parked;
    copied int := 0;
begin
    select * into outbox from baton.outboxes o where o.outbox_id = part.outbox_id;
    for q in select p.* from baton.consumer_groups g join baton_internal.parked p using (group_id)
              where g.outbox_id = part.outbox_id and p.id >= part.first_id and p.id < part.end_id and p.event is null
              order by p.state = 'dead' limit step for update of p skip locked loop
        q.event := baton_internal.copy_event(outbox, q.id);
        update baton_internal.parked p
           set event = q.event, state = case when q.event is null then 'dead' else p.state end,
               error = case when q.event is null then 'this event cannot be copied out of the log' else p.error end
         where p.parked_id = q.parked_id and (q.event is not null or p.state <> 'dead' and p.lease_token is null);
        copied := copied + found::int;
    end loop;
    return copied;
end
$$;
comment on function baton_internal.copy_parked_singly(baton_internal.outbox_partitions, int) is 'copies parked events one by one';

-- Whether a parked event of a partition has no copy yet.
create function baton_internal.needs_copies(part baton_internal.outbox_partitions)
returns boolean
language plpgsql volatile
set enable_bitmapscan = off set enable_seqscan = off set jit = off
as $$
declare
    found_one boolean;
begin
    execute format($sql$
        select exists (select from baton.consumer_groups g
                         join baton_internal.parked q using (group_id)
                         join %s t on t.id = q.id
                        where g.outbox_id = $1 and q.id >= $2 and q.id < $3 and q.event is null)$sql$, part.relation)
       into found_one using part.outbox_id, part.first_id, part.end_id;
    return found_one;
end
$$;
comment on function baton_internal.needs_copies(baton_internal.outbox_partitions) is 'true when parked events of a partition are not copied yet';

-- The oldest partition of the log when it is old enough to go, or null.
create function baton_internal.overdue_partition(outbox baton.outboxes)
returns baton_internal.outbox_partitions
language plpgsql volatile
as $$
declare
    keep constant interval := coalesce(outbox.retention, make_interval(hours => baton.setting('outbox_retention_hours')::int));
    part baton_internal.outbox_partitions;
begin
    select * into part from baton_internal.outbox_partitions p
     where p.outbox_id = outbox.outbox_id and p.state = 'left' order by p.first_id limit 1;
    return case when part.since <= clock_timestamp() - keep then part end;
end
$$;
comment on function baton_internal.overdue_partition(baton.outboxes) is 'the oldest partition, when retention wants it gone';

-- The next partition that retention takes out of the log, or null: the oldest one, when it is old enough and nobody needs it.
create function baton_internal.next_to_retire(outbox baton.outboxes)
returns baton_internal.outbox_partitions
language plpgsql volatile
as $$
declare
    part constant baton_internal.outbox_partitions := baton_internal.overdue_partition(outbox);
begin
    if part is null then
        return null;
    elsif baton.setting('outbox_force_retention')::boolean or not exists (select baton_internal.partition_holders(part)) then
        return part;
    end if;
    return null;
end
$$;
comment on function baton_internal.next_to_retire(baton.outboxes) is 'the partition that may leave the log now';

-- Take a partition out of the log. The lock keeps out everybody, and nobody who has it waits for anything: what is needed is judged under
-- it and decides. It is given back at once when the answer is no. Returns
--   detached   the partition has left the log
--   busy       somebody is at work: try again; whoever publishes meanwhile has waited no longer than the lock timeout
--   held       a group needs the partition after all
--   uncopied   an event was parked since the last copy
create function baton_internal.detach_partition(outbox baton.outboxes, part baton_internal.outbox_partitions)
returns text
language plpgsql
set lock_timeout = '20ms'
as $$
declare
    drawn constant bigint := coalesce(part.last_id, part.end_id - 1) - part.first_id + 1;
    outcome text;
    holders text[];
begin
    if current_setting('transaction_isolation') <> 'read committed' then  -- an older snapshot would not show what was written last
        raise exception 'maintenance cannot run in a transaction that is %', current_setting('transaction_isolation')
            using errcode = 'object_not_in_prerequisite_state', hint = 'use the isolation level read committed';
    end if;
    begin
        execute format('lock table only %s, only %s in access exclusive mode', outbox.relation, part.relation);
        perform from baton.outboxes o where o.outbox_id = outbox.outbox_id for update nowait;  -- somebody may be making a group
        holders := array(select baton_internal.partition_holders(part));
        outcome := case when holders <> '{}' and not baton.setting('outbox_force_retention')::boolean then 'held'
                        when baton_internal.needs_copies(part) then 'uncopied' else 'detached' end;
        if outcome <> 'detached' then
            raise exception using errcode = 'BT000';  -- gives the lock back
        end if;
        execute format('alter table %s detach partition %s', outbox.relation, part.relation);
        update baton_internal.outbox_partitions p set state = 'detached', since = clock_timestamp()
         where p.outbox_id = part.outbox_id and p.first_id = part.first_id;
        update baton.outboxes o set events_retired = o.events_retired + drawn, last_drained_at = clock_timestamp(), last_drained_count = drawn
         where o.outbox_id = outbox.outbox_id;
        if holders <> '{}' then
            perform baton_internal.record_action('force_retention', outbox.relation::text,
                jsonb_build_object('partition', part.relation::text, 'groups', to_jsonb(holders)));
        end if;
    exception
        when lock_not_available or deadlock_detected then
            outcome := 'busy';
        when sqlstate 'BT000' then
            null;
    end;
    return outcome;
end
$$;
comment on function baton_internal.detach_partition(baton.outboxes, baton_internal.outbox_partitions)
    is 'takes a partition that nobody needs out of the log';

-- Forget pieces whose events are gone, which forced retention leaves behind.
create function baton_internal.drop_pieces(part baton_internal.outbox_partitions)
returns void
language plpgsql
as $$
declare
    of_group int;
begin
    for of_group in select distinct q.group_id from baton_internal.pieces q join baton.consumer_groups g using (group_id)
                     where g.outbox_id = part.outbox_id and q.after_id >= part.first_id - 1 and q.upto_id < part.end_id loop
        perform baton_internal.lock_position(of_group);
        delete from baton_internal.pieces q
         where q.group_id = of_group and q.after_id >= part.first_id - 1 and q.upto_id < part.end_id;
    end loop;
end
$$;
comment on function baton_internal.drop_pieces(baton_internal.outbox_partitions) is 'forgets pieces of a partition that was dropped by force';

-- Archive or drop one partition that has left the log, or drop one that has been in the archive for long enough. False when there is none.
create function baton_internal.release_partition(outbox baton.outboxes)
returns boolean
language plpgsql
as $$
declare
    part baton_internal.outbox_partitions;
begin
    select * into part from baton_internal.outbox_partitions p
     where p.outbox_id = outbox.outbox_id
       and (p.state = 'detached' or p.state = 'archived' and p.since <= clock_timestamp() - outbox.archive_for)
     order by p.first_id limit 1;
    if not found then
        return false;
    end if;
    perform baton_internal.drop_pieces(part);
    delete from baton_internal.stray_events s where s.outbox_id = outbox.outbox_id and s.id >= part.first_id and s.id < part.end_id;
    if part.state = 'detached' and outbox.archive_for is not null then
        execute format('alter table %s attach partition %s for values from (%s) to (%s)', baton_internal.ensure_archive(outbox), part.relation,
                       part.first_id, part.end_id);
        update baton_internal.outbox_partitions p set state = 'archived', since = clock_timestamp()
         where p.outbox_id = part.outbox_id and p.first_id = part.first_id;
    else
        execute format('drop table %s', part.relation);
        delete from baton_internal.outbox_partitions p where p.outbox_id = part.outbox_id and p.first_id = part.first_id;
    end if;
    return true;
end
$$;
comment on function baton_internal.release_partition(baton.outboxes) is 'archives or drops one partition that has left the log';

-- Make the archive table of an outbox when it is not there.
create function baton_internal.ensure_archive(outbox baton.outboxes)
returns regclass
language plpgsql
as $$
declare
    archive regclass := baton_internal.archive_of(outbox);
    place record;
begin
    if archive is not null then
        return archive;
    end if;
    select n.nspname as schema_name, c.relname as table_name into place
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = outbox.relation;
    place.table_name := baton_internal.unused_name(place.schema_name, place.table_name, '_archive');
    execute format('create table %I.%I (like %s including defaults) partition by range (id)', place.schema_name, place.table_name, outbox.relation);
    archive := format('%I.%I', place.schema_name, place.table_name)::regclass;
    insert into baton_internal.outbox_archives as a (outbox_id, relation) values (outbox.outbox_id, archive)
    on conflict (outbox_id) do update set relation = excluded.relation;
    perform baton_internal.close_to_others(archive);
    if to_regrole('baton_operator') is not null then
        execute format('grant select on %s to baton_operator', archive);
    end if;
    return archive;
end
$$;
comment on function baton_internal.ensure_archive(baton.outboxes) is 'archive table of an outbox, made on first use';
