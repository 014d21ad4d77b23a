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
    perform baton_internal.publishable('-');
    select o.payload_type into wanted from baton.outboxes o where o.relation = payload_type_of.relation;
    return coalesce(wanted, (baton_internal.find_outbox(relation)).payload_type);
end
$$;
comment on function baton_internal.payload_type_of(regclass) is 'type of the payloads of an outbox';

-- Return how an event with such a payload goes into an outbox; null when the payload does not fit. Refuses a table that is no outbox.
create function baton_internal.publishing(relation regclass, given regtype)
returns text
language plpgsql stable security definer  -- producers cannot read the catalog
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox constant baton.outboxes := baton_internal.find_outbox(relation);
    payload constant text := baton_internal.payload_expression(outbox.payload_type, given);
begin
    return case when payload is not null then baton_internal.publish_statement(outbox, payload) end;
end
$$;
comment on function baton_internal.publishing(regclass, regtype) is 'statement that publishes an event whose payload is of some type; null when that does not fit';

-- The same for an array of events.
create function baton_internal.publishing_many(relation regclass)
returns text
language sql stable security definer  -- producers cannot read the catalog
set search_path = pg_catalog, pg_temp
as $$ select baton_internal.publish_many_statement(baton_internal.find_outbox(relation)) $$;
comment on function baton_internal.publishing_many(regclass) is 'statement that publishes an array of events';

-- Insert the events of a JSON array whose payloads are under "payload"; returns their ids in order. A statement that gave no row is tried again when its table
-- has another name by now. Where the name is the same, the statement's lock has kept it, and there was nothing to insert: a key was used before, or a trigger
-- of the owner's left the events out.
create function baton_internal.publish_events(relation regclass, events jsonb)
returns setof bigint
language plpgsql
as $$
declare
    statement text;
begin
    loop
        statement := baton_internal.publishing_many(relation);
        return query execute statement using events;
        exit when found or statement operator(pg_catalog.=) baton_internal.publishing_many(relation);
    end loop;
end
$$;
comment on function baton_internal.publish_events(regclass, jsonb) is 'inserts an array of events; called by publish_many()';

-- How a payload of the given type goes into a column of the wanted one, as an expression over $2. How a type is written depends on the session.
create function baton_internal.payload_expression(wanted text, given regtype)
returns text
language sql immutable
return case
        when given = 'pg_catalog.bytea'::regtype then case wanted when 'bytea' then '$2' end
        when given = 'pg_catalog.text'::regtype then case wanted when 'text' then '$2' else '$2::pg_catalog.' || wanted end
        when given = 'pg_catalog.jsonb'::regtype and wanted = 'jsonb' or given = 'pg_catalog.json'::regtype and wanted = 'json' then '$2'
        when given in ('pg_catalog.jsonb'::regtype, 'pg_catalog.json'::regtype) and wanted <> 'bytea' or wanted = 'text' then '$2::pg_catalog.' || wanted
        when wanted = 'jsonb' then 'pg_catalog.to_jsonb($2)'
        when wanted = 'json' then 'pg_catalog.to_json($2)'
    end;
comment on function baton_internal.payload_expression(text, regtype) is 'expression that turns a payload into the outbox''s type; null when it does not fit';

-- Publish one event and return its id, or the first one's when its idempotency key was used before: with a statement that is made for this event. Tried again
-- as in publish_events(); null is for an event that a trigger of the owner's left out.
create function baton_internal.publish_generally(
    relation regclass, event_type text, payload anyelement, aggregate_type text, aggregate_id text, topic text, partition_key text,
    headers jsonb, tenant_id text, trace_id text, correlation_id text, causation_id text, idempotency_key text, schema_version int,
    occurred_at timestamptz, available_at timestamptz, event_id uuid)
returns bigint
language plpgsql
as $$
declare
    wanted constant text := baton_internal.payload_type_of(relation);
    given constant regtype := pg_typeof(payload);
    statement text;
    new_id bigint;
begin
    perform baton_internal.publishable(event_type);  -- before the statement draws an id
    if baton_internal.payload_expression(wanted, given) is null then
        raise exception 'the payload is of type %, the outbox % takes %', given, relation, wanted
            using errcode = 'datatype_mismatch', hint = 'pass the payload in the type that the outbox was created with';
    end if;
    loop
        statement := baton_internal.publishing(relation, given);
        execute statement into new_id using event_type, payload, aggregate_type, aggregate_id, topic, partition_key, headers, tenant_id, trace_id, correlation_id,
            causation_id, idempotency_key, schema_version, occurred_at, available_at, event_id;
        exit when new_id is not null or statement operator(pg_catalog.=) baton_internal.publishing(relation, given);
    end loop;
    return coalesce(new_id, baton_internal.find_idempotent(relation, coalesce(tenant_id, baton_internal.session_tenant()), idempotency_key));
end
$$;
comment on function baton_internal.publish_generally(regclass, text, anyelement, text, text, text, text, jsonb, text, text, text, text, text, int, timestamptz,
    timestamptz, uuid) is 'inserts one event into any outbox; called where there is no quicker way';

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
    select baton_internal.publish_payload(outbox, event_type, payload, aggregate_type, aggregate_id::text, topic, partition_key,
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
    select baton_internal.publish_payload(outbox, event_type, payload, aggregate_type, aggregate_id::text, topic, partition_key,
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
    log constant regclass := baton_internal.resolve_table(outbox);
    own constant text := (select pg_catalog.concat('baton_internal.publish_many_', c.outbox_id) from baton_internal.outbox_calls c
                           where c.relation operator(pg_catalog.=) log);
    call constant text := case when pg_catalog.to_regproc(own) is not null then pg_catalog.concat('select * from ', own, '($1)')
                               else pg_catalog.concat('select * from baton_internal.publish_events(', log::oid, '::oid, $1)') end;
    event jsonb;
    published bigint;
begin
    if events is null or pg_catalog.jsonb_typeof(events) operator(pg_catalog.<>) 'array' then
        raise exception 'events must be a JSON array of objects'
            using errcode = 'invalid_parameter_value', hint = 'like [{"event_type": "order.placed", "payload": {...}}, ...]';
    elsif not pg_catalog.jsonb_path_exists(events, '$[*].idempotency_key') then
        return query execute call using events;
        return;
    end if;
    for event in select pg_catalog.jsonb_array_elements(events) loop  -- one by one: a key that was used before gives no row
        execute call into published using pg_catalog.jsonb_build_array(event);
        return next coalesce(published, baton_internal.find_idempotent(log,
            coalesce(event operator(pg_catalog.->>) 'tenant_id', baton_internal.session_tenant()), event operator(pg_catalog.->>) 'idempotency_key'));
    end loop;
end
$$;
comment on function baton.publish_many(text, jsonb) is 'publishes an array of events; returns their ids in order';

select baton_internal.declare_privileges('execute', '{baton_producer,baton_operator}',
    '{publish,publish_many,publish_events,publish_payload,publish_generally,publishing,publishing_many,payload_type_of,payload_expression,find_idempotent}');
