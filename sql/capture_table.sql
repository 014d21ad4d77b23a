-- Begin and end the capture of a table. What the triggers do stands in sql/capture_triggers.sql.

-- Run statements as a role that the caller may act as. No code of that role may run in them: it could take the caller's role back.
create function baton_internal.run_as_member(role_name name, statements text[])
returns void
language plpgsql
as $$
declare
    role_before constant text := current_setting('role');
    switched constant boolean := role_name <> current_user;
    statement text;
begin
    if switched then
        execute format('set local role %I', role_name);
    end if;
    foreach statement in array statements loop
        execute statement;
    end loop;
    if switched then
        execute format('set local role %s', case role_before when 'none' then 'none' else quote_ident(role_before) end);
    end if;
end
$$;
comment on function baton_internal.run_as_member(name, text[]) is 'runs statements as a role that the caller may act as';

-- Publish every change of a table as an event per row, with the row before and after; returns the outbox's name. With `tombstones` a delete has no payload, so
-- that a compacted topic forgets the key; with `snapshot` the rows that are there come first, as inserts. Called again it mends the triggers.
create function baton.capture_table(table_name text, retention_hours int default null, tombstones boolean default false, snapshot boolean default false)
returns text
language plpgsql
as $$
declare
    relation constant regclass := baton_internal.resolve_table(table_name);
    made record;
begin
    select * into made from baton_internal.open_capture(relation, retention_hours);
    perform baton_internal.run_as_member(made.owner, baton_internal.capture_statements(relation, made.outbox, made.outbox_id, coalesce(tombstones, false)));
    if snapshot and made.is_new then
        perform baton_internal.publish_snapshot(relation, made.outbox);
    end if;
    return made.outbox::text;
end
$$;
comment on function baton.capture_table(text, int, boolean, boolean) is 'publishes every change of a table as an event per row';

-- Publish the rows of a captured table as inserts. The table's owner makes JSON of them.
create function baton_internal.publish_snapshot(relation regclass, outbox regclass)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp set datestyle = 'ISO, MDY' set intervalstyle = postgres set timezone = 'UTC' set extra_float_digits = 1 set bytea_output = hex
as $$
declare
    table_name constant text := (select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation);
begin
    perform baton_internal.check_table_owner(relation, 'publish its rows');
    if not exists (select from baton_internal.captures() c join baton.outboxes o using (outbox_id) where c.relation = publish_snapshot.relation and o.relation = outbox) then
        raise exception 'table % is not captured into %', relation, outbox using errcode = 'object_not_in_prerequisite_state';
    end if;
    execute baton_internal.captured_statement(outbox::text, baton_internal.captured_rows('insert', 'select r.row from baton_internal.run_as_owner($4, $5) as r (row jsonb)', '$3'),
                                              '', '{$1,$2,$3}')
      using table_name, false, baton_internal.captured_key(relation), relation, format('select to_jsonb(x) from only %s x', relation);
end
$$;
comment on function baton_internal.publish_snapshot(regclass, regclass) is 'publishes the rows that a captured table has; called by capture_table()';

-- Refuse what cannot be captured.
create function baton_internal.check_capturable(relation regclass)
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    class pg_class;
begin
    select c.* into class from pg_class c where c.oid = relation;
    if exists (select from baton.stream_tables s where s.relation = check_capturable.relation) then
        raise exception '% is a stream table', relation
            using errcode = 'wrong_object_type', hint = format('its changes come from baton.enable_outbox(%L, format => ''rows'')', relation);
    elsif class.relkind <> 'r' or class.relispartition or exists (select from pg_inherits i where relation in (i.inhrelid, i.inhparent)) then
        raise exception '% is not a plain table', relation
            using errcode = 'wrong_object_type', detail = 'triggers on one table do not see what is written by way of its parents, children or partitions',
                  hint = format('make a stream table of it: baton.create_stream_table(''...'', ''select * from %s''), and baton.enable_outbox(''...'', format => ''rows'')', relation);
    elsif class.relpersistence <> 'p' or class.relnamespace::regnamespace::text in ('pg_catalog', 'information_schema', 'baton', 'baton_internal') then
        raise exception '% cannot be captured', relation using errcode = 'wrong_object_type', hint = 'capture a permanent table of your own';
    end if;
    perform baton_internal.check_table_owner(relation, 'capture its changes');
end
$$;
comment on function baton_internal.check_capturable(regclass) is 'raises an error for a table that cannot be captured';

-- Make the outbox of a table that is to be captured, or find it, and let the table's owner publish into it.
create function baton_internal.open_capture(relation regclass, retention_hours int, out outbox regclass, out outbox_id int, out owner name, out is_new boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    keep constant interval := make_interval(hours => retention_hours);
    place record;
    kept interval;
begin
    perform baton_internal.check_capturable(relation);
    if retention_hours not between 0 and 876000 then
        raise exception 'retention_hours is from 0 to 876000, not %', retention_hours using errcode = 'invalid_parameter_value';
    end if;
    select n.nspname as schema_name, c.relname as table_name, r.rolname as owner into place
      from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_roles r on r.oid = c.relowner where c.oid = relation;
    owner := place.owner;
    select o.relation, o.outbox_id, o.retention into outbox, outbox_id, kept
      from baton_internal.captures() t join baton.outboxes o on o.outbox_id = t.outbox_id where t.relation = open_capture.relation;
    is_new := not found;
    if is_new then
        outbox := baton_internal.make_outbox(place.schema_name, baton_internal.stream_outbox_name(place.schema_name, place.table_name),
            jsonb_build_object('payload_type', 'jsonb', 'ordered', true, 'tenancy', false, 'partition_interval', '1 day', 'idempotency_window', '24 hours',
                               'retention', keep, 'max_payload_bytes', 128000000), false);
        outbox_id := (baton_internal.find_outbox(outbox)).outbox_id;
        execute format('comment on table %s is %L', outbox, format('baton outbox: changes of %s', relation));
        perform baton_internal.close_to_producers(outbox);
        perform baton_internal.record_action('capture_table', relation::text, jsonb_build_object('outbox', outbox::text));
    elsif keep is distinct from kept then
        raise exception 'table % is captured already, with another retention', relation
            using errcode = 'duplicate_object', hint = 'change the retention with baton.alter_outbox(), or end the capture with baton.uncapture_table()';
    end if;
    if not pg_has_role(owner, (select c.relowner from pg_class c where c.oid = outbox), 'usage') then
        execute format('grant usage on schema baton, baton_internal to %I', owner);
        execute (select format('grant execute on function %s to %I', string_agg(p.oid::regprocedure::text, ', '), owner) from pg_proc p
                  where p.pronamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and p.proname in ('uuid_v7', 'captured_key'));
        execute format('grant insert (event_type, aggregate_type, aggregate_id, partition_key, payload, headers) on %s to %I', outbox, owner);
    end if;
end
$$;
comment on function baton_internal.open_capture(regclass, int) is 'makes or finds the outbox of a captured table; called by capture_table()';

-- The statements that end the capture of a table.
create function baton_internal.release_statements(relation regclass, function_name regprocedure)
returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array(select format('drop trigger if exists %I on %s', t.name, relation) from baton_internal.captured_triggers() t) || format('drop function %s', function_name)
$$;
comment on function baton_internal.release_statements(regclass, regprocedure) is 'statements that end the capture of a table';

-- Find the capture of a table for somebody who may end it; function_name is null when there is none.
create function baton_internal.find_capture(relation regclass, out function_name regprocedure, out outbox regclass, out owner name)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select c.function_name, o.relation, r.rolname into function_name, outbox, owner
      from baton_internal.captures() c join pg_class t on t.oid = c.relation join pg_roles r on r.oid = t.relowner
      left join baton.outboxes o on o.outbox_id = c.outbox_id where c.relation = find_capture.relation;
    perform baton_internal.check_table_owner(relation, 'end its capture');
end
$$;
comment on function baton_internal.find_capture(regclass) is 'capture of a table; called by uncapture_table()';

-- End the capture of a table: triggers, function and outbox go. With groups on the outbox only when asked to cascade.
create function baton.uncapture_table(table_name text, if_exists boolean default false, cascade boolean default false)
returns boolean
language plpgsql
as $$
declare
    relation regclass;
    capture record;
begin
    if if_exists and to_regclass(table_name) is null then
        return false;
    end if;
    relation := baton_internal.resolve_table(table_name);
    select * into capture from baton_internal.find_capture(relation);
    if capture.function_name is null then
        if if_exists then
            return false;
        end if;
        raise exception 'table % is not captured', relation using errcode = 'undefined_object', hint = 'baton.captured_tables() lists those that are';
    end if;
    perform baton_internal.run_as_member(capture.owner, baton_internal.release_statements(relation, capture.function_name));
    if capture.outbox is not null then
        perform baton.drop_outbox(capture.outbox::text, cascade => cascade);
    end if;
    return true;
end
$$;
comment on function baton.uncapture_table(text, boolean, boolean) is 'ends the capture of a table and drops its outbox';

-- The captured tables, their outboxes and keys.
create function baton.captured_tables()
returns table (table_name text, outbox text, key_columns text[], tombstones boolean)
language sql stable
as $$
    select c.relation::text, o.relation::text, baton_internal.captured_key(c.relation), c.tombstones
      from baton_internal.captures() c left join baton.outboxes o on o.outbox_id = c.outbox_id order by 1
$$;
comment on function baton.captured_tables() is 'tables whose changes are published, with their outboxes';

-- Refuse to drop the outbox of a table that is captured: its writers would fail.
create function baton_internal.check_not_captured(outbox_id int)
returns void
language plpgsql stable
as $$
declare
    captured constant regclass := (select c.relation from baton_internal.captures() c where c.outbox_id = check_not_captured.outbox_id limit 1);
begin
    if captured is not null then
        raise exception 'the outbox carries the changes of table %', captured
            using errcode = 'dependent_objects_still_exist', hint = format('end the capture with baton.uncapture_table(%L)', captured);
    end if;
end
$$;
comment on function baton_internal.check_not_captured(int) is 'raises an error for the outbox of a captured table';

-- Drop the function of a capture whose table is gone, where baton may.
create function baton_internal.drop_capture_function(outbox_id int)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    remains regprocedure;
begin
    for remains in select p.oid from pg_proc p
                    where p.proname = 'baton_capture_' || outbox_id and p.prorettype = 'trigger'::regtype and not exists (select from pg_trigger t where t.tgfoid = p.oid)
                      and obj_description(p.oid, 'pg_proc') like 'publishes changes of % into baton outbox %' and pg_has_role(p.proowner, 'usage') loop
        execute format('drop function %s', remains);
    end loop;
end
$$;
comment on function baton_internal.drop_capture_function(int) is 'drops what DROP TABLE leaves of a capture';

-- End every capture, for the owner of baton who takes baton out of a database.
create function baton_internal.release_captures()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    capture record;
    statement text;
begin
    for capture in select c.relation, c.function_name, t.relowner from baton_internal.captures() c join pg_class t on t.oid = c.relation loop
        if not pg_has_role(current_user, capture.relowner, 'usage') then
            raise exception 'table % is captured, and % may not drop its triggers', capture.relation, quote_ident(current_user)
                using errcode = 'dependent_objects_still_exist', hint = format('let its owner end the capture: select baton.uncapture_table(%L, cascade => true)', capture.relation);
        end if;
        foreach statement in array baton_internal.release_statements(capture.relation, capture.function_name) loop
            execute statement;
        end loop;
    end loop;
end
$$;
comment on function baton_internal.release_captures() is 'ends the capture of every table';

select baton_internal.declare_privileges('execute', '{baton_operator}',
    '{capture_table,uncapture_table,open_capture,find_capture,captured_tables,captures,captured_key,captured_key_of,captured_statement,captured_rows,captured_updates,
      captured_body,captured_triggers,capture_statements,publish_snapshot,release_statements,run_as_member}');
