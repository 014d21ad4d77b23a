-- Adopting tables that exist: any column names, and the layouts baton knows. Nothing in the table is changed.

-- Find the table that a user names, by the user's search path, if the user may hand it over.
create function baton_internal.find_user_table(table_ref text, path name[])
returns regclass
language plpgsql
as $$
declare
    asked record := baton_internal.parse_table_name(table_ref, '');
    found_one record;
begin
    select c.oid::regclass as relation into found_one
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relname = asked.table_name and (n.nspname = asked.schema_name or (asked.schema_name = '' and n.nspname = any (path)))
     order by array_position(path, n.nspname) limit 1;
    if found_one.relation is null then
        raise exception 'table "%" does not exist', table_ref using errcode = 'undefined_table';
    end if;
    perform baton_internal.check_table_adoptable(found_one.relation);
    return found_one.relation;
end
$$;
comment on function baton_internal.find_user_table(text, name[]) is 'the table that a name means; raises unless the caller may let baton adopt it';

-- Tell which known layout a table has, by its columns.
create function baton_internal.detect_inbox_layout(relation regclass)
returns text
language sql stable
as $$
    select case when c.names @> '{id,message_id,consumer_group,event_type,source,payload,status,attempts_made,max_attempts,last_error,scheduled_at,completed_at,locked_at,locked_by,created_at,updated_at}'
                then 'omni_box'
                when c.names @> '{event_id,consumer_group,processed_at,expires_at}' and not c.names && '{retry_count,payload,received_at}'
                then 'processed_events'
                else 'mapped' end
      from (select array_agg(a.attname::text) as names from pg_attribute a
             where a.attrelid = relation and a.attnum > 0 and not a.attisdropped) c
$$;
comment on function baton_internal.detect_inbox_layout(regclass) is 'omni_box, processed_events or mapped';

-- Return the unique key by which the table refuses a second message of an id: null if a partitioned table can only
-- do so within a partition, an error if nothing does.
create function baton_internal.inbox_conflict_columns(box baton.inboxes)
returns name[]
language plpgsql stable
as $$
declare
    id_key name[] := array[box.id_column];
    group_key name[] := array_remove(array[box.id_column, box.group_column], null);
    partition_key name[] := array(select a.attname from pg_partitioned_table p join pg_attribute a on a.attrelid = p.partrelid
                                   and a.attnum = any (p.partattrs::int2[]) where p.partrelid = box.relation);
    keys record;
    widened boolean := false;
begin
    for keys in
        select array_agg(a.attname order by k.place) as columns
          from pg_index x cross join lateral unnest(x.indkey::int2[]) with ordinality k (attnum, place)
          left join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.attnum
         where x.indrelid = box.relation and x.indisunique and x.indisvalid and x.indpred is null and x.indimmediate and k.place <= x.indnkeyatts
         group by x.indexrelid having bool_and(k.attnum > 0) order by count(*)
    loop
        if keys.columns @> id_key and keys.columns <@ group_key then
            return keys.columns;
        end if;
        widened := widened or (keys.columns @> id_key and keys.columns <@ (group_key || partition_key));
    end loop;
    if not widened then
        raise exception 'column "%" of table % is not unique', box.id_column, box.relation
            using errcode = 'invalid_table_definition',
                  hint = format('a redelivery is recognised by it: create unique index on %s (%s)', box.relation,
                                (select string_agg(quote_ident(c), ', ') from unnest(group_key) c));
    end if;
    return null;
end
$$;
comment on function baton_internal.inbox_conflict_columns(baton.inboxes) is 'the unique key on a table''s message ids';

-- Return the name of an optional column if the table has it with one of the types.
create function baton_internal.optional_inbox_column(relation regclass, column_name text, types text[])
returns name
language sql stable
as $$
    select a.attname from pg_attribute a where a.attrelid = relation and a.attname = column_name and a.attnum > 0
       and not a.attisdropped and a.atttypid = any (types::regtype[])  -- how a type is written depends on the session
$$;
comment on function baton_internal.optional_inbox_column(regclass, text, text[]) is 'the column if it exists and its type fits, else null';

-- Fill in the mapping of a table with columns for processed_at and retry_count; the names given win over the usual ones.
create function baton_internal.map_inbox_columns(box baton.inboxes)
returns baton.inboxes
language plpgsql stable
as $$
declare
    texts text[] := '{text,character varying}';
    times text[] := '{timestamp with time zone,timestamp without time zone}';
begin
    box.id_column := baton_internal.check_inbox_column(box, coalesce(box.id_column, 'event_id'), 'id', texts || '{uuid,bigint,integer}'::text[]);
    box.processed_at_column := baton_internal.check_inbox_column(box, coalesce(box.processed_at_column, 'processed_at'), 'time of processing', times);
    box.retry_count_column := baton_internal.check_inbox_column(box, coalesce(box.retry_count_column, 'retry_count'), 'number of retries', '{smallint,integer,bigint}');
    box.error_column := baton_internal.check_inbox_column(box, coalesce(box.error_column, 'error'), 'error', texts);
    box.received_at_column := baton_internal.check_inbox_column(box, coalesce(box.received_at_column, 'received_at'), 'time of receipt', times);
    box.event_type_column := baton_internal.check_inbox_column(box, coalesce(box.event_type_column, 'event_type'), 'event type', texts);
    box.source_column := baton_internal.optional_inbox_column(box.relation, 'source', texts);
    box.aggregate_id_column := baton_internal.optional_inbox_column(box.relation, 'aggregate_id', texts || '{uuid,bigint,integer}'::text[]);
    box.payload_column := baton_internal.optional_inbox_column(box.relation, 'payload', '{jsonb,json}');
    box.headers_column := baton_internal.optional_inbox_column(box.relation, 'headers', '{jsonb,json}');
    box.trace_id_column := baton_internal.optional_inbox_column(box.relation, 'trace_id', texts);
    box.sequence_column := baton_internal.optional_inbox_column(box.relation, 'sequence_num', '{bigint,integer,smallint}');
    box.priority_column := baton_internal.optional_inbox_column(box.relation, 'priority', '{smallint,integer,bigint}');
    return box;
end
$$;
comment on function baton_internal.map_inbox_columns(baton.inboxes) is 'checks and completes the column mapping of an adopted table';

-- Fill in the mapping of a known layout.
create function baton_internal.preset_inbox_columns(box baton.inboxes)
returns baton.inboxes
language plpgsql stable
as $$
begin
    if box.group_value is null then
        raise exception 'table % holds the messages of several consumer groups', box.relation
            using errcode = 'invalid_parameter_value',
                  hint = 'adopt it once per group: select baton.adopt_inbox(..., consumer_group => ''billing'')';
    end if;
    box.group_column := 'consumer_group';
    if box.layout = 'processed_events' then
        box.id_column := 'event_id';
        box.processed_at_column := 'processed_at';
        return box;
    end if;
    box.id_column := 'message_id';
    box.processed_at_column := 'completed_at';
    box.retry_count_column := 'attempts_made';
    box.error_column := 'last_error';
    box.received_at_column := 'created_at';
    box.event_type_column := 'event_type';
    box.source_column := 'source';
    box.payload_column := 'payload';
    box.headers_column := baton_internal.optional_inbox_column(box.relation, 'headers', '{jsonb,json}');
    box.trace_id_column := baton_internal.optional_inbox_column(box.relation, 'trace_id', '{text,character varying}');
    return box;
end
$$;
comment on function baton_internal.preset_inbox_columns(baton.inboxes) is 'column mapping of a known layout';

-- Let baton work with an existing table. Columns that are not named go by a known layout, or by their usual names.
create function baton.adopt_inbox(name text, table_ref text default null, id_column text default null, processed_at_column text default null,
                                  retry_count_column text default null, error_column text default null, received_at_column text default null,
                                  event_type_column text default null, max_retries int default 3, schedule text default '1s',
                                  consumer_group text default null, retention_hours int default null,
                                  path name[] default current_schemas(false))
returns text
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    asked record := baton_internal.parse_table_name(adopt_inbox.name, '');
    box baton.inboxes;
begin
    perform baton_internal.check_inbox_policy(adopt_inbox.max_retries, adopt_inbox.retention_hours);
    box.relation := baton_internal.find_user_table(coalesce(table_ref, adopt_inbox.name), path);
    box.name := asked.table_name;
    box.schema_name := coalesce(nullif(asked.schema_name, ''),
                               (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = box.relation));
    box.group_value := consumer_group;
    box.layout := case when num_nonnulls(id_column, processed_at_column, retry_count_column, error_column, received_at_column, event_type_column) = 0
                      then baton_internal.detect_inbox_layout(box.relation) else 'mapped' end;
    if to_regnamespace(quote_ident(box.schema_name)) is null then
        raise exception 'schema "%" does not exist', box.schema_name using errcode = 'invalid_schema_name';
    end if;
    perform baton_internal.check_schema_create(box.schema_name);
    if exists (select 1 from baton.inboxes i where i.schema_name = box.schema_name and i.name = box.name) then
        raise exception 'inbox "%" already exists', format('%I.%I', box.schema_name, box.name)
            using errcode = 'duplicate_object', hint = 'drop it first; an adopted table is never dropped with it';
    end if;
    if box.layout = 'mapped' then
        box.id_column := adopt_inbox.id_column;
        box.processed_at_column := adopt_inbox.processed_at_column;
        box.retry_count_column := adopt_inbox.retry_count_column;
        box.error_column := adopt_inbox.error_column;
        box.received_at_column := adopt_inbox.received_at_column;
        box.event_type_column := adopt_inbox.event_type_column;
        box := baton_internal.map_inbox_columns(box);
        box.group_column := case when consumer_group is not null
                                then baton_internal.check_inbox_column(box, 'consumer_group', 'consumer group', '{text,character varying}') end;
    else
        box := baton_internal.preset_inbox_columns(box);
    end if;
    box.conflict_columns := baton_internal.inbox_conflict_columns(box);
    box.max_retries := adopt_inbox.max_retries;
    box.schedule := baton_internal.parse_schedule(adopt_inbox.schedule);
    box.retention_hours := adopt_inbox.retention_hours;
    perform baton_internal.check_inbox_table_is_free(box);
    return baton_internal.register_adopted_inbox(box);
end
$$;
comment on function baton.adopt_inbox(text, text, text, text, text, text, text, text, int, text, text, int, name[]) is
    'lets baton work with an existing table, without changing it';

-- Refuse a table, or a group of it, that is an inbox already.
create function baton_internal.check_inbox_table_is_free(box baton.inboxes)
returns void
language plpgsql stable
as $$
declare
    holder text;
begin
    select format('%I.%I', i.schema_name, i.name) into holder from baton.inboxes i
     where i.relation = box.relation
       and (i.group_value is null or box.group_value is null or i.group_value = box.group_value
            or (box.layout = 'processed_events' and not box.group_column = any (coalesce(box.conflict_columns, '{}')))) limit 1;
    if found then
        raise exception 'table % is inbox "%" already', box.relation, holder
            using errcode = 'duplicate_object', hint = 'a shared table is adopted once per consumer group, if its key tells groups apart';
    end if;
end
$$;
comment on function baton_internal.check_inbox_table_is_free(baton.inboxes) is 'raises duplicate_object when the table is taken';

-- Enter an adopted inbox into the catalog and make its views.
create function baton_internal.register_adopted_inbox(given baton.inboxes)
returns text
language plpgsql
as $$
declare
    box baton.inboxes;
begin
    insert into baton.inboxes (schema_name, name, relation, layout, id_column, processed_at_column, retry_count_column, error_column,
                               received_at_column, event_type_column, source_column, aggregate_id_column, payload_column, headers_column,
                               trace_id_column, sequence_column, priority_column, group_column, group_value, conflict_columns,
                               max_retries, schedule, retention_hours)
    values (given.schema_name, given.name, given.relation, given.layout, given.id_column, given.processed_at_column, given.retry_count_column,
            given.error_column, given.received_at_column, given.event_type_column, given.source_column, given.aggregate_id_column,
            given.payload_column, given.headers_column, given.trace_id_column, given.sequence_column, given.priority_column,
            given.group_column, given.group_value, given.conflict_columns, given.max_retries, given.schedule, given.retention_hours)
    returning * into box;
    perform baton_internal.make_inbox_views(box);
    return format('%I.%I', box.schema_name, box.name);
end
$$;
comment on function baton_internal.register_adopted_inbox(baton.inboxes) is 'stores an adopted inbox and makes its views';

-- The same under its other name, with the arguments documented for it.
create function baton.enable_inbox_tracking(name text, table_ref text, id_column text default null, processed_at_column text default null,
                                            retry_count_column text default null, error_column text default null,
                                            received_at_column text default null, event_type_column text default null,
                                            max_retries int default 3, schedule text default '1s', path name[] default current_schemas(false))
returns text
language sql
as $$
    select baton.adopt_inbox(name, table_ref, id_column, processed_at_column, retry_count_column, error_column, received_at_column,
                             event_type_column, max_retries, schedule, path => path)
$$;
comment on function baton.enable_inbox_tracking(text, text, text, text, text, text, text, text, int, text, name[]) is 'same as adopt_inbox';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{adopt_inbox,enable_inbox_tracking}');
