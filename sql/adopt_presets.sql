-- Presets: four common layouts, detected by their columns. Where a layout's own rules leave
-- something open (how long to wait after a failure, when to give up), the value here is baton's
-- default and a mapping changes it.

create table baton.adoption_presets (
    preset      text  primary key,
    description text  not null,
    layout      jsonb not null
);
comment on table baton.adoption_presets is 'built-in layouts for baton.adopt_outbox()';

insert into baton.adoption_presets (preset, description, layout) values
('messages', 'processed_at marks what is done; dead rows move to <table>_dlq, old ones to <table>_archive', '{
    "columns": {"id": "id", "tenant_id": "tenant_id", "aggregate_type": "aggregate_type", "aggregate_id": "aggregate_id",
                "event_type": "event_type", "schema_version": "event_version", "payload": "payload",
                "occurred_at": "occurred_at", "available_at": "available_at", "processed_at": "processed_at",
                "attempts": "attempts", "last_error": "last_error", "trace_id": "trace_id"},
    "order": ["id"],
    "attempts": {"limit": 10, "rule": "exceeds"},
    "backoff": {"kind": "linear", "base_seconds": 30, "max_steps": 8},
    "dead": {"as": "move", "table": "{table}_dlq"},
    "archive": {"table": "{table}_archive", "by": "occurred_at", "after": "7 days", "drop_after": "90 days", "months_ahead": 2},
    "partitions": {"months_ahead": 2},
    "offsets": {"table": "consumer_offsets", "partition": "tenant_id"}
}'),
('status', 'status pending, published or failed; published rows expire', '{
    "columns": {"id": "id", "event_id": "id", "aggregate_type": "aggregate_type", "aggregate_id": "aggregate_id",
                "event_type": "event_type", "topic": "topic", "partition_key": "partition_key", "payload": "payload",
                "headers": "headers", "trace_id": {"column": "headers", "key": "traceId"}, "status": "status",
                "attempts": "retry_count", "max_attempts": "max_retries", "processed_at": "published_at",
                "expires_at": "expires_at", "occurred_at": "created_at", "created_at": "created_at"},
    "order": ["created_at"],
    "states": {"pending": "pending", "done": "published", "dead": "failed"},
    "attempts": {"rule": "reaches"},
    "backoff": {"kind": "exponential", "base_seconds": 5, "factor": 2, "max_seconds": 900, "jitter": 0.1},
    "dead": {"as": "status"},
    "partitions": {"months_ahead": 2},
    "processed_events": {"table": "processed_events"}
}'),
('locks', 'status with locked_at and locked_by; idempotency keys, schedule, attempts budget', '{
    "columns": {"id": "id", "event_id": "id", "event_type": "event_type", "aggregate_type": "aggregate_type",
                "aggregate_id": "aggregate_id", "topic": "topic", "partition_key": "partition_key", "payload": "payload",
                "headers": "headers", "trace_id": "trace_id", "idempotency_key": "idempotency_key",
                "correlation_id": "correlation_id", "causation_id": "causation_id", "schema_version": "schema_version",
                "status": "status", "attempts": "attempts_made", "max_attempts": "max_attempts", "last_error": "last_error",
                "available_at": "scheduled_at", "processed_at": "completed_at", "locked_at": "locked_at",
                "locked_by": "locked_by", "occurred_at": "created_at", "created_at": "created_at", "updated_at": "updated_at"},
    "order": ["available_at"],
    "states": {"pending": "pending", "done": "completed", "dead": "failed"},
    "attempts": {"rule": "reaches", "budget": true},
    "backoff": {"kind": "exponential", "base_seconds": 5, "factor": 2, "max_seconds": 900, "jitter": 0.1},
    "dead": {"as": "status"},
    "locks": {"timeout": "5 minutes"},
    "retention": {"done_after": "7 days"},
    "partitions": {"months_ahead": 2}
}'),
('ulid', 'ULID ids, numeric states, retry_after, routing keys with commas, errors in metadata', '{
    "columns": {"id": "id", "event_id": "id", "topic": "topic", "event_type": "topic", "occurred_at": "occurred_at",
                "schema_version": "schema_version", "aggregate_id": "aggregate_id", "aggregate_type": "aggregate_type",
                "tenant_id": "tenant_id", "routing_key": "routing_key", "payload": "payload", "headers": "metadata",
                "trace_id": {"column": "metadata", "key": "trace_id"}, "last_error": {"column": "metadata", "key": "last_error"},
                "status": "status", "attempts": "retry_count", "retry_at": "retry_after", "created_at": "created_at"},
    "order": ["created_at"],
    "states": {"pending": 0, "done": 1, "failed": 2, "dead": 9},
    "routing": {"separator": ","},
    "attempts": {"limit": 10, "rule": "reaches"},
    "backoff": {"kind": "exponential", "base_seconds": 5, "factor": 2, "max_seconds": 900, "jitter": 0.1},
    "dead": {"as": "status"},
    "partitions": {"months_ahead": 2}
}');

-- What a mapping may say, and of which type a column must be.
create table baton_internal.adoption_keys (
    section text not null,
    key     text not null,
    types   text,
    primary key (section, key)
);
comment on table baton_internal.adoption_keys is 'sections and keys of a mapping for baton.adopt_outbox(); for columns, the types that fit';

insert into baton_internal.adoption_keys (section, key, types)
select 'columns', k, 'any' from unnest('{id,event_id,tenant_id,aggregate_type,aggregate_id,event_type,schema_version,
    topic,partition_key,routing_key,trace_id,correlation_id,causation_id,idempotency_key,payload}'::text[]) k
union all select 'columns', k, 'text' from unnest('{last_error,locked_by}'::text[]) k
union all select 'columns', k, 'json' from unnest('{headers}'::text[]) k
union all select 'columns', k, 'state' from unnest('{status}'::text[]) k
union all select 'columns', k, 'number' from unnest('{attempts,max_attempts}'::text[]) k
union all select 'columns', k, 'time' from unnest('{occurred_at,available_at,retry_at,processed_at,locked_at,expires_at,
    created_at,updated_at}'::text[]) k
union all select 'states', k, null from unnest('{pending,claimed,failed,done,dead}'::text[]) k
union all select 'attempts', k, null from unnest('{limit,rule,budget}'::text[]) k
union all select 'backoff', k, null from unnest('{kind,base_seconds,factor,max_seconds,max_steps,jitter}'::text[]) k
union all select 'dead', k, null from unnest('{as,table}'::text[]) k
union all select 'done', k, null from unnest('{as}'::text[]) k
union all select 'locks', k, null from unnest('{timeout}'::text[]) k
union all select 'retention', k, null from unnest('{done_after}'::text[]) k
union all select 'archive', k, null from unnest('{table,by,after,drop_after,months_ahead}'::text[]) k
union all select 'partitions', k, null from unnest('{months_ahead}'::text[]) k
union all select 'cleanup', k, null from unnest('{expire,archive,processed_events}'::text[]) k
union all select 'routing', k, null from unnest('{separator}'::text[]) k
union all select 'offsets', k, null from unnest('{table,partition}'::text[]) k
union all select 'processed_events', k, null from unnest('{table}'::text[]) k;

-- Fill a template of SQL, or give nothing when one of its parts is missing.
create function baton_internal.sql_part(template text, variadic parts text[])
returns text
language sql immutable
as $$ select format(template, variadic parts) where array_position(parts, null) is null $$;
comment on function baton_internal.sql_part(text, text[]) is 'format() that gives null where a part is null';

-- Return the name of the column that plays a role.
create function baton_internal.mapped_column(layout jsonb, role text)
returns text
language sql immutable
as $$
    select case jsonb_typeof(layout -> 'columns' -> role)
               when 'object' then layout -> 'columns' -> role ->> 'column'
               else layout -> 'columns' ->> role end
$$;
comment on function baton_internal.mapped_column(jsonb, text) is 'column of a role in a layout, null when the layout has none';

-- Return the key inside a JSON column that plays a role.
create function baton_internal.mapped_key(layout jsonb, role text)
returns text
language sql immutable
as $$ select layout -> 'columns' -> role ->> 'key' where jsonb_typeof(layout -> 'columns' -> role) = 'object' $$;
comment on function baton_internal.mapped_key(jsonb, text) is 'key of a role that lives inside a JSON column';

-- Lay a mapping over a layout, section by section; a null removes.
create function baton_internal.merge_layout(base jsonb, mapping jsonb)
returns jsonb
language sql immutable
as $$
    select jsonb_strip_nulls(coalesce(jsonb_object_agg(k, case
               when jsonb_typeof(base -> k) = 'object' and jsonb_typeof(mapping -> k) = 'object' then (base -> k) || (mapping -> k)
               when mapping ? k then mapping -> k
               else base -> k end), '{}'))
      from (select jsonb_object_keys(base) union select jsonb_object_keys(mapping)) keys (k)
$$;
comment on function baton_internal.merge_layout(jsonb, jsonb) is 'a preset with the user''s changes';

-- Detect the preset whose columns the table has; the one with most columns wins.
create function baton_internal.detect_preset(relation regclass)
returns text
language sql stable
as $$
    select p.preset
      from baton.adoption_presets p,
           lateral (select array_agg(distinct baton_internal.mapped_column(p.layout, r)) as needed
                      from jsonb_object_keys(p.layout -> 'columns') r) c
     where c.needed <@ (select array_agg(a.attname::text) from pg_catalog.pg_attribute a
                         where a.attrelid = relation and a.attnum > 0 and not a.attisdropped)
     order by cardinality(c.needed) desc
     limit 1
$$;
comment on function baton_internal.detect_preset(regclass) is 'name of the built-in layout that a table has, or null';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_consumer,baton_viewer}', '{mapped_column}');
select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer,baton_consumer}', '{adoption_presets,adoption_keys}');
