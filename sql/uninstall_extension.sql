-- DROP EXTENSION baton CASCADE takes with it what baton made for users: tables, partitions, views and indexes depend on the extension. Without
-- CASCADE the server names them and refuses. Functions made for an inbox are in schema baton_internal, which is a member; their triggers
-- go with them. Rows of the catalog that come from a dump make the dependencies again, which a dump does not hold.

-- Let a table, view or index depend on the extension.
create function baton_internal.depend_on_extension(relation regclass)
returns void
language c volatile strict
as 'MODULE_PATHNAME', 'baton_depend_on_extension';
comment on function baton_internal.depend_on_extension(regclass) is 'makes DROP EXTENSION drop a relation';

-- Let a relation depend on the extension, once; nothing where it is not there (yet).
create function baton_internal.tie_relation(relation oid)
returns void
language plpgsql
as $$
begin
    if exists (select from pg_catalog.pg_class c where c.oid = relation)
       and not exists (select from pg_catalog.pg_depend d join pg_catalog.pg_extension e on e.oid = d.refobjid and e.extname = 'baton'
                        where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = relation and d.refclassid = 'pg_catalog.pg_extension'::regclass) then
        perform baton_internal.depend_on_extension(relation::regclass);
    end if;
end
$$;
comment on function baton_internal.tie_relation(oid) is 'makes DROP EXTENSION drop a relation that exists';

-- Tie what a new row of the catalog tells of.
create function baton_internal.tie_noted()
returns trigger
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_table_name = 'inbox_objects' then
        if new.object_kind in ('view', 'index') then
            perform baton_internal.tie_relation(to_regclass(format('%I.%I', new.schema_name, new.object_name)));
        end if;
    elsif tg_table_name = 'stream_outboxes' then
        perform baton_internal.tie_relation(new.latest_view), baton_internal.tie_relation(new.delta_rows);
    elsif tg_table_name = 'inboxes' then
        if new.layout = 'managed' then
            perform baton_internal.tie_relation(new.relation);
        end if;
    else
        perform baton_internal.tie_relation(new.relation);
    end if;
    return null;
end
$$;
comment on function baton_internal.tie_noted() is 'makes DROP EXTENSION drop the relation that a catalog row names';

create trigger tie after insert on baton.outboxes for each row execute function baton_internal.tie_noted();
create trigger tie after insert or update on baton_internal.outbox_archives for each row execute function baton_internal.tie_noted();
create trigger tie after insert on baton_internal.outbox_partitions for each row execute function baton_internal.tie_noted();
create trigger tie after insert on baton.inboxes for each row execute function baton_internal.tie_noted();
create trigger tie after insert on baton.stream_tables for each row execute function baton_internal.tie_noted();
create trigger tie after insert or update on baton_internal.stream_outboxes for each row execute function baton_internal.tie_noted();
create trigger tie after insert on baton_internal.inbox_objects for each row execute function baton_internal.tie_noted();
