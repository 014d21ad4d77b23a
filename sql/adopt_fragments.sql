-- Fragments: the pieces of SQL that a layout comes down to. In all of them the outbox is aliased t. Statements made of them run as
-- the table's owner (baton_internal.run_as_owner), who sees nothing of baton: what baton knows about rows comes in by $2 and $3.
-- A layout holds names, numbers, intervals and values, never SQL, so nothing in it can run as code.

-- Write the column of a role as SQL, or null when the layout has none.
create function baton_internal.role_column(layout jsonb, role text, alias text default 't')
returns text
language sql immutable
as $$ select format('%I.%I', alias, baton_internal.mapped_column(layout, role)) where layout -> 'columns' ? role $$;
comment on function baton_internal.role_column(jsonb, text, text) is 'qualified, quoted column of a role';

-- Write the value of a role as text SQL: a column, or a key inside a JSON column.
create function baton_internal.role_text(layout jsonb, role text, alias text default 't')
returns text
language sql immutable
as $$
    select coalesce(case when baton_internal.mapped_key(layout, role) is null then baton_internal.role_column(layout, role, alias) || '::text'
                         else format('(%s ->> %L)', baton_internal.role_column(layout, role, alias), baton_internal.mapped_key(layout, role)) end,
                    'null::text')
$$;
comment on function baton_internal.role_text(jsonb, text, text) is 'a role''s value as text';

-- Write a state's value as SQL: numbers bare, so that the table's own partial indexes are used.
create function baton_internal.state_literal(layout jsonb, state text)
returns text
language sql immutable
as $$
    select case jsonb_typeof(layout -> 'states' -> state)
               when 'number' then layout -> 'states' ->> state
               when 'boolean' then layout -> 'states' ->> state
               else quote_literal(layout -> 'states' ->> state) end
$$;
comment on function baton_internal.state_literal(jsonb, text) is 'a state''s value as a literal';

-- Write the type of a role's column.
create function baton_internal.role_type(relation regclass, layout jsonb, role text)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select format_type(a.atttypid, null) from pg_attribute a
     where a.attrelid = relation and a.attname = baton_internal.mapped_column(layout, role)
$$;
comment on function baton_internal.role_type(regclass, jsonb, text) is 'type of a role''s column';

-- Say how JSON or text in a role's column is given: as jsonb where the column is that, else as text, which baton turns into jsonb itself. A
-- value that jsonb has no place for would otherwise make every claim fail.
create function baton_internal.is_jsonb(relation regclass, layout jsonb, role text)
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select a.atttypid = 'jsonb'::regtype from pg_attribute a
                      where a.attrelid = relation and a.attname = baton_internal.mapped_column(layout, role)), true)
$$;
comment on function baton_internal.is_jsonb(regclass, jsonb, text) is 'true when a role has no column, or a column of type jsonb';

-- Say whether a role's column is of type bytea.
create function baton_internal.is_bytea(relation regclass, layout jsonb, role text)
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select exists (select from pg_attribute a where a.attrelid = relation and a.attname = baton_internal.mapped_column(layout, role)
                      and a.atttypid = 'bytea'::regtype)
$$;
comment on function baton_internal.is_bytea(regclass, jsonb, text) is 'true when a role''s column is of type bytea';

-- Write the wait after the n-th failed attempt as an interval.
create function baton_internal.backoff_sql(layout jsonb, attempt text)
returns text
language sql immutable
as $$
    select baton_internal.fill(case layout #>> '{backoff,kind}'
        when 'none' then $sql$interval '0'$sql$
        when 'fixed' then $sql${base} * interval '1 second'$sql$
        when 'linear' then $sql$least(least({attempt}, {max_steps}) * {base}, 3153600000) * interval '1 second'$sql$
        else $sql$least({base} * power({factor}::float8, least({attempt} - 1, 60)), {max_seconds}) * (1 + {jitter} * (2 * random() - 1)) * interval '1 second'$sql$ end,
        jsonb_build_object(
            'attempt', attempt,
            'base', coalesce((layout #>> '{backoff,base_seconds}')::numeric, 5),
            'max_steps', coalesce((layout #>> '{backoff,max_steps}')::int, 1000000),
            'factor', coalesce((layout #>> '{backoff,factor}')::numeric, 2),
            'max_seconds', coalesce((layout #>> '{backoff,max_seconds}')::numeric, 900),
            'jitter', coalesce((layout #>> '{backoff,jitter}')::numeric, 0.1)))
$$;
comment on function baton_internal.backoff_sql(jsonb, text) is 'a layout''s backoff as an SQL interval';

-- Say whether failures need a place in baton_internal.adopted_failures, because the table has none for all of them.
create function baton_internal.keeps_failures(layout jsonb)
returns boolean
language sql immutable
as $$
    select not (layout -> 'columns' ? 'last_error' and layout -> 'columns' ? 'attempts'
                and layout -> 'columns' ?| '{available_at,retry_at}')
$$;
comment on function baton_internal.keeps_failures(jsonb) is 'true when a table lacks a column for error, attempts or retry time';

-- Write the conditions of a state machine: open, done, dead, due, and what failing does.
create function baton_internal.adopted_fragments(relation regclass, layout jsonb)
returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    columns jsonb := layout -> 'columns';
    states jsonb := coalesce(layout -> 'states', '{}');
    status_column text := baton_internal.role_column(layout, 'status');
    row_id text := baton_internal.role_column(layout, 'id') || '::text';
    attempts text := coalesce(baton_internal.role_column(layout, 'attempts'), format($sql$coalesce(($3 -> 'attempts' ->> %s)::int, 0)$sql$, row_id));
    limit_sql text := coalesce(baton_internal.role_column(layout, 'max_attempts'), layout #>> '{attempts,limit}');
    spent text := case layout #>> '{attempts,rule}' when 'exceeds' then '%s > %s' else '%s >= %s' end;
    open_sql text;
    done_sql text;
    dead_sql text := 'false';
    budget text := 'true';
    delay text := 'true';
begin
    if columns ? 'status' then
        open_sql := format('%s in (%s)', status_column, (select string_agg(distinct baton_internal.state_literal(layout, s), ', ')
                                                           from unnest('{pending,claimed,failed}'::text[]) s where states ? s));
        done_sql := case when states ? 'done' then format('%s = %s', status_column, baton_internal.state_literal(layout, 'done')) else 'false' end;
    elsif columns ? 'processed_at' then
        open_sql := baton_internal.role_column(layout, 'processed_at') || ' is null';
        done_sql := baton_internal.role_column(layout, 'processed_at') || ' is not null';
    else
        open_sql := 'true';
        done_sql := 'false';
    end if;
    if layout #>> '{dead,as}' = 'attempts' or (layout #>> '{attempts,budget}')::boolean then
        budget := format(case layout #>> '{attempts,rule}' when 'exceeds' then '%s <= %s' else '%s < %s' end, attempts, limit_sql);
        dead_sql := format('(%s and ' || spent || ')', open_sql, attempts, limit_sql);
    end if;
    if layout #>> '{dead,as}' = 'status' then
        dead_sql := format('(%s = %s or %s)', status_column, baton_internal.state_literal(layout, 'dead'), dead_sql);
    end if;
    if not columns ?| '{available_at,retry_at}' and layout #>> '{backoff,kind}' is distinct from 'none' then
        delay := format('(%s = any ($2)) is not true', row_id);  -- a form that the server looks up in a hash
    end if;
    return jsonb_build_object(
        'open', open_sql, 'done', done_sql, 'dead', dead_sql, 'row_id', row_id, 'attempts', attempts, 'limit', limit_sql,
        'due', concat_ws(' and ', baton_internal.due_sql(relation, layout), nullif(budget, 'true'), nullif(delay, 'true')),
        'dies', case when limit_sql is null then 'false' else format(spent, attempts || ' + 1', limit_sql) end);
end
$$;
comment on function baton_internal.adopted_fragments(regclass, jsonb) is 'conditions of a layout''s states as SQL';

-- Write which rows are waiting and due, locks aside.
create function baton_internal.due_sql(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    states jsonb := coalesce(layout -> 'states', '{}');
    status_column text := baton_internal.role_column(layout, 'status');
    available text := baton_internal.role_column(layout, 'available_at');
    retry text := baton_internal.role_column(layout, 'retry_at');
    waiting text;
    failed text;
begin
    available := case when available is null then null
        when (select a.attnotnull from pg_attribute a where a.attrelid = relation and a.attname = baton_internal.mapped_column(layout, 'available_at'))
            then available || ' <= now()'
        else format('(%s is null or %s <= now())', available, available) end;
    if status_column is not null then
        waiting := format('%s = %s', status_column, baton_internal.state_literal(layout, 'pending'));
        if states ? 'failed' and states -> 'failed' <> states -> 'pending' then
            failed := format('(%s = %s and %s)', status_column, baton_internal.state_literal(layout, 'failed'), coalesce(retry || ' <= now()', available));
            return format('(%s or %s)', concat_ws(' and ', waiting, available), failed);
        end if;
    elsif layout -> 'columns' ? 'processed_at' then
        waiting := baton_internal.role_column(layout, 'processed_at') || ' is null';
    end if;
    return concat_ws(' and ', coalesce(waiting, 'true'), available, baton_internal.sql_part('(%1$s is null or %1$s <= now())', retry));
end
$$;
comment on function baton_internal.due_sql(regclass, jsonb) is 'condition of rows that wait and are due';

-- Write the assignments that bring a row into a state; the fail statement aliases its target row g.
create function baton_internal.state_assignments(relation regclass, layout jsonb, state text)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    columns jsonb := layout -> 'columns';
    sets text[] := '{}';
    error_column text := baton_internal.mapped_column(layout, 'last_error');
    value_state text := case when state = 'failed' and not coalesce(layout -> 'states', '{}') ? 'failed' then 'pending' else state end;
begin
    if columns ? 'status' and coalesce(layout -> 'states', '{}') ? value_state then
        sets := sets || format('%I = %s', columns ->> 'status', baton_internal.state_literal(layout, value_state));
    end if;
    if columns ? 'processed_at' and state in ('done', 'pending') then
        sets := sets || format('%I = %s', columns ->> 'processed_at', case state when 'done' then 'now()' else 'null' end);
    end if;
    if columns ? 'attempts' and state in ('failed', 'dead', 'pending') then
        sets := sets || format('%I = %s', columns ->> 'attempts', case state when 'pending' then '0' else 'g.attempts' end);
    end if;
    if state = 'failed' and columns ?| '{retry_at,available_at}' then
        sets := sets || format('%I = g.due', coalesce(columns ->> 'retry_at', columns ->> 'available_at'));
    elsif state = 'pending' then
        sets := sets || baton_internal.sql_part('%I = null', columns ->> 'retry_at') || baton_internal.sql_part('%I = now()', columns ->> 'available_at');
    end if;
    if error_column is not null and state in ('failed', 'dead', 'pending') then
        sets := sets || format('%I = %s', error_column, baton_internal.error_sql(relation, layout, state <> 'pending'));
    end if;
    sets := sets || baton_internal.sql_part('%I = null', columns ->> 'locked_at') || baton_internal.sql_part('%I = null', columns ->> 'locked_by')
                 || baton_internal.sql_part('%I = now()', columns ->> 'updated_at');
    return array_to_string(sets, ', ');
end
$$;
comment on function baton_internal.state_assignments(regclass, jsonb, text) is 'assignments that bring a row into a state';

-- Write the new value of the error's column: the error cut to what fits, or without one.
create function baton_internal.error_sql(relation regclass, layout jsonb, failed boolean)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when baton_internal.mapped_key(layout, 'last_error') is not null and failed
            then format($sql$coalesce(t.%I, '{}') || jsonb_build_object(%L, $3 ->> 'error')$sql$, a.attname, baton_internal.mapped_key(layout, 'last_error'))
        when baton_internal.mapped_key(layout, 'last_error') is not null then format('t.%I - %L', a.attname, baton_internal.mapped_key(layout, 'last_error'))
        when not failed then 'null'
        when a.atttypmod > 4 then format($sql$left($3 ->> 'error', %s)$sql$, a.atttypmod - 4)
        else $sql$($3 ->> 'error')$sql$ end
      from pg_attribute a where a.attrelid = relation and a.attname = baton_internal.mapped_column(layout, 'last_error')
$$;
comment on function baton_internal.error_sql(regclass, jsonb, boolean) is 'value of the column that holds the last error';

-- Write an event of a layout as the columns of baton.adopted_event.
create function baton_internal.event_sql(relation regclass, layout jsonb, attempts text)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    payload text := baton_internal.role_column(layout, 'payload');
    headers text := case when baton_internal.is_jsonb(relation, layout, 'headers')
                         then coalesce('coalesce(' || baton_internal.role_column(layout, 'headers') || $sql$, '{}')$sql$, $sql$'{}'::jsonb$sql$)
                         else format($sql$to_jsonb(coalesce(%s::text, '{}'))$sql$, baton_internal.role_column(layout, 'headers')) end;
    routing text := baton_internal.role_column(layout, 'routing_key');
    fallback text := (select format('%L || t.%I::text', n.nspname || '.' || c.relname || ':', baton_internal.mapped_column(layout, 'id'))
                        from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation);
begin
    if baton_internal.mapped_column(layout, 'last_error') = baton_internal.mapped_column(layout, 'headers') then
        headers := format('(%s - %L)', headers, baton_internal.mapped_key(layout, 'last_error'));
    end if;
    return concat_ws(', ',
        baton_internal.role_text(layout, 'id') || ' as id',
        case when layout -> 'columns' ? 'event_id' then baton_internal.role_text(layout, 'event_id') else fallback end || ' as event_id',
        (select string_agg(format('%s as %I', baton_internal.role_text(layout, r), r), ', ' order by n)
           from unnest('{tenant_id,aggregate_type,aggregate_id,event_type,schema_version,topic}'::text[]) with ordinality u (r, n)),
        format('coalesce(%s, %s) as partition_key', baton_internal.role_text(layout, 'partition_key'), baton_internal.role_text(layout, 'aggregate_id')),
        coalesce(baton_internal.sql_part($sql$array(select btrim(k) from unnest(string_to_array(%s, %L)) with ordinality u (k, n)
                                               where btrim(k) <> '' order by n) as routing_keys$sql$,
                        routing || '::text', coalesce(layout #>> '{routing,separator}', ',')), $sql$'{}'::text[] as routing_keys$sql$),
        format(case when baton_internal.is_jsonb(relation, layout, 'payload') then '%s'
                    when baton_internal.is_bytea(relation, layout, 'payload') then $sql$to_jsonb(encode(%s, 'base64'))$sql$
                    else 'to_jsonb(%s::text)' end, payload) || ' as payload',
        headers || ' as headers',
        (select string_agg(format('%s as %I', baton_internal.role_text(layout, r), r), ', ' order by n)
           from unnest('{trace_id,correlation_id,causation_id,idempotency_key}'::text[]) with ordinality u (r, n)),
        coalesce(baton_internal.role_column(layout, 'occurred_at'), baton_internal.role_column(layout, 'created_at'), 'null') || '::timestamptz as occurred_at',
        format('(%s + 1)::int as attempt', attempts));
end
$$;
comment on function baton_internal.event_sql(regclass, jsonb, text) is 'select list that gives a row for complete_adopted_event(), which makes a baton.adopted_event of it';
