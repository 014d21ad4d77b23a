-- receive and receive_many: a message comes in once, however often it is delivered.

-- Refuse to take messages while inboxes are switched off.
create function baton_internal.check_inbox_enabled()
returns void
language plpgsql stable
as $$
begin
    if not baton.setting('inbox_enabled')::boolean then
        raise exception 'inboxes are disabled' using errcode = 'BT005', hint = 'turn the setting inbox_enabled on';
    end if;
end
$$;
comment on function baton_internal.check_inbox_enabled() is 'raises BT005 while inbox_enabled is off';

-- Return which of the messages just stored had been here before, after removing them again. A row that was being
-- deleted when its id was looked up is found here: the insert has waited for that deletion to commit. Under a
-- snapshot that does not move, the unique key of the remembered ids decides instead.
create function baton_internal.reject_inbox_repeats(box baton.inboxes, event_ids text[])
returns text[]
language plpgsql
as $$
declare
    repeats text[];
begin
    if current_setting('transaction_isolation') not like 'read%' then
        insert into baton_internal.inbox_keys (inbox, event_id) select box.id, e from unnest(event_ids) e order by e
        on conflict do nothing;  -- raises serialization_failure when the other id is newer than our snapshot
        return '{}';
    end if;
    select array_agg(k.event_id) into repeats from baton_internal.inbox_keys k where k.inbox = box.id and k.event_id = any (event_ids);
    if repeats is not null then
        execute format('delete from %s where %I = any ($1)', box.relation, box.id_column) using repeats;
    end if;
    return coalesce(repeats, '{}');
end
$$;
comment on function baton_internal.reject_inbox_repeats(baton.inboxes, text[]) is 'removes messages that the inbox has had before';

-- The headers of a message with what it says of itself under the names that relays use. Headers that are no object stay as they are.
create function baton_internal.headers_with_ids(headers jsonb, correlation_id text, causation_id text, idempotency_key text, schema_version text)
returns jsonb
language sql immutable
as $$
    select case when pg_catalog.num_nonnulls(correlation_id, causation_id, idempotency_key, schema_version) = 0 or jsonb_typeof(headers) not in ('object', 'null')
                then headers
                else coalesce(nullif(headers, 'null'), '{}') || jsonb_strip_nulls(pg_catalog.jsonb_build_object(
                         'correlation-id', correlation_id, 'causation-id', causation_id, 'idempotency-key', idempotency_key,
                         'schema-version', schema_version)) end
$$;
comment on function baton_internal.headers_with_ids(jsonb, text, text, text, text) is 'headers of a message with its ids';

-- The same for a batch whose statement runs with the rights of another than baton's owner.
create function baton_internal.with_ids_in_headers(messages jsonb)
returns jsonb
language plpgsql immutable
as $$
begin
    if not messages @? '$[*] ? (exists (@.correlation_id) || exists (@.causation_id) || exists (@.idempotency_key) || exists (@.schema_version))' then
        return messages;
    end if;
    return (select jsonb_agg(m.body || jsonb_build_object('headers', baton_internal.headers_with_ids(m.body -> 'headers', m.body ->> 'correlation_id',
                                 m.body ->> 'causation_id', m.body ->> 'idempotency_key', m.body ->> 'schema_version')) order by m.position)
              from jsonb_array_elements(messages) with ordinality m (body, position));
end
$$;
comment on function baton_internal.with_ids_in_headers(jsonb) is 'messages whose headers hold their ids';

-- What the headers of a message say of it.
create function baton_internal.ids_in_headers(headers jsonb, out correlation_id text, out causation_id text, out idempotency_key text, out schema_version int)
language sql immutable
as $$
    select coalesce(headers ->> 'correlation-id', headers ->> 'correlation_id'), coalesce(headers ->> 'causation-id', headers ->> 'causation_id'),
           coalesce(headers ->> 'event-idempotency-key', headers ->> 'idempotency-key', headers ->> 'idempotency_key'),
           case when v.version ~ '^[0-9]{1,9}$' then v.version::int end
      from coalesce(headers ->> 'schema-version', headers ->> 'schema_version') as v (version)
$$;
comment on function baton_internal.ids_in_headers(jsonb) is 'ids and schema version of a message, by its headers';

-- Write the statement that stores a batch in a managed inbox and reports each message as new or duplicate.
-- Rows go in by id, so that two receivers of the same messages wait for each other but never in a circle; their
-- times keep the order in which they were handed over. A message that comes with an error is a dead letter.
create function baton_internal.inbox_receive_managed_sql(box baton.inboxes)
returns text
language sql stable
as $$
    select format($query$
        with given as materialized (
            select m.*, %5$s as key, row_number() over (partition by %5$s order by m.position) = 1 as first
              from rows from (jsonb_to_recordset($2) as (event_id text, event_type text, source text, aggregate_id text, payload jsonb,
                       headers jsonb, trace_id text, tenant_id text, sequence_num bigint, priority smallint, available_at timestamptz,
                       payload_raw text, error text, correlation_id text, causation_id text, idempotency_key text, schema_version text))
                   with ordinality as m (event_id, event_type, source, aggregate_id, payload,
                       headers, trace_id, tenant_id, sequence_num, priority, available_at, payload_raw, error, correlation_id, causation_id,
                       idempotency_key, schema_version, position)
        ), places as materialized (  -- in the order of the batch, whatever the order in which rows go in
            select array_agg(d.place order by d.place) as drawn from (select nextval(%4$L) as place from given) d
        ), fresh as (
            insert into %1$s (event_id, event_type, source, aggregate_id, payload, headers, trace_id, tenant_id, sequence_num, priority,
                              received_at, available_at, payload_raw, error, retry_count, arrival)
            select g.event_id, coalesce(g.event_type, 'unknown'), g.source, g.aggregate_id, g.payload,
                   baton_internal.headers_with_ids(g.headers, g.correlation_id, g.causation_id, g.idempotency_key, g.schema_version), g.trace_id,
                   %7$s, g.sequence_num, g.priority,
                   $1 + g.position * interval '1 microsecond',
                   case when g.error is null then coalesce(g.available_at, $1 + g.position * interval '1 microsecond') else 'infinity' end,
                   decode(g.payload_raw, 'base64'), g.error, case when g.error is null then 0 else %2$s end,
                   (select p.drawn from places p)[g.position]
              from given g
             where g.first and not exists (select 1 from baton_internal.inbox_keys k where k.inbox = %3$s and k.event_id = g.key)
             order by g.key
            on conflict (%6$I) do nothing
            returning %6$I as key
        )
        select array_agg(g.key order by g.position), array_agg(g.event_id order by g.position),
               array_agg(case when f.key is not null and g.first then 'new' else 'duplicate' end order by g.position)
          from given g left join fresh f on f.key = g.key$query$, box.relation, box.max_retries, box.id, baton_internal.inbox_arrival_sequence(box),
        case when box.tenancy then baton_internal.tenant_key_sql(baton_internal.message_tenant_sql(box, 'm.'), 'm.event_id') else 'm.event_id' end,
        box.id_column, baton_internal.message_tenant_sql(box, 'g.'))
$$;
comment on function baton_internal.inbox_receive_managed_sql(baton.inboxes) is 'statement that stores a batch in a managed inbox';

-- Shorten an id that no index takes: its beginning, and a digest of all of it. Whoever sends may choose ids at will, and one that is too long must
-- not hold up what comes behind it.
create function baton_internal.short_id(id text)
returns text
language sql stable  -- textsend is no more
as $$ select case when octet_length(id) > 1000 then substr(id, 1, 200) || ':' || encode(sha256(textsend(id)), 'hex') else id end $$;
comment on function baton_internal.short_id(text) is 'the id by which a message of a managed inbox is kept';

-- Shorten the ids of messages that need it.
create function baton_internal.with_short_ids(messages jsonb)
returns jsonb
language plpgsql stable
as $$
begin
    if not exists (select from jsonb_array_elements(messages) m where octet_length(m ->> 'event_id') > 1000) then
        return messages;
    end if;
    return (select jsonb_agg(m.body || jsonb_build_object('event_id', baton_internal.short_id(m.body ->> 'event_id')) order by m.position)
              from jsonb_array_elements(messages) with ordinality m (body, position));
end
$$;
comment on function baton_internal.with_short_ids(jsonb) is 'messages whose ids are short enough for an index';

-- Refuse a message one of whose texts is too long, or whose time nobody can compute with. Ids are indexed, which takes less than 2704 bytes.
create function baton_internal.check_inbox_values(message text, event_id text, aggregate_id text, event_type text, source text, trace_id text, tenant_id text,
                                                  available_at timestamptz)
returns void
language plpgsql stable
as $$
declare
    long record;
begin
    if greatest(octet_length(event_id), octet_length(aggregate_id), octet_length(event_type), octet_length(source), octet_length(trace_id),
                octet_length(tenant_id) * 4) > 2000 then
        select t.name, octet_length(t.value) as bytes, t.most into long
          from (values ('event_id', event_id, 2000), ('aggregate_id', aggregate_id, 2000), ('event_type', event_type, 2000), ('source', source, 2000),
                       ('trace_id', trace_id, 2000), ('tenant_id', tenant_id, 500)) as t (name, value, most)
         where octet_length(t.value) > t.most limit 1;
        raise exception 'the % of % is too long: it has % bytes, % are allowed', long.name, message, long.bytes, long.most
            using errcode = 'string_data_right_truncation', hint = 'use a shorter one, such as a digest, and keep what is long in the payload';
    elsif available_at < '0001-01-01 00:00+00' or available_at >= '9999-12-31 00:00+00' then
        raise exception 'the available_at of % lies in the years 1 to 9999, not at %', message, available_at
            using errcode = 'invalid_parameter_value', hint = 'leave it out for a message that may be worked at once';
    end if;
end
$$;
comment on function baton_internal.check_inbox_values(text, text, text, text, text, text, text, timestamptz) is 'refuses a message that could not be kept';

-- Refuse a batch with such a message.
create function baton_internal.check_inbox_values(messages jsonb)
returns void
language plpgsql stable
as $$
begin
    perform baton_internal.check_inbox_values('message ' || m.position || ' of the batch', m.body ->> 'event_id', m.body ->> 'aggregate_id', m.body ->> 'event_type',
                                              m.body ->> 'source', m.body ->> 'trace_id', m.body ->> 'tenant_id', (m.body ->> 'available_at')::timestamptz)
       from jsonb_array_elements(messages) with ordinality as m (body, position)
      where octet_length(m.body ->> 'event_id') > 500 or octet_length(m.body ->> 'aggregate_id') > 500 or octet_length(m.body ->> 'event_type') > 500
         or octet_length(m.body ->> 'source') > 500 or octet_length(m.body ->> 'trace_id') > 500 or octet_length(m.body ->> 'tenant_id') > 500
         or m.body ->> 'available_at' is not null
      order by m.position;
end
$$;
comment on function baton_internal.check_inbox_values(jsonb) is 'refuses a batch with a message that could not be kept';

-- Refuse a batch that holds something other than messages with ids.
create function baton_internal.check_inbox_messages(messages jsonb)
returns void
language plpgsql immutable
as $$
declare
    bad bigint;
begin
    if messages is null or jsonb_typeof(messages) <> 'array' then
        raise exception 'messages must be an array of objects' using errcode = 'invalid_parameter_value';
    end if;
    select m.position into bad from jsonb_array_elements(messages) with ordinality as m (body, position)
     where jsonb_typeof(m.body) <> 'object' or coalesce(m.body ->> 'event_id', '') = '' limit 1;
    if found then
        raise exception 'message % of the batch has no event_id', bad
            using errcode = 'invalid_parameter_value', hint = 'every message needs the id by which a redelivery is recognised';
    end if;
end
$$;
comment on function baton_internal.check_inbox_messages(jsonb) is 'raises invalid_parameter_value unless every message has an event_id';

-- Store a batch of messages in one round trip and report for each whether it is new or a duplicate.
create function baton.receive_many(inbox text, messages jsonb, path name[] default current_schemas(false))
returns table ("position" int, event_id text, outcome text)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    box baton.inboxes := baton_internal.need_tenant_inbox(inbox, path);
    keys text[];
    ids text[];
    outcomes text[];
    repeats text[] := '{}';
    fresh text[];
    duplicates int;
begin
    perform baton_internal.check_inbox_enabled();
    perform baton_internal.check_inbox_messages(messages);
    perform baton_internal.check_inbox_message_tenants(box, messages);
    if box.layout = 'managed' then
        messages := baton_internal.with_short_ids(messages);
    end if;
    perform baton_internal.check_inbox_values(messages);
    if box.layout = 'managed' then
        perform set_config('baton.receiving', box.id::text, true);
        execute baton_internal.inbox_receive_managed_sql(box) into keys, ids, outcomes using clock_timestamp(), messages;
        perform set_config('baton.receiving', '', true);
        fresh := array(select o.key from unnest(keys, outcomes) with ordinality o (key, outcome, position) where o.outcome = 'new' order by o.position);
        repeats := baton_internal.reject_inbox_repeats(box, fresh);
        if box.order_mode = 'arrival' and cardinality(fresh) between 1 and cardinality(ids) - 1 then
            perform baton_internal.renumber_inbox_arrivals(box, fresh);
        end if;
    else
        perform baton_internal.check_inbox_grants(box, '{insert}');
        select r.event_ids, r.event_ids, r.outcomes into keys, ids, outcomes
          from baton_internal.receive_adopted(box, baton_internal.with_ids_in_headers(messages)) r;
        perform baton_internal.check_inbox_ledger_owner(box, array(select o.id from unnest(ids, outcomes) o (id, outcome) where o.outcome = 'duplicate'));
    end if;
    return query select o.position::int, o.id, case when o.key = any (repeats) then 'duplicate' else o.outcome end
                   from unnest(keys, ids, outcomes) with ordinality o (key, id, outcome, position);
    select count(*) into duplicates from unnest(keys, outcomes) o (key, outcome) where o.outcome = 'duplicate' or o.key = any (repeats);
    if duplicates > 0 then
        insert into baton_internal.inbox_duplicates (inbox, duplicates) values (box.id, duplicates);
    end if;
end
$$;
comment on function baton.receive_many(text, jsonb, name[]) is
    'stores a JSON array of messages; reports position, event_id and new or duplicate';

-- Store one message, with statements that are made for it.
create function baton_internal.receive_generally(box baton.inboxes, event_id text, event_type text, payload jsonb, source text, aggregate_id text, headers jsonb,
                                                 trace_id text, sequence_num bigint, priority int, available_at timestamptz)
returns text
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    moment timestamptz := clock_timestamp();
    stored bigint;
begin
    if box.layout <> 'managed' or box.tenancy then
        return (select r.outcome from baton.receive_many(format('%I.%I', box.schema_name, box.name), jsonb_build_array(jsonb_build_object(
            'event_id', event_id, 'event_type', event_type, 'payload', payload, 'source', source, 'aggregate_id', aggregate_id,
            'headers', headers, 'trace_id', trace_id, 'sequence_num', sequence_num, 'priority', priority,
            'available_at', available_at))) r);
    end if;
    perform baton_internal.check_inbox_enabled();
    if coalesce(event_id, '') = '' then
        raise exception 'a message needs an event_id'
            using errcode = 'invalid_parameter_value', hint = 'it is the id by which a redelivery is recognised';
    end if;
    event_id := baton_internal.short_id(event_id);
    perform baton_internal.check_inbox_values('the message', event_id, aggregate_id, event_type, source, trace_id, null, available_at);
    perform set_config('baton.receiving', box.id::text, true);
    execute format('insert into %s (event_id, event_type, payload, source, aggregate_id, headers, trace_id, sequence_num, priority,'
                   ' received_at, available_at) select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11'
                   ' where not exists (select 1 from baton_internal.inbox_keys k where k.inbox = %s and k.event_id = $1)'
                   ' on conflict (event_id) do nothing', box.relation, box.id)
      using event_id, coalesce(event_type, 'unknown'), payload, source, aggregate_id, headers, trace_id, sequence_num, priority::smallint,
            moment, coalesce(available_at, moment);
    get diagnostics stored = row_count;
    perform set_config('baton.receiving', '', true);
    if stored = 0 or baton_internal.reject_inbox_repeats(box, array[event_id]) <> '{}' then
        insert into baton_internal.inbox_duplicates (inbox, duplicates) values (box.id, 1);
        return 'duplicate';
    end if;
    return 'new';
end
$$;
comment on function baton_internal.receive_generally(baton.inboxes, text, text, jsonb, text, text, jsonb, text, bigint, int, timestamptz) is
    'stores one message in any inbox; called where there is no quicker way';

-- The same for an inbox that is known by its number, or by its name.
create function baton_internal.receive_generally(inbox int, event_id text, event_type text, payload jsonb, source text, aggregate_id text, headers jsonb,
                                                 trace_id text, sequence_num bigint, priority int, available_at timestamptz)
returns text
language sql
security definer set search_path = pg_catalog, pg_temp
as $$
    select baton_internal.receive_generally(baton_internal.need_inbox(format('%I.%I', i.schema_name, i.name), '{}'), event_id, event_type, payload, source, aggregate_id,
                                            headers, trace_id, sequence_num, priority, available_at)
      from baton.inboxes i where i.id = receive_generally.inbox
$$;
comment on function baton_internal.receive_generally(int, text, text, jsonb, text, text, jsonb, text, bigint, int, timestamptz) is 'stores one message in the inbox with a number';

create function baton_internal.receive_generally(inbox text, event_id text, event_type text, payload jsonb, source text, aggregate_id text, headers jsonb,
                                                 trace_id text, sequence_num bigint, priority int, available_at timestamptz, path name[])
returns text
language sql
security definer set search_path = pg_catalog, pg_temp
as $$
    select baton_internal.receive_generally(baton_internal.need_inbox(inbox, path), event_id, event_type, payload, source, aggregate_id,
                                            headers, trace_id, sequence_num, priority, available_at)
$$;
comment on function baton_internal.receive_generally(text, text, text, jsonb, text, text, jsonb, text, bigint, int, timestamptz, name[]) is
    'stores one message in the inbox with a name';

-- Store one message; returns 'new', or 'duplicate' when the inbox has had it. The aggregate's id becomes text with the caller's rights: a type
-- may bring a cast of its own.
create function baton.receive(inbox text, event_id text, event_type text, payload jsonb, source text default null,
                              aggregate_id anycompatiblenonarray default null::text,  -- drivers send numbers and uuids as such
                              headers jsonb default null, trace_id text default null,
                              sequence_num bigint default null, priority int default null, available_at timestamptz default null,
                              path name[] default current_schemas(false), correlation_id text default null, causation_id text default null,
                              idempotency_key text default null, schema_version int default null)
returns text
language sql
as $$
    select baton_internal.receive_message(inbox, event_id, event_type, payload, source, aggregate_id::text,
        case when correlation_id is null and causation_id is null and idempotency_key is null and schema_version is null then headers
             else baton_internal.headers_with_ids(headers, correlation_id, causation_id, idempotency_key, schema_version::text) end,
        trace_id, sequence_num, priority, available_at, path)
$$;
comment on function baton.receive(text, text, text, jsonb, text, anycompatiblenonarray, jsonb, text, bigint, int, timestamptz, name[], text, text, text, int) is
    'stores one message; returns new or duplicate';

-- Keep a message that cannot be read as a dead letter with its bytes; returns 'new' or 'duplicate'.
create function baton.receive_malformed(inbox text, event_id text, payload_raw bytea, error text, source text default null,
                                        headers jsonb default null, event_type text default 'malformed',
                                        path name[] default current_schemas(false))
returns text
language sql
as $$
    select r.outcome from baton.receive_many(inbox, pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object(
        'event_id', event_id, 'event_type', event_type, 'payload_raw', encode(payload_raw, 'base64'),
        'error', coalesce(error, 'malformed message'), 'source', source, 'headers', headers)), path) r
$$;
comment on function baton.receive_malformed(text, text, bytea, text, text, jsonb, text, name[]) is
    'keeps an unreadable message as a dead letter with its bytes';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}', '{receive,receive_message,receive_generally,receive_many,receive_malformed,headers_with_ids}');
