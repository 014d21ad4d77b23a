-- Calls: for each outbox functions whose statements name its table, so that a session plans them once. baton_internal.publish_N and publish_many_N belong
-- to the outbox with that number, run with the caller's rights, and name everything with its schema. Each remembers the table for which it was made by name and number: when the two no
-- longer belong together, because the table was renamed or came out of a dump, it does the same in the general way, until maintenance has made it anew.
-- The statements compare name and number too, with a constant that costs nothing: the name is looked up again when the statement had to wait for
-- somebody who renamed tables, and an event that would go into another table goes nowhere then.

-- What a call by name must know of an outbox. Producers cannot read the catalog.
create view baton_internal.outbox_calls as select o.relation, o.outbox_id, o.payload_type from baton.outboxes o;
comment on view baton_internal.outbox_calls is 'the number of each outbox, which its functions have in their names, and the type of its payloads';

-- A table's name with its schema, as SQL.
create function baton_internal.full_name(relation regclass)
returns text
language sql stable
as $$
    select pg_catalog.format('%I.%I', n.nspname, c.relname)
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace where c.oid operator(pg_catalog.=) relation
$$;
comment on function baton_internal.full_name(regclass) is 'a table''s name with its schema; null when it is gone';

-- A table in statements: as SQL, as a literal, and as a number.
create function baton_internal.log_parts(relation regclass)
returns jsonb
language sql stable
as $$
    select jsonb_build_object('relation', name, 'name', quote_literal(name), 'number', relation::oid::text) from baton_internal.full_name(relation) name
$$;
comment on function baton_internal.log_parts(regclass) is 'parts of statements that name a table, for fill()';

-- Return the type of an event that may be published. Refuses everything while an operator has switched publishing off, and an event without a type.
create function baton_internal.publishable(event_type text)
returns text
language plpgsql stable
as $$
begin
    perform baton_internal.check_outbox_enabled();
    if event_type is null then
        raise exception 'an event needs an event_type' using errcode = 'null_value_not_allowed', hint = 'such as order.placed';
    end if;
    return event_type;
end
$$;
comment on function baton_internal.publishable(text) is 'raises BT005 while publishing is off, and for an event without a type';

-- The statement that publishes one event. Its values are $1 to $16, in the order of publish() from event_type on; `payload` is an expression over $2. Returns no
-- id when the idempotency key was used before, or when the name belongs to another table by now.
create function baton_internal.publish_statement(outbox baton.outboxes, payload text)
returns text
language sql stable
as $body$
    select baton_internal.fill($sql$insert into {relation} (event_type, payload, aggregate_type, aggregate_id, topic, partition_key, headers, tenant_id, trace_id,
            correlation_id, causation_id, idempotency_key, schema_version, occurred_at, available_at, event_id)
        select coalesce(case when baton_internal.publishing_is_on() then $1 end, baton_internal.publishable($1)), {payload}, $3, $4, $5, $6, $7,
            coalesce($8, baton_internal.session_tenant()), $9, $10, $11, $12, coalesce($13, 1), coalesce($14, pg_catalog.clock_timestamp()), $15,
            coalesce($16, baton.uuid_v7())
         where {name}::pg_catalog.regclass operator(pg_catalog.=) {number}::pg_catalog.oid
        returning id$sql$, baton_internal.log_parts(outbox.relation) || jsonb_build_object('payload', payload))
$body$;
comment on function baton_internal.publish_statement(baton.outboxes, text) is 'statement that publishes one event into an outbox';

-- The statement that publishes a JSON array of events, $1, and returns their ids in order.
create function baton_internal.publish_many_statement(outbox baton.outboxes)
returns text
language sql stable
as $body$
    select baton_internal.fill($sql$insert into {relation} (event_id, tenant_id, aggregate_type, aggregate_id, event_type, schema_version, topic, partition_key,
            payload, headers, trace_id, correlation_id, causation_id, idempotency_key, occurred_at, available_at)
        select coalesce((e operator(pg_catalog.->>) 'event_id')::pg_catalog.uuid, baton.uuid_v7()),
               coalesce(e operator(pg_catalog.->>) 'tenant_id', baton_internal.session_tenant()),
               e operator(pg_catalog.->>) 'aggregate_type', e operator(pg_catalog.->>) 'aggregate_id',
               coalesce(case when baton_internal.publishing_is_on() then e operator(pg_catalog.->>) 'event_type' end,
                        baton_internal.publishable(e operator(pg_catalog.->>) 'event_type')),
               coalesce((e operator(pg_catalog.->>) 'schema_version')::pg_catalog.int4, 1),
               e operator(pg_catalog.->>) 'topic', e operator(pg_catalog.->>) 'partition_key', {payload}, e operator(pg_catalog.->) 'headers',
               e operator(pg_catalog.->>) 'trace_id', e operator(pg_catalog.->>) 'correlation_id', e operator(pg_catalog.->>) 'causation_id',
               e operator(pg_catalog.->>) 'idempotency_key',
               coalesce((e operator(pg_catalog.->>) 'occurred_at')::pg_catalog.timestamptz, pg_catalog.clock_timestamp()),
               (e operator(pg_catalog.->>) 'available_at')::pg_catalog.timestamptz
          from pg_catalog.jsonb_array_elements($1) as events (e)
         where {name}::pg_catalog.regclass operator(pg_catalog.=) {number}::pg_catalog.oid
        returning id$sql$, baton_internal.log_parts(outbox.relation) || jsonb_build_object('payload',
        case outbox.payload_type when 'jsonb' then $e$e operator(pg_catalog.->) 'payload'$e$
             when 'json' then $e$(e operator(pg_catalog.->) 'payload')::pg_catalog.json$e$
             when 'bytea' then $e$(e operator(pg_catalog.->>) 'payload')::pg_catalog.bytea$e$
             else $e$e operator(pg_catalog.->>) 'payload'$e$ end))
$body$;
comment on function baton_internal.publish_many_statement(baton.outboxes) is 'statement that publishes an array of events into an outbox';

-- Make a function that belongs to one outbox or inbox, or make it anew where its body has changed. Only the roles that are named may call it.
create function baton_internal.define_call(name text, arguments text, result text, body text, role_names text[], meaning text, as_owner boolean default false)
returns void
language plpgsql
as $$
declare
    made constant text := 'baton_internal.' || quote_ident(name);
    role_name text;
begin
    if exists (select from pg_catalog.pg_proc p where p.oid = to_regproc(made) and p.prosrc = body) then
        return;
    end if;
    execute format('create or replace function %s(%s) returns %s language plpgsql %s as %L', made, arguments, result,
                   case when as_owner then 'security definer' else '' end, body);
    execute format('comment on function %s is %L', made, meaning);
    perform baton_internal.close_to_others('routine', p.oid::regprocedure::text, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner)))
       from pg_catalog.pg_proc p where p.oid = made::regproc;
    foreach role_name in array role_names loop
        if to_regrole(role_name) is not null then
            execute format('grant execute on function %s to %I', made, role_name);
        end if;
    end loop;
end
$$;
comment on function baton_internal.define_call(text, text, text, text, text[], text, boolean) is 'makes a function that belongs to one outbox or inbox';

-- Make the functions of an outbox, or make them anew where its table has another name or number.
create function baton_internal.make_outbox_calls(outbox baton.outboxes)
returns void
language plpgsql
as $make$
declare
    parts constant jsonb := baton_internal.log_parts(outbox.relation) || jsonb_build_object('outbox', outbox.outbox_id::text, 'publish', baton_internal.publish_statement(outbox, '$2'), 'publish_many',
        baton_internal.publish_many_statement(outbox));
    producers constant text[] := '{baton_producer,baton_operator}';
begin
    perform baton_internal.define_call('publish_' || outbox.outbox_id, format(
        'event_type text, payload %s, aggregate_type text default null, aggregate_id text default null, topic text default null, '
        'partition_key text default null, headers jsonb default null, tenant_id text default null, trace_id text default null, '
        'correlation_id text default null, causation_id text default null, idempotency_key text default null, schema_version int default 1, '
        'occurred_at timestamptz default null, available_at timestamptz default null, event_id uuid default null', outbox.payload_type), 'bigint',
        baton_internal.fill($body$
declare
    published bigint;
begin
    if pg_catalog.to_regclass({name}) operator(pg_catalog.=) {number}::pg_catalog.oid and $1 is not null then
        {publish} into published;
        if published is null and $12 is not null then
            published := baton_internal.find_idempotent({number}::pg_catalog.oid, coalesce($8, baton_internal.session_tenant()), $12);
        end if;
        if published is not null then
            return published;
        end if;
    end if;
    return baton_internal.publish_generally(baton_internal.log_of({outbox}), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);
end
$body$, parts), producers, 'publishes an event into one outbox; returns its id');
    perform baton_internal.define_call('publish_many_' || outbox.outbox_id, 'events jsonb', 'setof bigint', baton_internal.fill($body$
begin
    if pg_catalog.to_regclass({name}) operator(pg_catalog.=) {number}::pg_catalog.oid then
        return query {publish_many};
        if found then
            return;
        end if;
    end if;
    return query select * from baton_internal.publish_events(baton_internal.log_of({outbox}), $1);
end
$body$, parts), producers, 'publishes an array of events into one outbox; returns the ids of those that were new');
end
$make$;
comment on function baton_internal.make_outbox_calls(baton.outboxes) is 'makes the functions through which events come into one outbox';

-- Drop the functions of an outbox.
create function baton_internal.drop_outbox_calls(outbox_id int)
returns void
language plpgsql
as $$
declare
    made regprocedure;
begin
    for made in
        select p.oid::regprocedure from pg_catalog.pg_proc p
         where p.pronamespace = 'baton_internal'::regnamespace and p.proname in ('publish_' || outbox_id, 'publish_many_' || outbox_id)
    loop
        execute format('drop function %s', made);
    end loop;
end
$$;
comment on function baton_internal.drop_outbox_calls(int) is 'drops the functions of one outbox';

-- The table of an outbox, by the outbox's number.
create function baton_internal.log_of(outbox_id int)
returns regclass
language plpgsql stable security definer  -- producers cannot read the catalog
set search_path = pg_catalog, pg_temp
as $$
declare
    relation constant regclass := (select c.oid from baton.outboxes o join pg_class c on c.oid = o.relation where o.outbox_id = log_of.outbox_id);
begin
    if relation is null then
        raise exception 'the table of outbox % is gone', outbox_id using errcode = 'undefined_table', hint = 'create the outbox again with baton.create_outbox()';
    end if;
    return relation;
end
$$;
comment on function baton_internal.log_of(int) is 'the table of an outbox';

select baton_internal.declare_privileges('execute', '{baton_producer,baton_operator}', '{publishable,check_outbox_enabled,log_of}');
select baton_internal.declare_privileges('select', '{baton_producer,baton_operator}', '{outbox_calls}');
