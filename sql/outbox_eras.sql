-- Eras: after a restore into another cluster transaction ids start over. The first publish or poll there notices and
-- closes the era: what came with the restore is read by the old snapshots, what is new by new ones. No row is touched.

-- This cluster's identity.
create function baton_internal.system_identifier()
returns bigint
language sql stable
as $$ select system_identifier from pg_catalog.pg_control_system() $$;
comment on function baton_internal.system_identifier() is 'identity of this cluster';

-- Whether a log is all there. A restore makes the primary key last, after every row: until then nobody may judge by what is
-- in the table, or events that are still to come would count as seen.
create function baton_internal.is_complete(relation regclass)
returns boolean
language sql stable
as $$ select exists (select from pg_catalog.pg_index i where i.indrelid = relation and i.indisprimary and i.indisvalid) $$;
comment on function baton_internal.is_complete(regclass) is 'false while a log is being restored';

-- Compare the log's era with this cluster; end it when the log came from another one. True when it need not be asked
-- again in this session.
create function baton_internal.verify_era(relation regclass)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    checked constant text := 'baton_session.era_' || relation::oid;
    here bigint;
    current_era baton_internal.outbox_eras;
    last_restored bigint;
begin
    if coalesce(current_setting(checked, true), '') <> '' then
        return true;
    end if;
    here := baton_internal.system_identifier();
    select e.* into current_era
      from baton_internal.outbox_eras e join baton.outboxes o using (outbox_id)
     where o.relation = verify_era.relation and e.last_id is null;
    if not found then
        return false;
    elsif not baton_internal.is_complete(relation) then
        raise exception 'outbox % is being restored', relation
            using errcode = 'object_not_in_prerequisite_state', hint = 'try again when the restore is complete';
    elsif current_era.system_identifier <> here then
        -- one session does it; others that publish meanwhile wait for it, once after a restore
        select e.* into current_era from baton_internal.outbox_eras e
         where e.outbox_id = current_era.outbox_id and e.era = current_era.era for update;
        if current_era.last_id is null and current_era.system_identifier <> here then
            execute format('select max(id) from %s where xid <> $1', relation)
               into last_restored using coalesce(pg_current_xact_id_if_assigned(), '0'::xid8);
            update baton_internal.outbox_eras e set last_id = coalesce(last_restored, 0)
             where e.outbox_id = current_era.outbox_id and e.era = current_era.era;
            insert into baton_internal.outbox_eras (outbox_id, era, system_identifier)
            values (current_era.outbox_id, current_era.era + 1, here);
            perform baton_internal.alert('outbox_era_closed', relation::text,
                                jsonb_build_object('era', current_era.era, 'last_id', last_restored));
        end if;
        return false;  -- the change may still be rolled back
    end if;
    perform set_config(checked, here::text, false);
    return true;
end
$$;
comment on function baton_internal.verify_era(regclass) is 'ends the era of a log that was restored into another cluster';

select baton_internal.declare_privileges('execute', '{baton_producer,baton_consumer,baton_relay,baton_operator}', '{verify_era}');
