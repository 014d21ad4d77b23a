-- Checks: everything a mapping says is held against the table before anything is written.

-- Refuse a section or key that a mapping does not know, and values of the wrong kind.
create function baton_internal.check_mapping(mapping jsonb)
returns void
language plpgsql stable
as $$
declare
    entry record;
begin
    if mapping is null or jsonb_typeof(mapping) <> 'object' then
        raise exception 'a mapping is a JSON object' using errcode = 'invalid_parameter_value',
            hint = 'for example {"columns": {"id": "event_no", "payload": "body"}}';
    end if;
    for entry in select m.key as section, m.value from jsonb_each(mapping) m loop
        if entry.section <> 'order' and not exists (select from baton_internal.adoption_keys a where a.section = entry.section) then
            raise exception 'unknown part of a mapping: "%"', entry.section using errcode = 'invalid_parameter_value',
                hint = 'known are: order, ' || (select string_agg(distinct a.section, ', ') from baton_internal.adoption_keys a);
        end if;
        if jsonb_typeof(entry.value) <> all (case entry.section when 'order' then '{array,null}' else '{object,null}' end::text[]) then
            raise exception 'mapping "%" takes a JSON %', entry.section, case entry.section when 'order' then 'array' else 'object' end
                using errcode = 'invalid_parameter_value';
        end if;
        if jsonb_typeof(entry.value) = 'object' then
            perform baton_internal.check_mapping_section(entry.section, entry.value);
        end if;
    end loop;
end
$$;
comment on function baton_internal.check_mapping(jsonb) is 'raises invalid_parameter_value for a mapping that contradicts itself';

-- Check one section of a mapping.
create function baton_internal.check_mapping_section(section text, body jsonb)
returns void
language plpgsql stable
as $$
declare
    entry record;
    wanted text;
begin
    for entry in select e.key, e.value, jsonb_typeof(e.value) as kind, e.value #>> '{}' as plain from jsonb_each(body) e loop
        if not exists (select from baton_internal.adoption_keys a where a.section = check_mapping_section.section and a.key = entry.key) then
            raise exception 'unknown key "%" in mapping "%"', entry.key, section using errcode = 'invalid_parameter_value',
                hint = 'known are: ' || (select string_agg(a.key, ', ' order by a.key) from baton_internal.adoption_keys a
                                          where a.section = check_mapping_section.section);
        end if;
        continue when entry.kind = 'null';
        wanted := case
            when section = 'columns' and not (entry.kind = 'string'
                 or entry.kind = 'object' and jsonb_typeof(entry.value -> 'column') = 'string' and jsonb_typeof(entry.value -> 'key') = 'string')
                then 'a column name, or {"column": ..., "key": ...} for a key inside a JSON column'
            when section = 'states' and entry.kind not in ('string', 'number', 'boolean') then 'a text or a number'
            when entry.key in ('limit', 'months_ahead', 'max_steps') and not (entry.kind = 'number' and entry.plain ~ '^[0-9]{1,6}$')
                then 'a whole number of 0 or more'
            when entry.key in ('base_seconds', 'factor', 'max_seconds', 'jitter') and not (entry.kind = 'number' and entry.plain !~ '^-')
                then 'a number of 0 or more'
            when entry.key in ('base_seconds', 'max_seconds') and entry.plain::numeric > 3153600000 then 'no more than 100 years'
            when entry.key = 'factor' and entry.plain::numeric > 1000 then 'a number up to 1000'
            when entry.key = 'jitter' and entry.plain::numeric > 1 then 'a number up to 1'
            when entry.key = 'rule' and entry.plain not in ('exceeds', 'reaches') then '"exceeds" or "reaches"'
            when entry.key = 'kind' and entry.plain not in ('none', 'fixed', 'linear', 'exponential')
                then '"none", "fixed", "linear" or "exponential"'
            when section = 'dead' and entry.key = 'as' and entry.plain not in ('status', 'move', 'attempts') then '"status", "move" or "attempts"'
            when section = 'done' and entry.key = 'as' and entry.plain not in ('mark', 'delete') then '"mark" or "delete"'
            when (entry.key = 'budget' or section = 'cleanup') and entry.kind <> 'boolean' then 'true or false'
            when entry.key in ('table', 'by', 'partition', 'separator') and (entry.kind <> 'string' or entry.plain = '') then 'a text' end;
        if wanted is null and entry.key in ('timeout', 'done_after', 'after', 'drop_after') then
            begin
                if entry.plain::interval < '0' or entry.plain::interval > '100 years' then
                    wanted := 'an interval from 0 to 100 years';
                end if;
            exception when data_exception then
                wanted := 'an interval such as "7 days"';
            end;
        end if;
        if wanted is not null then
            raise exception 'mapping "%": "%" takes %, not %', section, entry.key, wanted, left(entry.value::text, 60)
                using errcode = 'invalid_parameter_value';
        end if;
    end loop;
end
$$;
comment on function baton_internal.check_mapping_section(text, jsonb) is 'raises invalid_parameter_value for one bad section of a mapping';

-- Return the table to adopt, found by the caller's search path.
create function baton_internal.table_to_adopt(table_name text)
returns regclass
language plpgsql stable
as $$
declare
    parts record;
    relation regclass;
begin
    select * into parts from baton_internal.parse_table_name(table_name);
    relation := to_regclass(case pg_catalog.cardinality(parse_ident(table_name)) when 2 then pg_catalog.format('%I.', parts.schema_name) else '' end
                            || quote_ident(parts.table_name));
    if relation is null then
        raise exception 'table "%" does not exist', left(table_name, 130) using errcode = 'undefined_table',
            hint = 'create it first, or qualify its name; baton.create_outbox() makes a new outbox';
    end if;
    return relation;
end
$$;
comment on function baton_internal.table_to_adopt(text) is 'the table that a name means to the caller';

-- Refuse a table that cannot be adopted as an outbox by the caller.
create function baton_internal.check_adoptable(relation regclass)
returns void
language plpgsql
as $$
begin
    if exists (select from baton.outboxes o where o.relation = check_adoptable.relation)
       or exists (select from baton_internal.outbox_partitions p where p.relation = check_adoptable.relation) then
        raise exception '% is an outbox of baton''s own', relation using errcode = 'BT004',
            hint = 'it needs no adoption: read it with a consumer group';
    end if;
    perform baton_internal.check_table_adoptable(relation);
    if (select c.relpersistence from pg_catalog.pg_class c where c.oid = relation) = 'u' then
        raise notice '% is unlogged: a crash of the server loses its events', relation;
    end if;
end
$$;
comment on function baton_internal.check_adoptable(regclass) is 'raises unless the caller may adopt a table as an outbox';

-- Refuse roles that point at a missing column or at one of the wrong type.
create function baton_internal.check_columns(relation regclass, layout jsonb)
returns void
language plpgsql stable
as $$
declare
    item record;
begin
    for item in
        select r.role, baton_internal.mapped_column(layout, r.role) as column_name, baton_internal.mapped_key(layout, r.role) as key,
               k.types, a.attnum, t.typname, t.typcategory, a.atttypid
          from jsonb_object_keys(layout -> 'columns') r (role)
          join baton_internal.adoption_keys k on k.section = 'columns' and k.key = r.role
          left join pg_catalog.pg_attribute a
                 on a.attrelid = relation and a.attname = baton_internal.mapped_column(layout, r.role) and a.attnum > 0 and not a.attisdropped
          left join pg_catalog.pg_type b on b.oid = a.atttypid
          left join pg_catalog.pg_type t on t.oid = coalesce(nullif(b.typbasetype, 0), b.oid)
    loop
        if item.attnum is null then
            raise exception 'column "%" of % does not exist, but is mapped as %', item.column_name, relation, item.role
                using errcode = 'undefined_column',
                      hint = format('map another one, or none: {"columns": {"%s": null}}', item.role);
        end if;
        if not (case when item.key is not null then item.typname = 'jsonb'
                    when item.types = 'text' then item.typcategory = 'S'
                    when item.types = 'json' then item.typname in ('json', 'jsonb')
                    when item.types = 'state' then item.typcategory in ('S', 'N', 'E', 'B')
                    when item.types = 'number' then item.typname in ('int2', 'int4', 'int8')
                    when item.types = 'time' then item.typname in ('timestamptz', 'timestamp')
                    else true end) then
            raise exception 'column "%" of % has type %, which does not fit %', item.column_name, relation,
                            format_type(item.atttypid, null), item.role
                using errcode = 'datatype_mismatch',
                      hint = case when item.key is not null then 'a key is looked up in a column of type jsonb'
                                  else case item.types when 'text' then 'it must be text' when 'json' then 'it must be json or jsonb'
                                       when 'state' then 'it must be text, a number, an enum or a boolean'
                                       when 'number' then 'it must be smallint, integer or bigint'
                                       else 'it must be timestamp with time zone' end end;
        end if;
    end loop;
end
$$;
comment on function baton_internal.check_columns(regclass, jsonb) is 'raises undefined_column or datatype_mismatch for a role that does not fit its column';

-- Return the columns that identify a row: the id, and the partition key where the id's index had to include it.
create function baton_internal.adopted_key(relation regclass, id_column text)
returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    partition_columns text[];
    key text[];
begin
    select coalesce(array_agg(a.attname::text), '{}') into partition_columns
      from pg_partitioned_table p
      join pg_attribute a on a.attrelid = p.partrelid and a.attnum = any (p.partattrs::smallint[])
     where p.partrelid = relation;
    select array_agg(c.attname::text order by c.attname <> id_column, c.attname) into key
      from pg_index i
      join pg_attribute c on c.attrelid = relation and c.attnum = any (i.indkey::smallint[])
     where i.indrelid = relation and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
     group by i.indexrelid, i.indnatts
    having bool_or(c.attname = id_column) and bool_and(c.attname = id_column or c.attname = any (partition_columns))
     order by count(*) limit 1;
    if key is null then
        raise exception 'column "%" of % is not unique', id_column, relation using errcode = 'invalid_parameter_value',
            hint = 'an outbox needs a primary key or unique index on its id (with the partition key added where it is partitioned)';
    end if;
    if exists (select from pg_attribute a where a.attrelid = relation and a.attname = id_column and not a.attnotnull) then
        raise exception 'column "%" of % may be null', id_column, relation using errcode = 'invalid_parameter_value',
            hint = 'declare it not null: an event without an id could never be acknowledged';
    end if;
    return key;
end
$$;
comment on function baton_internal.adopted_key(regclass, text) is 'columns of a unique index that identify a row of an outbox';

-- Refuse a state machine that contradicts itself.
create function baton_internal.check_states(layout jsonb)
returns void
language plpgsql stable
as $$
declare
    columns jsonb := layout -> 'columns';
    states jsonb := coalesce(layout -> 'states', '{}');
    limited boolean := columns ? 'attempts' and (columns ? 'max_attempts' or layout #> '{attempts,limit}' is not null);
    problem text;
    twice text;
begin
    select string_agg(r.role, ' and ' order by r.role) into twice
      from jsonb_object_keys(columns) r (role)
     where r.role = any ('{id,status,attempts,max_attempts,last_error,available_at,retry_at,processed_at,locked_at,locked_by,expires_at}')
       and baton_internal.mapped_key(layout, r.role) is null
     group by baton_internal.mapped_column(layout, r.role) having count(*) > 1 limit 1;
    problem := case
        when not columns ? 'id' then 'no column is mapped as id'
        when not columns ? 'payload' then 'no column is mapped as payload'
        when twice is not null then format('one column cannot be %s', twice)
        when columns ? 'status' and not states ? 'pending' then 'a status column needs the value that means pending'
        when not columns ? 'status' and states <> '{}' then 'states are given, but no status column'
        when columns ? 'status' and layout #>> '{done,as}' is distinct from 'delete' and not states ? 'done'
            then 'a status column needs the value that means done'
        when not columns ? 'status' and not columns ? 'processed_at' and layout #>> '{done,as}' is distinct from 'delete'
            then 'nothing says how a row is done: a status column, a processed_at column, or {"done": {"as": "delete"}}'
        when states ? 'claimed' and not columns ? 'locked_at'
            then 'a claimed state needs a locked_at column, or a crashed worker''s rows would never come back'
        when columns ? 'locked_by' and not columns ? 'locked_at' then 'a locked_by column needs a locked_at column'
        when (select count(*) <> count(distinct v) from jsonb_each(states - 'failed') s (k, v)) then 'two states have the same value'
        when states -> 'failed' in (states -> 'done', states -> 'dead', states -> 'claimed')
            then 'the state failed means due for another try; it cannot equal done, dead or claimed'
        when states ? 'failed' and states -> 'failed' <> states -> 'pending' and not columns ?| '{retry_at,available_at}'
            then 'a failed state needs a retry_at or available_at column'
        when layout #>> '{dead,as}' = 'status' and not states ? 'dead' then 'dead as status needs the value that means dead'
        when layout #>> '{dead,as}' = 'move' and layout #>> '{dead,table}' is null then 'dead as move needs a table'
        when layout #>> '{dead,as}' = 'attempts' and not limited
            then 'dead as attempts needs an attempts column and a limit'
        when coalesce((layout #>> '{attempts,budget}')::boolean, false) and not limited
            then 'an attempts budget needs an attempts column and a limit'
        when layout ? 'archive' and not (columns ? 'processed_at' and layout -> 'archive' ?& '{table,after}'
                                         and columns ? coalesce(layout #>> '{archive,by}', 'occurred_at'))
            then 'an archive needs a processed_at column, a column to partition by, a table and an age'
        when not columns || '{"hash": 1}' ? coalesce(layout #>> '{offsets,partition}', 'hash')
            then 'offsets are partitioned by a role that no column has'
        when layout #>> '{retention,done_after}' is not null and not columns ? 'processed_at' then 'retention by age needs a processed_at column'
        when layout #>> '{done,as}' = 'delete' and layout ? 'archive' then 'done rows cannot be both deleted and archived' end;
    if problem is not null then
        raise exception 'the mapping contradicts itself: %', problem using errcode = 'invalid_parameter_value',
            hint = 'see the presets in baton.adoption_presets for complete mappings';
    end if;
    if exists (select from jsonb_array_elements_text(coalesce(layout -> 'order', '[]')) o where not columns ? o) then
        raise exception 'the order names a role that no column has' using errcode = 'invalid_parameter_value',
            hint = 'order by roles such as id, created_at or available_at';
    end if;
end
$$;
comment on function baton_internal.check_states(jsonb) is 'raises invalid_parameter_value for a contradictory state machine';

-- Refuse state values that the status column cannot hold, by its type or by a check of its own.
create function baton_internal.check_state_values(relation regclass, layout jsonb)
returns void
language plpgsql
as $$
declare
    state record;
    rule record;
    status_column text := baton_internal.mapped_column(layout, 'status');
    type_name text;
    fits boolean;
begin
    select format_type(a.atttypid, a.atttypmod) into type_name
      from pg_catalog.pg_attribute a where a.attrelid = relation and a.attname = status_column;
    for state in select s.key, s.value #>> '{}' as plain from jsonb_each(coalesce(layout -> 'states', '{}')) s loop
        begin
            select r.fits into fits from baton_internal.run_as_owner(relation, format('select %L::%s::text = %L', state.plain, type_name, state.plain))
                as r (fits boolean);
        exception when data_exception then
            fits := false;
        end;
        if not fits then
            raise exception 'the state % = "%" does not fit column "%" of type %', state.key, state.plain, status_column, type_name
                using errcode = 'invalid_parameter_value';
        end if;
        for rule in select c.conname, pg_get_expr(c.conbin, c.conrelid) as expression from pg_catalog.pg_constraint c
                      join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and a.attname = status_column
                     where c.conrelid = relation and c.contype = 'c' and c.conkey = array[a.attnum] loop
            select r.fits into fits from baton_internal.run_as_owner(relation,
                format('select (%s)::boolean from (select %L::%s as %I) s', rule.expression, state.plain, type_name, status_column)) as r (fits boolean);
            if not fits then
                raise exception 'the state % = "%" is refused by constraint "%" of %', state.key, state.plain, rule.conname, relation
                    using errcode = 'invalid_parameter_value', hint = 'map the value that the table allows';
            end if;
        end loop;
    end loop;
end
$$;
comment on function baton_internal.check_state_values(regclass, jsonb) is 'raises invalid_parameter_value for a state value that the table would refuse';

-- Refuse a companion table (dead letters, archive) that cannot take the outbox's rows.
create function baton_internal.check_companion(relation regclass, companion regclass)
returns void
language plpgsql stable
as $$
declare
    missing record;
begin
    if (select not pg_has_role(baton_internal.caller(), c.relowner, 'usage') or c.relkind not in ('r', 'p')
          from pg_catalog.pg_class c where c.oid = companion) then
        raise exception '% must be a table of the caller''s own', companion using errcode = 'wrong_object_type',
            hint = 'rows of the outbox are moved into it';
    end if;
    select a.attname, a.atttypid, b.atttypid as other into missing
      from pg_catalog.pg_attribute a
      left join pg_catalog.pg_attribute b on b.attrelid = companion and b.attname = a.attname and b.attnum > 0 and not b.attisdropped
     where a.attrelid = relation and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
       and b.atttypid is distinct from a.atttypid
     limit 1;
    if found then
        raise exception 'column "%" of % %', missing.attname, companion,
                        case when missing.other is null then 'does not exist' else 'has another type than in ' || relation::text end
            using errcode = case when missing.other is null then 'undefined_column' else 'datatype_mismatch' end,
                  hint = format('every column of %s needs its place in %s', relation, companion);
    end if;
end
$$;
comment on function baton_internal.check_companion(regclass, regclass) is 'raises where a table cannot take the rows of an outbox';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{table_to_adopt}');
