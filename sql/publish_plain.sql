-- Publishing by name: the outbox's own function has its plan, and only the call is planned here.

create function baton_internal.publish_payload(
    outbox text, event_type text, payload anyelement, aggregate_type text, aggregate_id text, topic text, partition_key text,
    headers jsonb, tenant_id text, trace_id text, correlation_id text, causation_id text, idempotency_key text, schema_version int,
    occurred_at timestamptz, available_at timestamptz, event_id uuid)
returns bigint
language plpgsql
as $$
declare
    log constant regclass := baton_internal.resolve_table(outbox);
    own text;
    expression text;
    published bigint;
begin
    select pg_catalog.concat('baton_internal.publish_', c.outbox_id), baton_internal.payload_expression(c.payload_type, pg_catalog.pg_typeof(payload)) into own, expression
      from baton_internal.outbox_calls c where c.relation operator(pg_catalog.=) log;
    if expression is null or pg_catalog.to_regproc(own) is null then
        return baton_internal.publish_generally(log, event_type, payload, aggregate_type, aggregate_id, topic, partition_key, headers, tenant_id, trace_id,
            correlation_id, causation_id, idempotency_key, schema_version, occurred_at, available_at, event_id);
    end if;
    execute pg_catalog.concat('select ', own, '($1, ', expression, ', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)') into published
      using event_type, payload, aggregate_type, aggregate_id, topic, partition_key, headers, tenant_id, trace_id, correlation_id, causation_id,
            idempotency_key, schema_version, occurred_at, available_at, event_id;
    return published;
end
$$;
comment on function baton_internal.publish_payload(text, text, anyelement, text, text, text, text, jsonb, text, text, text, text, text, int, timestamptz,
    timestamptz, uuid) is 'inserts one event; called by publish()';
