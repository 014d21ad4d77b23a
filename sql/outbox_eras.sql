-- Eras: transaction ids mean something only within the history that gave them. The first publish or poll after a restore
-- compares where the log was written with where the log is now, and ends the era when they differ: what came with the restore is
-- read by the old snapshots, what is new by new ones. No row is touched. See docs/adr/0003-eras.md for the histories there are.

-- The timeline on which this server writes now. The control file would know of a promotion only after the next checkpoint.
create function baton_internal.current_timeline()
returns int
language sql stable
as $$ select ('x' || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8))::bit(32)::int $$;
comment on function baton_internal.current_timeline() is 'the timeline on which this server writes';

-- Whether a log is all there, with what the groups know of it. A restore makes a primary key after the table's rows: until then
-- nobody may judge by what is in the table, or events that are still to come would count as seen.
create function baton_internal.is_complete(relation regclass)
returns boolean
language plpgsql stable
as $$
begin
    return not exists (
        select from unnest(array[is_complete.relation, 'baton_internal.outbox_eras', 'baton_internal.outbox_partitions', 'baton.consumer_groups',
                                 'baton_internal.group_positions', 'baton_internal.windows', 'baton_internal.pieces', 'baton_internal.parked',
                                 'baton_internal.stray_events']::regclass[]) r
         where not exists (select from pg_catalog.pg_index i where i.indrelid = r and i.indisprimary and i.indisvalid));
end
$$;
comment on function baton_internal.is_complete(regclass) is 'false while a log is being restored';

-- Begin an era in this cluster.
create function baton_internal.begin_era(outbox_id int, era int, relation regclass)
returns void
language sql
as $$
    insert into baton_internal.outbox_eras (outbox_id, era, system_identifier, timeline, relation_id)
    values ($1, $2, baton_internal.system_identifier(), baton_internal.current_timeline(), $3)
$$;
comment on function baton_internal.begin_era(int, int, regclass) is 'begins an era: from now on this server writes the log';

-- Whether the era's positions, or its newest rows, know transaction ids that this server has not given yet. In the history that gave
-- them this cannot be. Clones of one image, restored from each other's dump, may differ in nothing else.
create function baton_internal.is_ahead(open_era baton_internal.outbox_eras)
returns boolean
language plpgsql volatile
as $$
declare
    part regclass;
    ahead boolean;
begin
    if exists (select from baton.consumer_groups g
                cross join lateral (select q.* from baton_internal.group_positions q where q.group_id = g.group_id order by q.generation desc limit 1) p
                 left join baton_internal.windows w on w.group_id = p.group_id and w.window_number = p.window_number and p.window_open
                where g.outbox_id = open_era.outbox_id and p.era = open_era.era
                  and pg_snapshot_xmax(coalesce(w.sight, p.seen)) > pg_snapshot_xmax(pg_current_snapshot())) then
        return true;
    end if;
    for part in select p.relation from baton_internal.outbox_partitions p
                 where p.outbox_id = open_era.outbox_id and p.state in ('open', 'left')
                 order by p.first_id desc limit 2 loop
        execute format($sql$
            select coalesce(bool_or(n.xid >= pg_snapshot_xmax(pg_current_snapshot())), false)
              from (select xid from %s where id > $1 and xid <> $2 order by id desc limit 100) n$sql$, part)
           into ahead
          using (select coalesce(max(e.last_id), 0) from baton_internal.outbox_eras e where e.outbox_id = open_era.outbox_id),
                coalesce(pg_current_xact_id_if_assigned(), '0'::xid8);
        if ahead then
            return true;
        end if;
    end loop;
    return false;
end
$$;
comment on function baton_internal.is_ahead(baton_internal.outbox_eras) is 'true when an era has transaction ids that this server has not given yet';

-- Whether the ids of an era are of the history that goes on here: the same cluster and the table itself, not a copy out of a dump.
create function baton_internal.is_of_this_history(open_era baton_internal.outbox_eras, relation regclass)
returns boolean
language plpgsql volatile
as $$
begin
    return open_era.system_identifier = baton_internal.system_identifier() and open_era.relation_id = relation::oid
           and not baton_internal.is_ahead(open_era);
end
$$;
comment on function baton_internal.is_of_this_history(baton_internal.outbox_eras, regclass) is 'true when an era belongs to the history of this server';

-- Make a log at home where it was found. One session does it; others that publish meanwhile wait for it, once after a restore.
create function baton_internal.settle_log(found_era baton_internal.outbox_eras, relation regclass)
returns void
language plpgsql
as $$
declare
    here constant int := baton_internal.current_timeline();
    last_restored bigint;
begin
    select e.* into found_era from baton_internal.outbox_eras e
     where e.outbox_id = found_era.outbox_id and e.era = found_era.era for update;
    if found_era.last_id is not null then
        return;
    elsif baton_internal.is_of_this_history(found_era, relation) then
        -- The same files, restored to a point in time or promoted: ids go on from where the positions are. The era must not end: what
        -- was prepared before is committed in it still.
        update baton_internal.outbox_eras e set timeline = here, written_by = pg_current_xact_id()
         where e.outbox_id = found_era.outbox_id and e.era = found_era.era and e.timeline <> here;
        return;
    end if;
    -- Several jobs load the extension's tables in any order, and their keys are there from the beginning. The jobs stay to the end.
    if exists (select from pg_stat_activity a where a.datname = current_database() and a.application_name = 'pg_restore') then
        raise exception 'outbox % is being restored', relation
            using errcode = 'object_not_in_prerequisite_state', hint = 'try again when pg_restore has ended';
    end if;
    -- an own row is one that this transaction wrote: the restored ones may happen to carry its id
    execute format('select max(id) from %s where xid <> $1 or age(xmin) > 0', relation)
       into last_restored using coalesce(pg_current_xact_id_if_assigned(), '0'::xid8);
    update baton_internal.outbox_eras e set last_id = coalesce(last_restored, 0)
     where e.outbox_id = found_era.outbox_id and e.era = found_era.era;
    perform baton_internal.begin_era(found_era.outbox_id, found_era.era + 1, relation);
    -- no floor is used in an era that is over, and check_event_id() takes none of its ids any more
    delete from baton_internal.stray_events s where s.outbox_id = found_era.outbox_id and s.id <= last_restored;
    perform baton_internal.set_mark(m, last_restored, true) from baton_internal.floor_sequence(found_era.outbox_id) m where m is not null;
    -- what came with the restore is on disk when this server's log is, whatever the old one's had come to
    update baton_internal.windows w set flushed_at = pg_current_wal_insert_lsn()
      from baton.consumer_groups g where g.group_id = w.group_id and g.outbox_id = found_era.outbox_id;
    -- written down, not notified: whoever publishes first may want to prepare the transaction
    perform baton_internal.record_action('end_era', relation::text, jsonb_build_object('era', found_era.era, 'last_id', last_restored));
end
$$;
comment on function baton_internal.settle_log(baton_internal.outbox_eras, regclass) is 'ends the era of a log that was written in another history';

-- Refuse what this transaction has published under ids of an era that is over. The door does so where it knows of the era's end
-- (check_event_id()); the first events after a restore come before that, and so do those of whoever publishes while somebody else ends the era.
create function baton_internal.refuse_past_events(outbox_id int, relation regclass)
returns void
language plpgsql volatile
as $$
declare
    last_restored constant bigint := (select max(e.last_id) from baton_internal.outbox_eras e where e.outbox_id = refuse_past_events.outbox_id);
    past_id bigint;
begin
    if last_restored is null then
        return;
    end if;
    -- a restored row may happen to carry the transaction's id, but was written before
    execute format('select id from %s where (xid, id) >= ($1, 0) and (xid, id) <= ($1, $2) and age(xmin) <= 0 order by xid, id limit 1', relation)
       into past_id using pg_current_xact_id(), last_restored;
    if past_id is not null then
        perform baton_internal.refuse_past_id(relation, past_id);
    end if;
end
$$;
comment on function baton_internal.refuse_past_events(int, regclass) is 'raises generated_always when the transaction has events of an era that is over';

-- Compare the log's era with this cluster; end it when the log came from another history. True when it need not be asked
-- again in this session: never by what this transaction itself has written, which may be rolled back, or prepared and then be.
-- A table that is_outbox and not in the catalog is one whose catalog is still to come; only who publishes says so.
create function baton_internal.verify_era(relation regclass, is_outbox boolean default false)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    checked constant text := 'baton_session.era_' || relation::oid;
    known constant text := current_setting(checked, true);
    open_era baton_internal.outbox_eras;
    lasting boolean := false;
begin
    if known = 'writer' or known = 'reader' and not is_outbox then
        return true;
    elsif pg_is_in_recovery() then
        return false;  -- nothing can be published here, until a promotion begins another timeline
    end if;
    select e.* into open_era
      from baton_internal.outbox_eras e join baton.outboxes o using (outbox_id)
     where o.relation = verify_era.relation and e.last_id is null;
    if not found and not is_outbox and not exists (select from baton.outboxes o where o.relation = verify_era.relation) then
        return false;
    elsif open_era.era is null or not baton_internal.is_complete(relation) then
        raise exception 'outbox % is being restored', relation
            using errcode = 'object_not_in_prerequisite_state', hint = 'try again when the restore is complete';
    elsif open_era.timeline <> baton_internal.current_timeline() or not baton_internal.is_of_this_history(open_era, relation) then
        perform baton_internal.settle_log(open_era, relation);
    else
        lasting := open_era.written_by is distinct from pg_current_xact_id_if_assigned();
    end if;
    if is_outbox then
        perform baton_internal.refuse_past_events(open_era.outbox_id, relation);
    end if;
    if not lasting then
        return false;
    end if;
    if is_outbox then
        perform baton_internal.check_sequence(relation);
    end if;
    perform set_config(checked, case when is_outbox then 'writer' else 'reader' end, false);
    return true;
end
$$;
comment on function baton_internal.verify_era(regclass, boolean) is 'ends the era of a log that was restored into another history';

-- Refuse an event that comes with a transaction id of elsewhere: by logical replication, or from whoever names the id. Groups would
-- take the event for one that they have seen, and maintenance would not know of ids that the log's sequence has not given. What a
-- restore loads is left alone: its era is not of this history yet.
create function baton_internal.refuse_foreign_event()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    root constant regclass := coalesce(pg_partition_root(tg_relid), tg_relid);
begin
    if exists (select from baton_internal.outbox_eras e join baton.outboxes o using (outbox_id)
                where o.relation = root and e.last_id is null and e.relation_id = root::oid
                  and e.system_identifier = baton_internal.system_identifier()) then
        raise exception 'outbox % takes no event of another transaction', root
            using errcode = 'object_not_in_prerequisite_state',
                  detail = format('event %s carries transaction id %s', new.id, new.xid),
                  hint = 'leave xid out; keep outboxes out of logical replication, and carry their events with a pipeline';
    end if;
    return new;
end
$$;
comment on function baton_internal.refuse_foreign_event() is 'row trigger: an event that was written in another history is not taken';

select baton_internal.declare_privileges('execute', '{baton_producer,baton_consumer,baton_relay,baton_operator}', '{verify_era}');
