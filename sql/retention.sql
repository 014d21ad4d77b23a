-- Retention: partitions are begun, closed, archived and dropped whole. Nothing here reads or rewrites events, apart
-- from parked ones that are copied out of a partition before it goes.

-- Begin the next partition when the current one is old or large enough: the sequence moves to its first id.
create function baton_internal.rotate_outbox(outbox baton.outboxes)
returns void
language plpgsql
as $$
declare
    sequence_name constant text := pg_get_serial_sequence(outbox.relation::text, 'id');
    last_value bigint;
    is_called boolean;
    here baton_internal.outbox_partitions;
begin
    execute format('select last_value, is_called from %s', sequence_name) into last_value, is_called;
    select * into here from baton_internal.outbox_partitions p
     where p.outbox_id = outbox.outbox_id and last_value >= p.first_id and last_value < p.end_id;
    update baton_internal.outbox_partitions p set opened_at = clock_timestamp()
     where p.outbox_id = outbox.outbox_id and p.first_id = here.first_id and p.opened_at is null;
    while (select count(*) from baton_internal.outbox_partitions p where p.outbox_id = outbox.outbox_id and p.first_id > here.first_id) < 2 loop
        perform baton_internal.add_partition(outbox);
    end loop;
    if (is_called or last_value > here.first_id)  -- an empty partition is not left
       and (here.opened_at + outbox.partition_interval <= clock_timestamp()
            or pg_table_size(here.relation) >= outbox.partition_bytes) then
        perform setval(sequence_name, here.end_id, false);
        update baton_internal.outbox_partitions p set last_id = last_value where p.outbox_id = outbox.outbox_id and p.first_id = here.first_id;
        update baton_internal.outbox_partitions p set opened_at = clock_timestamp()
         where p.outbox_id = outbox.outbox_id and p.first_id = here.end_id;
        perform baton_internal.add_partition(outbox);
    end if;
end
$$;
comment on function baton_internal.rotate_outbox(baton.outboxes) is 'adds partitions ahead and begins the next one when it is time';

-- Close partitions that the log has left. Every row in one has an xid below the one drawn here, because a row has its
-- xid before it draws its id, and no id of the partition is drawn any more.
create function baton_internal.close_partitions(outbox baton.outboxes)
returns void
language plpgsql
as $$
declare
    next_value bigint;
begin
    execute format('select last_value + case when is_called then 1 else 0 end from %s', pg_get_serial_sequence(outbox.relation::text, 'id')) into next_value;
    update baton_internal.outbox_partitions p
       set closed_at = clock_timestamp(), closed_xid = pg_current_xact_id(), last_id = coalesce(p.last_id, p.end_id - 1),
           closed_era = (select max(e.era) from baton_internal.outbox_eras e where e.outbox_id = outbox.outbox_id)
     where p.outbox_id = outbox.outbox_id and p.closed_at is null and p.end_id <= next_value;
end
$$;
comment on function baton_internal.close_partitions(baton.outboxes) is 'marks partitions that get no more rows';

-- The groups that still need something of a partition: those that have not dispatched every transaction which can have written
-- into it, and those with a piece of it under way. Parked events do not hold it; they are copied when it goes.
create function baton_internal.partition_holders(part baton_internal.outbox_partitions)
returns setof text
language sql stable
as $$
    select g.group_name
      from baton.consumer_groups g
      join baton_internal.group_positions p using (group_id)
      left join baton_internal.windows w on w.group_id = p.group_id and w.window_number = p.window_number and p.window_open
     where g.outbox_id = part.outbox_id
       and (part.closed_xid is null
            or not (p.era > part.closed_era
                    or p.era = part.closed_era and pg_snapshot_xmin(p.seen) >= part.closed_xid
                    or p.era = part.closed_era and pg_snapshot_xmin(w.sight) >= part.closed_xid and p.after_id >= part.end_id - 1)
            or exists (select from baton_internal.pieces q where q.group_id = g.group_id
                          and q.upto_id >= part.first_id and q.after_id < part.end_id - 1))
$$;
comment on function baton_internal.partition_holders(baton_internal.outbox_partitions) is 'groups that have not settled everything in a partition';

-- Take a closed partition out of the log: into the archive, or away. False when writers keep it busy; try again later.
create function baton_internal.retire_partition(outbox baton.outboxes, part baton_internal.outbox_partitions)
returns boolean
language plpgsql
as $$
declare
    archive regclass;
begin
    begin  -- whoever publishes meanwhile waits no longer than this
        perform set_config('lock_timeout', '20ms', true);
        execute format('lock table %s in access exclusive mode', outbox.relation);
        perform set_config('lock_timeout', '0', true);
    exception when lock_not_available then
        return false;
    end;
    update baton_internal.parked q set event = baton_internal.copy_event(outbox, q.id)
      from baton.consumer_groups g
     where g.outbox_id = outbox.outbox_id and q.group_id = g.group_id and q.event is null
       and q.id >= part.first_id and q.id < part.end_id;
    execute format('alter table %s detach partition %s', outbox.relation, part.relation);
    if outbox.archive_for is null then
        execute format('drop table %s', part.relation);
        delete from baton_internal.outbox_partitions p where p.outbox_id = part.outbox_id and p.first_id = part.first_id;
    else
        archive := baton_internal.ensure_archive(outbox);
        execute format('alter table %s attach partition %s for values from (%s) to (%s)', archive, part.relation, part.first_id, part.end_id);
        update baton_internal.outbox_partitions p set archived_at = clock_timestamp()
         where p.outbox_id = part.outbox_id and p.first_id = part.first_id;
    end if;
    return true;
end
$$;
comment on function baton_internal.retire_partition(baton.outboxes, baton_internal.outbox_partitions) is 'archives or drops a partition that nobody needs';

-- Make the archive table of an outbox when it is not there.
create function baton_internal.ensure_archive(outbox baton.outboxes)
returns regclass
language plpgsql
as $$
declare
    place record;
begin
    if baton_internal.archive_of(outbox) is null then
        select n.nspname as schema_name, baton_internal.derived_name(c.relname, '_archive') as table_name into place
          from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = outbox.relation;
        execute format('create table %I.%I (like %s including defaults) partition by range (id)', place.schema_name, place.table_name, outbox.relation);
        if to_regrole('baton_operator') is not null then
            execute format('grant select on %I.%I to baton_operator', place.schema_name, place.table_name);
        end if;
    end if;
    return baton_internal.archive_of(outbox);
end
$$;
comment on function baton_internal.ensure_archive(baton.outboxes) is 'archive table of an outbox, made on first use';

-- Apply retention to one outbox; returns how many partitions left the log or the archive.
create function baton_internal.retire_outbox(outbox baton.outboxes, force boolean)
returns int
language plpgsql
as $$
declare
    keep constant interval := coalesce(outbox.retention, make_interval(hours => baton.setting('outbox_retention_hours')::int));
    part baton_internal.outbox_partitions;
    holders text[];
    retired int := 0;
begin
    for part in select * from baton_internal.outbox_partitions p
                 where p.outbox_id = outbox.outbox_id and p.archived_at is null and p.closed_at <= clock_timestamp() - keep
                 order by p.first_id loop
        holders := array(select baton_internal.partition_holders(part));
        if holders <> '{}' then
            exit when not force;
            perform baton_internal.record_action('force_retention', outbox.relation::text,
                jsonb_build_object('partition', part.relation::text, 'groups', to_jsonb(holders)));
            delete from baton_internal.pieces q using baton.consumer_groups g
             where g.outbox_id = outbox.outbox_id and q.group_id = g.group_id and q.upto_id < part.end_id and q.after_id >= part.first_id - 1;
        end if;
        exit when not baton_internal.retire_partition(outbox, part);
        retired := retired + 1;
    end loop;
    for part in select * from baton_internal.outbox_partitions p
                 where p.outbox_id = outbox.outbox_id and p.archived_at <= clock_timestamp() - outbox.archive_for loop
        execute format('drop table %s', part.relation);
        delete from baton_internal.outbox_partitions p where p.outbox_id = part.outbox_id and p.first_id = part.first_id;
        retired := retired + 1;
    end loop;
    return retired;
end
$$;
comment on function baton_internal.retire_outbox(baton.outboxes, boolean) is 'applies retention to one outbox';

-- Keep outboxes in order: partitions ahead, rotation, retention, alerts, dead consumers. The scheduler calls it; so may you.
create function baton.run_maintenance(outbox text default null)
returns table (outbox_name text, retired_partitions int)
language sql
as $$ select * from baton_internal.maintain(case when outbox is not null then baton_internal.resolve_table(outbox) end) $$;
comment on function baton.run_maintenance(text) is 'partitions, retention, alerts and clean-up of one or all outboxes';

-- Maintain one or all outboxes.
create function baton_internal.maintain(relation regclass)
returns table (outbox_name text, retired_partitions int)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    o baton.outboxes;
    kept baton.outboxes[] := '{}';
    force constant boolean := baton.setting('outbox_force_retention')::boolean;
begin
    if relation is not null then
        perform baton_internal.find_outbox(relation);
    end if;
    -- The catalog's row comes before the table, as for whoever drops or alters an outbox: what they are at is left alone.
    for o in select x.* from baton.outboxes x join pg_class c on c.oid = x.relation
              where (maintain.relation is null or x.relation = maintain.relation) and baton_internal.is_complete(x.relation)
                for no key update of x skip locked loop
        perform baton_internal.verify_era(o.relation), baton_internal.rotate_outbox(o), baton_internal.close_partitions(o);
        kept := kept || o;
    end loop;
    delete from baton_internal.idempotency_keys k where k.expires_at < clock_timestamp();
    perform baton_internal.watch_consumers();
    -- At last what locks publishers out until the end of the transaction.
    foreach o in array kept loop
        outbox_name := o.relation::text;
        retired_partitions := baton_internal.retire_outbox(o, force);
        perform baton_internal.watch_storage(o);
        return next;
    end loop;
end
$$;
comment on function baton_internal.maintain(regclass) is 'maintains outboxes; called by run_maintenance()';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_relay}', '{run_maintenance,maintain}');
