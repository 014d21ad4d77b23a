-- Making, changing and dropping stream tables. The table and its query are made by the caller, with the caller's rights; baton then takes the
-- query in and guards the table.
--
-- What the caller calls by name runs with the caller's search path, by which names of tables are meant; there every function of the server that takes values of any type is
-- qualified: somebody's function of the same name and of just these types would else be the one that runs.

-- Create a stream table: a table of that name with the columns of a query, kept up to date.
create function baton.create_stream_table(
    name         text,
    query        text,
    schedule     text    default '1s',
    refresh_mode text    default 'AUTO',
    initialize   boolean default true)
returns regclass
language plpgsql
as $$
declare
    place constant record := baton_internal.parse_table_name(name);
    full_name constant text := pg_catalog.format('%I.%I', place.schema_name, place.table_name);
    query_view regclass;
begin
    perform baton_internal.check_new_stream(place.schema_name, place.table_name, schedule, refresh_mode);
    query_view := baton_internal.make_query_view(place.schema_name, query);
    execute pg_catalog.format('create table %s as %s with no data', full_name, baton_internal.view_query(query_view));
    perform baton_internal.take_stream(full_name::regclass, query_view, pg_catalog.jsonb_build_object('query', query, 'schedule', case when lower(btrim(schedule)) = 'live' then 'live' else schedule end, 'refresh_mode', upper(refresh_mode),
        'parameters', baton_internal.session_parameters(), 'initialize', coalesce(initialize, true)));
    if initialize then
        perform baton_internal.refresh_stream(full_name::regclass);
    end if;
    perform baton_internal.tell_full(full_name::regclass);
    return full_name::regclass;
end
$$;
comment on function baton.create_stream_table(text, text, text, text, boolean) is 'creates a table that holds the result of a query and is kept up to date';

-- Notice that a stream table in mode AUTO is not differential, and why. Without the extension none is.
create function baton_internal.tell_full(relation regclass)
returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream constant baton.stream_tables := baton_internal.find_stream(relation);
begin
    if stream.refresh_mode = 'AUTO' and stream.reason is not null and (select i.form from baton.installation i) = 'extension' then
        raise notice 'stream table % is computed in full by each refresh: %', relation, stream.reason
            using hint = 'refresh_mode FULL says that this is meant, DIFFERENTIAL refuses it';
    end if;
end
$$;
comment on function baton_internal.tell_full(regclass) is 'notices that a stream table is not differential; called by create_stream_table() and alter_stream_table()';

-- Refuse a stream table that cannot be made, before anything is.
create function baton_internal.check_new_stream(schema_name text, table_name text, schedule text, refresh_mode text)
returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if to_regnamespace(quote_ident(schema_name)) is null then
        raise exception 'there is no schema "%"', schema_name
            using errcode = 'invalid_schema_name', hint = format('create it first: create schema %I', schema_name);
    end if;
    perform baton_internal.check_schema_create(schema_name);
    if schema_name in ('baton', 'baton_internal') then
        raise exception 'schema % is baton''s own', schema_name using errcode = 'invalid_schema_name', hint = 'use a schema of yours';
    elsif to_regclass(format('%I.%I', schema_name, table_name)) is not null then
        raise exception 'relation %.% exists already', quote_ident(schema_name), quote_ident(table_name)
            using errcode = case when exists (select from baton.stream_tables s where s.relation = to_regclass(format('%I.%I', schema_name, table_name)))
                                 then 'duplicate_object' else 'duplicate_table' end,
                  hint = 'change a stream table with baton.alter_stream_table(), or choose another name';
    elsif (select i.form from baton.installation i) = 'sql' and baton_internal.caller() <> current_user then
        raise exception 'without the extension a stream table belongs to %, the owner of baton', quote_ident(current_user)
            using errcode = 'insufficient_privilege', hint = format('set role %I first, or use the extension, which works on a table as its owner', current_user);
    end if;
    perform baton_internal.check_stream_schedule(schedule), baton_internal.check_stream_mode(refresh_mode);
end
$$;
comment on function baton_internal.check_new_stream(text, text, text, text) is 'raises when a stream table cannot be made';

-- Refuse a refresh mode that is none.
create function baton_internal.check_stream_mode(refresh_mode text)
returns void
language plpgsql stable
as $$
begin
    if refresh_mode is null or upper(refresh_mode) not in ('AUTO', 'FULL', 'DIFFERENTIAL', 'IMMEDIATE') then
        raise exception 'refresh_mode is AUTO, FULL, DIFFERENTIAL or IMMEDIATE, not %', coalesce('"' || left(refresh_mode, 100) || '"', 'null') using errcode = 'invalid_parameter_value';
    end if;
end
$$;
comment on function baton_internal.check_stream_mode(text) is 'raises for a refresh mode that is none';

-- Refuse a view that the caller may not hand over, or that holds no query for a stream table.
create function baton_internal.check_view_given(query_view regclass)
returns void
language plpgsql stable
as $$
begin
    if not exists (select from pg_catalog.pg_class c where c.oid = query_view and c.relkind = 'v') then
        raise exception '% is no view', query_view using errcode = 'wrong_object_type';
    end if;
    perform baton_internal.check_table_owner(query_view, 'give it to baton');
    perform baton_internal.check_query_view(query_view);
end
$$;
comment on function baton_internal.check_view_given(regclass) is 'raises unless the caller may give a view to baton as a query';

-- Take in a view that the caller made: from now on nobody but baton changes it, and nobody reads it.
create function baton_internal.take_query_view(query_view regclass, stream baton.stream_tables)
returns void
language plpgsql
as $$
declare
    final_name constant name := baton_internal.unused_name('baton_internal', 'stream_' || stream.stream_id || '_' || c.relname, '')
        from pg_catalog.pg_class c where c.oid = stream.relation;
begin
    execute format('alter view %s owner to %I', query_view, current_user);
    execute format('alter view %s set schema baton_internal', query_view);
    execute format('alter view %s rename to %I', query_view, final_name);
    perform baton_internal.close_to_others(query_view);
    execute format('comment on view %s is %L', query_view, format('query of stream table %s: see baton.alter_stream_table() and baton.drop_stream_table()', stream.relation));
end
$$;
comment on function baton_internal.take_query_view(regclass, baton.stream_tables) is 'makes a view that the caller made baton''s own';

-- Make a table that the caller made a stream table.
create function baton_internal.take_stream(relation regclass, query_view regclass, options jsonb)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream baton.stream_tables;
begin
    perform baton_internal.check_table_owner(relation, 'make it a stream table');
    if exists (select from pg_class c where c.oid = relation and (c.relkind <> 'r' or c.relpersistence = 't' or c.relrowsecurity)) then
        raise exception '% cannot be a stream table', relation using errcode = 'wrong_object_type', hint = 'use baton.create_stream_table()';
    end if;
    perform baton_internal.check_view_given(query_view);
    perform baton_internal.check_stream_schedule(options ->> 'schedule'), baton_internal.check_stream_mode(options ->> 'refresh_mode');
    insert into baton.stream_tables (relation, query, qualified, query_view, parameters, schedule, refresh_mode, next_due)
    values (relation, options ->> 'query', baton_internal.view_query(query_view), query_view, options -> 'parameters', options ->> 'schedule', options ->> 'refresh_mode',
            case when options ->> 'schedule' is not null then baton_internal.next_refresh(options ->> 'schedule', baton_internal.clock()) end)
    returning * into stream;
    perform baton_internal.take_query_view(query_view, stream);
    execute format('comment on table %s is %L', relation, 'stream table of baton: kept up to date by its query, not to be written to');
    perform baton_internal.guard_stream(stream), baton_internal.equip_stream_owner(stream);
    perform baton_internal.note_stream_sources(stream.stream_id, query_view);
    perform baton_internal.choose_stream_mode(stream);
    perform baton_internal.record_action('create_stream_table', relation::text, options - 'parameters');
end
$$;
comment on function baton_internal.take_stream(regclass, regclass, jsonb) is 'makes a table a stream table; called by create_stream_table()';

-- Drop a stream table. With an outbox that has groups, or with views and stream tables that read it, only when asked to cascade.
create function baton.drop_stream_table(name text, if_exists boolean default false, cascade boolean default false)
returns boolean
language plpgsql
as $$
begin
    if if_exists and to_regclass(name) is null then
        return false;
    end if;
    return baton_internal.remove_stream(baton_internal.resolve_stream(name), cascade);
end
$$;
comment on function baton.drop_stream_table(text, boolean, boolean) is 'drops a stream table with its outbox';

-- Drop what belongs to a stream table.
create function baton_internal.remove_stream(relation regclass, cascade boolean)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream baton.stream_tables := baton_internal.find_stream(relation);
    readers text;
begin
    perform baton_internal.check_table_owner(relation, 'drop it');
    stream := baton_internal.open_stream(relation);
    select string_agg(t.relation::text, ', ' order by t.relation::text) into readers
      from baton_internal.stream_sources r join baton.stream_tables t using (stream_id)
     where r.source = remove_stream.relation;
    if readers is not null and not cascade then
        raise exception 'cannot drop stream table %: other stream tables read it', relation
            using errcode = 'dependent_objects_still_exist', detail = 'stream tables: ' || readers, hint = 'drop them first, or pass cascade => true: they go along then';
    end if;
    loop  -- one that goes may take others along
        perform baton_internal.remove_stream(t.relation, true)
           from (select s.relation from baton_internal.stream_sources r join baton.stream_tables s using (stream_id)
                  where r.source = remove_stream.relation limit 1) t;
        exit when not found;
    end loop;
    perform baton_internal.record_action('drop_stream_table', relation::text, jsonb_build_object('query', stream.query));
    perform baton_internal.detach_outbox(stream, cascade);
    perform baton_internal.forget_stream(stream);
    execute format('drop table %s %s', relation, case when cascade then 'cascade' else '' end);
    return true;
end
$$;
comment on function baton_internal.remove_stream(regclass, boolean) is 'drops a stream table; called by drop_stream_table()';

-- Forget a stream table; the table itself stays, if there is one.
create function baton_internal.forget_stream(stream baton.stream_tables)
returns void
language plpgsql
as $$
begin
    if baton_internal.view_query(stream.query_view) is not null then
        execute format('drop view %s', stream.query_view);
    end if;
    delete from baton.stream_tables s where s.stream_id = stream.stream_id;
end
$$;
comment on function baton_internal.forget_stream(baton.stream_tables) is 'removes the query and the catalog rows of a stream table';

select baton_internal.declare_privileges('execute', '{baton_operator}',
    '{create_stream_table,check_new_stream,tell_full,take_stream,drop_stream_table,remove_stream}');
