-- Publishing: an event is one insert. These functions are for those who do not write it themselves.

-- Return the id of the event that used an idempotency key first.
create function baton_internal.find_idempotent(relation regclass, tenant_id text, idempotency_key text)
returns bigint
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select k.id from baton_internal.idempotency_keys k join baton.outboxes o using (outbox_id)
     where o.relation = $1 and k.tenant_id = coalesce($2, '') and k.key = $3
$$;
comment on function baton_internal.find_idempotent(regclass, text, text) is 'id of the event that used a key first';

-- Return the payload's type of an outbox that may be published into. Refuses a table that is none, and everything while an
-- operator has switched publishing off.
create function baton_internal.payload_type_of(relation regclass)
returns text
language plpgsql stable security definer  -- producers cannot read the catalog
set search_path = pg_catalog, pg_temp
as $$
declare
    wanted text;
begin
    if not baton.setting('outbox_enabled')::boolean then
        raise exception 'publishing is switched off'
            using errcode = 'BT005', hint = 'an operator set outbox_enabled to off: select baton.set_setting(''outbox_enabled'', ''on'')';
    end if;
    select o.payload_type into wanted from baton.outboxes o where o.relation = payload_type_of.relation;
    return coalesce(wanted, (baton_internal.find_outbox(relation)).payload_type);
end
$$;
comment on function baton_internal.payload_type_of(regclass) is 'type of the payloads of an outbox';

-- Insert the events of a JSON array whose payloads are under "payload"; returns their ids in order.
create function baton_internal.publish_events(relation regclass, events jsonb)
returns setof bigint
language plpgsql
as $$
begin
    if exists (select from jsonb_array_elements(events) e where jsonb_typeof(e) <> 'object' or e ->> 'event_type' is null) then
        raise exception 'an event needs an event_type' using errcode = 'null_value_not_allowed',
            hint = 'each event is an object like {"event_type": "order.placed", "payload": {...}}';
    end if;
    return query execute format($sql$
        insert into %s (event_id, tenant_id, aggregate_type, aggregate_id, event_type, schema_version, topic, partition_key,
                        payload, headers, trace_id, correlation_id, causation_id, idempotency_key, occurred_at, available_at)
        select coalesce((e ->> 'event_id')::uuid, baton.uuid_v7()),
               coalesce(e ->> 'tenant_id', nullif(current_setting('baton.tenant_id', true), '')),
               e ->> 'aggregate_type', e ->> 'aggregate_id', e ->> 'event_type', coalesce((e ->> 'schema_version')::int, 1),
               e ->> 'topic', e ->> 'partition_key', %s, e -> 'headers', e ->> 'trace_id', e ->> 'correlation_id',
               e ->> 'causation_id', e ->> 'idempotency_key',
               coalesce((e ->> 'occurred_at')::timestamptz, clock_timestamp()), (e ->> 'available_at')::timestamptz
          from jsonb_array_elements($1) with ordinality as events (e, n) order by n
        returning id$sql$, relation,
        case baton_internal.payload_type_of(relation) when 'jsonb' then $e$e -> 'payload'$e$
             when 'json' then $e$(e -> 'payload')::json$e$ when 'bytea' then $e$(e ->> 'payload')::bytea$e$
             else $e$e ->> 'payload'$e$ end) using events;
end
$$;
comment on function baton_internal.publish_events(regclass, jsonb) is 'inserts an array of events; called by publish_many()';

-- Publish one event and return its id, or the first one's when its idempotency key was used before.
create function baton_internal.publish_event(relation regclass, event jsonb)
returns bigint
language plpgsql
as $$
declare
    new_id bigint;
begin
    select * into new_id from baton_internal.publish_events(relation, jsonb_build_array(event));
    if new_id is null then
        new_id := baton_internal.find_idempotent(relation, coalesce(event ->> 'tenant_id', nullif(current_setting('baton.tenant_id', true), '')),
                                        event ->> 'idempotency_key');
    end if;
    return new_id;
end
$$;
comment on function baton_internal.publish_event(regclass, jsonb) is 'inserts one event; called by publish()';

-- How a payload of the given type goes into a column of the wanted one, as an expression over $1. How a type is written depends on the session.
create function baton_internal.payload_expression(wanted text, given regtype)
returns text
language sql immutable
as $$
    select case
        when given = 'pg_catalog.bytea'::regtype then case wanted when 'bytea' then '$1' end
        when given = 'pg_catalog.text'::regtype then case wanted when 'text' then '$1' else '$1::' || wanted end
        when given = 'pg_catalog.jsonb'::regtype and wanted = 'jsonb' or given = 'pg_catalog.json'::regtype and wanted = 'json' then '$1'
        when given in ('pg_catalog.jsonb'::regtype, 'pg_catalog.json'::regtype) and wanted <> 'bytea' or wanted = 'text' then '$1::' || wanted
        when wanted = 'jsonb' then 'to_jsonb($1)'
        when wanted = 'json' then 'to_json($1)'
    end
$$;
comment on function baton_internal.payload_expression(text, regtype) is 'expression that turns a payload into the outbox''s type; null when it does not fit';

-- Publish one event and return its id, or the first one's when its idempotency key was used before.
create function baton_internal.publish_payload(
    relation regclass, event_type text, payload anyelement, aggregate_type text, aggregate_id text, topic text, partition_key text,
    headers jsonb, tenant_id text, trace_id text, correlation_id text, causation_id text, idempotency_key text, schema_version int,
    occurred_at timestamptz, available_at timestamptz, event_id uuid)
returns bigint
language plpgsql
as $$
declare
    wanted constant text := baton_internal.payload_type_of(relation);
    given constant regtype := pg_typeof(payload);
    expression constant text := baton_internal.payload_expression(wanted, given);
    tenant constant text := coalesce(tenant_id, nullif(current_setting('baton.tenant_id', true), ''));
    new_id bigint;
begin
    if event_type is null then
        raise exception 'an event needs an event_type' using errcode = 'null_value_not_allowed', hint = 'such as order.placed';
    elsif expression is null then
        raise exception 'the payload is of type %, the outbox % takes %', given, relation, wanted
            using errcode = 'datatype_mismatch', hint = 'pass the payload in the type that the outbox was created with';
    end if;
    execute format('insert into %s (payload, event_type, aggregate_type, aggregate_id, topic, partition_key, headers, tenant_id, trace_id, '
                   'correlation_id, causation_id, idempotency_key, schema_version, occurred_at, available_at, event_id) '
                   'values (%s, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, coalesce($13, 1), coalesce($14, clock_timestamp()), $15, '
                   'coalesce($16, baton.uuid_v7())) returning id', relation, expression)
       into new_id
      using payload, event_type, aggregate_type, aggregate_id, topic, partition_key, headers, tenant, trace_id, correlation_id,
            causation_id, idempotency_key, schema_version, occurred_at, available_at, event_id;
    return coalesce(new_id, baton_internal.find_idempotent(relation, tenant, idempotency_key));
end
$$;
comment on function baton_internal.publish_payload(regclass, text, anyelement, text, text, text, text, jsonb, text, text, text, text, text, int, timestamptz,
    timestamptz, uuid) is 'inserts one event; called by publish()';

-- Publish an event. A payload given as text, or as a literal, is read as JSON where the outbox holds JSON.
create function baton.publish(
    outbox          text,
    event_type      text,
    payload         text,
    aggregate_type  text        default null,
    aggregate_id    anycompatiblenonarray default null::text,  -- drivers send numbers and uuids as such
    topic           text        default null,
    partition_key   text        default null,
    headers         jsonb       default null,
    tenant_id       text        default null,
    trace_id        text        default null,
    correlation_id  text        default null,
    causation_id    text        default null,
    idempotency_key text        default null,
    schema_version  int         default 1,
    occurred_at     timestamptz default null,
    available_at    timestamptz default null,
    event_id        uuid        default null)
returns bigint
language sql
as $$
    select baton_internal.publish_payload(baton_internal.resolve_table(outbox), event_type, payload, aggregate_type, aggregate_id::text, topic, partition_key,
        headers, tenant_id, trace_id, correlation_id, causation_id, idempotency_key, schema_version, occurred_at, available_at, event_id)
$$;
comment on function baton.publish(text, text, text, text, anycompatiblenonarray, text, text, jsonb, text, text, text, text, text, int, timestamptz, timestamptz, uuid)
    is 'publishes an event in your transaction; returns its id';

-- Publish an event whose payload is jsonb, json, bytea or any other value.
create function baton.publish(
    outbox          text,
    event_type      text,
    payload         anyelement,
    aggregate_type  text        default null,
    aggregate_id    anycompatiblenonarray default null::text,  -- drivers send numbers and uuids as such
    topic           text        default null,
    partition_key   text        default null,
    headers         jsonb       default null,
    tenant_id       text        default null,
    trace_id        text        default null,
    correlation_id  text        default null,
    causation_id    text        default null,
    idempotency_key text        default null,
    schema_version  int         default 1,
    occurred_at     timestamptz default null,
    available_at    timestamptz default null,
    event_id        uuid        default null)
returns bigint
language sql
as $$
    select baton_internal.publish_payload(baton_internal.resolve_table(outbox), event_type, payload, aggregate_type, aggregate_id::text, topic, partition_key,
        headers, tenant_id, trace_id, correlation_id, causation_id, idempotency_key, schema_version, occurred_at, available_at, event_id)
$$;
comment on function baton.publish(text, text, anyelement, text, anycompatiblenonarray, text, text, jsonb, text, text, text, text, text, int, timestamptz, timestamptz, uuid)
    is 'publishes an event in your transaction; returns its id';

-- Publish an array of events in one statement; returns their ids in order, the first one's id where a key was used before.
create function baton.publish_many(outbox text, events jsonb)
returns setof bigint
language plpgsql
as $$
declare
    relation constant regclass := baton_internal.resolve_table(outbox);
    event jsonb;
begin
    if events is null or jsonb_typeof(events) <> 'array' then
        raise exception 'events must be a JSON array of objects'
            using errcode = 'invalid_parameter_value', hint = 'like [{"event_type": "order.placed", "payload": {...}}, ...]';
    end if;
    if jsonb_path_exists(events, '$[*].idempotency_key') then
        for event in select jsonb_array_elements(events) loop
            return next baton_internal.publish_event(relation, event);
        end loop;
    else
        return query select * from baton_internal.publish_events(relation, events);
    end if;
end
$$;
comment on function baton.publish_many(text, jsonb) is 'publishes an array of events; returns their ids in order';

select baton_internal.declare_privileges('execute', '{baton_producer,baton_operator}',
    '{publish,publish_many,publish_event,publish_events,publish_payload,payload_type_of,payload_expression,find_idempotent}');
