-- Publishing by name: the module keeps the plan of each outbox's statement for the session.

create function baton_internal.publish_payload(
    outbox text, event_type text, payload anyelement, aggregate_type text, aggregate_id text, topic text, partition_key text,
    headers jsonb, tenant_id text, trace_id text, correlation_id text, causation_id text, idempotency_key text, schema_version int,
    occurred_at timestamptz, available_at timestamptz, event_id uuid)
returns bigint
language c
as 'MODULE_PATHNAME', 'baton_publish';
comment on function baton_internal.publish_payload(text, text, anyelement, text, text, text, text, jsonb, text, text, text, text, text, int, timestamptz,
    timestamptz, uuid) is 'inserts one event; called by publish()';
