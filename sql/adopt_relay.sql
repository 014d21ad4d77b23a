-- What a relay needs to work an adopted outbox, beside the statements that every worker runs.
--
-- relay_sql is the claim with more values in $3: keys that wait for an earlier event; except, the rows that may go although their
-- key waits; event_bytes and batch_bytes, how much one event may have and all together. held_sql ($2 ids or null) names the rows that make a key wait.
--
-- A layout with a partition key asks for order by key. SKIP LOCKED gives neighbouring rows to different workers, so
-- such a table has one relay at a time, by lease; tables without are shared.

create table baton_internal.adopted_owners (
    outbox_id   int         primary key references baton.adopted_outboxes on delete cascade,
    owner       text,
    epoch       bigint      not null default 0,
    owned_until timestamptz not null default now()
);
comment on table baton_internal.adopted_owners is 'the relay that works each adopted outbox alone, where order by key is wanted';

-- Write the key of a row: events with one key keep their order.
create function baton_internal.row_key_sql(layout jsonb)
returns text
language sql immutable
as $$ select format('coalesce(%s, %s)', baton_internal.role_text(layout, 'partition_key'), baton_internal.role_text(layout, 'aggregate_id')) $$;
comment on function baton_internal.row_key_sql(jsonb) is 'key of a row as SQL';

-- Write the condition that a row need not wait for an earlier one of its key.
create function baton_internal.unheld_sql(layout jsonb, row_id text)
returns text
language sql immutable
as $$
    select format($sql$(%1$s is null or %1$s <> all (array(select jsonb_array_elements_text($3 -> 'keys')))
                        or %2$s = any (array(select jsonb_array_elements_text($3 -> 'except'))))$sql$, baton_internal.row_key_sql(layout), row_id)
$$;
comment on function baton_internal.unheld_sql(jsonb, text) is 'condition of rows that no earlier row of their key holds back';

-- Write how many bytes a column has as text. Text, json and bytea know that without being unpacked. Of a document that is stored small and
-- as it is, what it takes there is near enough.
create function baton_internal.column_bytes_sql(column_sql text, type_name text)
returns text
language sql immutable
as $$
    select format(case type_name
                      when 'jsonb' then 'case when pg_column_size(%1$s) <= 8192 and pg_column_compression(%1$s) is null then pg_column_size(%1$s) '
                                        'else octet_length(%1$s::text) end'
                      when 'bytea' then 'octet_length(%1$s)'
                      else 'octet_length(%1$s::text)' end, column_sql)
$$;
comment on function baton_internal.column_bytes_sql(text, text) is 'expression for the bytes of a column';

-- Write claimed rows with baton_bytes, what payload and headers of each have, and baton_upto, what all up to there have that a relay loads.
create function baton_internal.measured_rows_sql(relation regclass, layout jsonb, claimed text)
returns text
language plpgsql stable
as $$
declare
    bytes text := (select string_agg('coalesce(' || baton_internal.column_bytes_sql(baton_internal.role_column(layout, r), baton_internal.role_type(relation, layout, r))
                                     || ', 0)', ' + ')
                     from unnest('{payload,headers}'::text[]) r where layout -> 'columns' ? r);
begin
    return baton_internal.fill($query$
        (select t.*, sum(case when t.baton_bytes <= ($3 ->> 'event_bytes')::bigint then t.baton_bytes else 0 end)
                     over (order by {giving_order} rows unbounded preceding) as baton_upto
           from (select t.*, ({bytes})::bigint as baton_bytes from {claimed} t) t) t$query$,
        jsonb_build_object('giving_order', baton_internal.order_sql(layout, true), 'bytes', bytes, 'claimed', claimed));
end
$$;
comment on function baton_internal.measured_rows_sql(regclass, jsonb, text) is 'claimed rows with their bytes';

-- Write an event as a relay reads it: payload in its own type, time in microseconds. Routing keys take the topic's
-- place, since they say where it goes. An event with more than event_bytes, and those for which batch_bytes leave no room, come
-- with their bytes in a last column instead of payload and headers. The first one that is not over event_bytes always comes whole.
create function baton_internal.relay_event_sql(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    fits constant text := $sql$(t.baton_bytes <= ($3 ->> 'event_bytes')::bigint
        and (t.baton_upto <= ($3 ->> 'batch_bytes')::bigint or t.baton_upto = t.baton_bytes))$sql$;
    -- a time that no relay can compute with is none
    occurred_at constant text := $sql$case when e.occurred_at >= '0001-01-01 00:00+00' and e.occurred_at < '9999-12-31 00:00+00' then e.occurred_at else now() end$sql$;
    headers text := case when baton_internal.is_jsonb(relation, layout, 'headers') then 'e.headers::text'
                         else format($sql$coalesce(%s::text, '{}')$sql$, baton_internal.role_column(layout, 'headers')) end;
begin
    return baton_internal.fill($sql$
        e.id, e.event_id, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type, e.schema_version,
        coalesce(nullif(array_to_string(e.routing_keys, ','), ''), e.topic), e.partition_key, case when {fits} then {payload}::text end,
        case when {fits} then {headers} end, e.trace_id, e.correlation_id, e.causation_id, e.idempotency_key,
        (extract(epoch from {occurred_at}) * 1000000)::bigint, e.attempt, case when not {fits} then t.baton_bytes end$sql$,
        jsonb_build_object('fits', fits, 'payload', baton_internal.role_column(layout, 'payload'), 'headers', headers, 'occurred_at', occurred_at));
end
$$;
comment on function baton_internal.relay_event_sql(regclass, jsonb) is 'select list of a relay''s claim';

-- Write the rows that make a key wait: those that failed before, and those that another worker has locked. With
-- ids, those of them that still do.
create function baton_internal.held_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    locked text := baton_internal.role_column(layout, 'locked_at') || ' is not null';
    by_another text := baton_internal.role_column(layout, 'locked_by') || $sql$ is distinct from $3 ->> 'worker'$sql$;
begin
    return baton_internal.fill($query$
        select {row_id} as id, {row_key} as key from {relation} t where {open} and not {dead} and {row_key} is not null
           and case when $2 is null then {attempts} > 0 or ({locked_by_another}) else {chosen} end$query$,
        baton_internal.adopted_parts(relation, layout) || jsonb_build_object(
            'row_key', baton_internal.row_key_sql(layout),
            'locked_by_another', coalesce(locked || ' and ' || coalesce(by_another, 'true'), 'false')));
end
$$;
comment on function baton_internal.held_statement(regclass, jsonb) is 'statement that names the rows that make their key wait';

-- Write the renewal of locks that a worker holds.
create function baton_internal.renew_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not layout -> 'columns' ? 'locked_at' then
        return null;
    end if;
    return baton_internal.fill('update {relation} t set {locked_at} = clock_timestamp()'
                               ' where {chosen} and t.{locked_at} is not null and {open} and {fence} returning {row_id}',
        baton_internal.adopted_parts(relation, layout) || jsonb_build_object('locked_at', quote_ident(baton_internal.mapped_column(layout, 'locked_at'))));
end
$$;
comment on function baton_internal.renew_statement(regclass, jsonb) is 'statement that renews locks';

-- Write the release of locks: the rows wait again, and no attempt is counted. Without ids, all that the worker holds.
create function baton_internal.release_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    columns jsonb := layout -> 'columns';
    unlock text := concat_ws(', ', baton_internal.sql_part('%I = null', columns ->> 'locked_at'),
                             baton_internal.sql_part('%I = null', columns ->> 'locked_by'),
                             baton_internal.sql_part('%I = now()', columns ->> 'updated_at'),
                             case when layout #> '{states,claimed}' is not null
                                  then baton_internal.sql_part('%I = %s', columns ->> 'status', baton_internal.state_literal(layout, 'pending')) end);
    which text := case when columns ? 'locked_by' then '($2 is null or {chosen})' else '{chosen}' end;
begin
    if not columns ? 'locked_at' then
        return null;
    end if;
    return baton_internal.fill('update {relation} t set {unlock} where ' || which || ' and {locked_at} is not null and {open} and {fence} returning {row_id}',
        baton_internal.adopted_parts(relation, layout) || jsonb_build_object(
            'unlock', unlock, 'locked_at', baton_internal.role_column(layout, 'locked_at')));
end
$$;
comment on function baton_internal.release_statement(regclass, jsonb) is 'statement that gives locked rows back';

-- Return the name under which a relay locks rows: its own, or a hash of it where the column is too short.
create function baton_internal.adopted_worker(outbox baton.adopted_outboxes, relay text)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case when a.atttypmod > 4 and length(relay) > a.atttypmod - 4 then left(md5(relay), a.atttypmod - 4) else relay end
      from (select) one
      left join pg_attribute a on a.attrelid = to_regclass(format('%I.%I', outbox.schema_name, outbox.table_name))
                              and a.attname = baton_internal.mapped_column(outbox.layout, 'locked_by')
$$;
comment on function baton_internal.adopted_worker(baton.adopted_outboxes, text) is 'name of a relay as it fits into the table';

-- Give an adopted outbox to one relay alone, with a new epoch; or say who has it. A relay of which the caller knows that it is gone has nothing.
create function baton_internal.take_adopted(outbox_id int, relay text, lease interval, gone text default null,
                                   out epoch bigint, out held_by text, out held_until timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    at baton_internal.adopted_owners;
begin
    if coalesce(relay, '') = '' or lease is null or lease <= interval '0' then
        raise exception 'an owner needs a name and a lease above zero' using errcode = 'invalid_parameter_value';
    end if;
    perform baton_internal.check_duration('lease', lease);
    insert into baton_internal.adopted_owners (outbox_id) values (take_adopted.outbox_id) on conflict do nothing;
    select * into at from baton_internal.adopted_owners o where o.outbox_id = take_adopted.outbox_id for update;
    if at.owner <> relay and at.owner is distinct from gone and at.owned_until > clock_timestamp() then
        held_by := at.owner;
        held_until := at.owned_until;
        return;
    end if;
    update baton_internal.adopted_owners o set owner = relay, epoch = at.epoch + 1, owned_until = clock_timestamp() + lease
     where o.outbox_id = take_adopted.outbox_id;
    epoch := at.epoch + 1;
end
$$;
comment on function baton_internal.take_adopted(int, text, interval, text) is 'gives an adopted outbox to a relay alone';

-- Keep an adopted outbox longer; without a lease, only look whether it is still ours, and keep it so until the
-- transaction ends.
create function baton_internal.keep_adopted(outbox_id int, epoch bigint, lease interval default null)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    at baton_internal.adopted_owners;
begin
    select * into at from baton_internal.adopted_owners o where o.outbox_id = keep_adopted.outbox_id for no key update;
    if not found or at.owner is null or at.epoch <> keep_adopted.epoch then
        raise exception 'the relay has lost the adopted outbox' using errcode = 'BT001',
            detail = format('epoch %s is over, the outbox is %s', keep_adopted.epoch,
                            coalesce(format('worked by "%s" in epoch %s', at.owner, at.epoch), 'free'));
    end if;
    if lease is not null then
        update baton_internal.adopted_owners o set owned_until = clock_timestamp() + lease where o.outbox_id = keep_adopted.outbox_id;
    end if;
end
$$;
comment on function baton_internal.keep_adopted(int, bigint, interval) is 'renews a relay''s hold of an adopted outbox, or raises BT001';

-- Give an adopted outbox back.
create function baton_internal.leave_adopted(outbox_id int, epoch bigint)
returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    update baton_internal.adopted_owners o set owner = null, owned_until = now() where o.outbox_id = $1 and o.epoch = $2
$$;
comment on function baton_internal.leave_adopted(int, bigint) is 'ends a relay''s hold of an adopted outbox';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}', '{adopted_worker,take_adopted,keep_adopted,leave_adopted}');
select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer}', '{adopted_owners}');
