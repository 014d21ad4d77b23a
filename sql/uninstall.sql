-- Taking baton out of a database: what it made goes, what it adopted is as before.

-- Drop every outbox, inbox and stream table that baton made, and end every adoption. Tables with events or messages go only with cascade. Returns the
-- statement that removes the rest. For the owner of baton: adoptions end whoever adopted.
create function baton.uninstall(cascade boolean default false)
returns text
language plpgsql
security definer set search_path = pg_catalog, pg_temp set client_min_messages = warning
as $$
declare
    made text;
    box baton.inboxes;
    outbox baton.outboxes;
    stream baton.stream_tables;
begin
    if not pg_has_role(baton_internal.caller(), (select n.nspowner from pg_catalog.pg_namespace n where n.nspname = 'baton'), 'usage') then
        raise exception 'only the owner of baton can take it out of a database' using errcode = 'insufficient_privilege';
    end if;
    select string_agg(m.relation::text, ', ' order by m.relation::text) into made
      from (select o.relation from baton.outboxes o union select i.relation from baton.inboxes i where i.layout = 'managed'
            union select s.relation from baton.stream_tables s) m
      join pg_catalog.pg_class c on c.oid = m.relation;
    if made is not null and not cascade then
        raise exception 'there are outboxes, inboxes or stream tables that baton made'
            using errcode = 'dependent_objects_still_exist', detail = 'tables: ' || made,
                  hint = 'drop them one by one, or pass cascade => true: their events and messages are lost then';
    end if;
    for stream in select s.* from baton.stream_tables s join pg_catalog.pg_class c on c.oid = s.relation order by s.level desc loop
        perform baton_internal.remove_stream(stream.relation, true);
    end loop;
    perform baton_internal.tidy_captures(true);
    perform baton_internal.release_captures();
    for box in select i.* from baton.inboxes i loop
        perform baton_internal.drop_inbox_objects(box);
        if box.layout = 'managed' and box.relation::text !~ '^[0-9]' then
            execute format('drop table %s', box.relation);
        end if;
        delete from baton.inboxes i where i.id = box.id;
    end loop;
    for outbox in select o.* from baton.outboxes o join pg_catalog.pg_class c on c.oid = o.relation loop
        perform baton_internal.remove_outbox(outbox.relation, true);
    end loop;
    delete from baton.adopted_outboxes;
    perform baton_internal.record_action('uninstall', current_database(), jsonb_build_object('tables', made));
    return case when (select i.form from baton.installation i) = 'extension' then 'drop extension baton'
                else 'drop schema baton, baton_internal cascade' end;
end
$$;
comment on function baton.uninstall(boolean) is 'drops what baton made in this database and ends every adoption; returns the statement that removes baton itself';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{uninstall}');
