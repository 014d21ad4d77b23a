-- Looking into an inbox and mending its dead messages, whatever table it stands on.

-- Messages of one state, the latest first; or one message by its id, whatever its state. `after` is the cursor of the last one seen.
create function baton.inbox_messages(inbox text, in_state text default 'pending', id text default null, type text default null, aggregate text default null,
                                     after text default null, most int default 100, path name[] default current_schemas(false),
                                     since timestamptz default null, until timestamptz default null, error_part text default null, tenant text default null)
returns table (event_id text, event_type text, source text, aggregate_id text, sequence_num bigint, state text, attempts int, error text, received_at timestamptz,
               processed_at timestamptz, leased_by text, leased_until timestamptz, trace_id text, payload jsonb, headers jsonb, tenant_id text, failures jsonb, cursor text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    box constant baton.inboxes := baton_internal.need_tenant_inbox(inbox, path);
    terms baton_internal.inbox_terms;
    moment_column constant text := case in_state when 'processed' then 'processed_at' else 'received_at' end;
    parts jsonb;
begin
    perform baton_internal.check_inbox_is_queue(box);
    perform baton_internal.check_inbox_grants(box, '{select}');
    if in_state is null or in_state not in ('pending', 'dead', 'processed') then
        raise exception 'state "%" is none of pending, dead, processed', in_state using errcode = 'invalid_parameter_value';
    elsif after is not null and after !~ '^-?[0-9]+:' then
        raise exception '"%" is no cursor', after using errcode = 'invalid_parameter_value', hint = 'give the column cursor of the last row seen';
    end if;
    terms := baton_internal.inbox_terms(box);
    parts := baton_internal.inbox_parts(box, terms);
    parts := parts || jsonb_build_object(
        'columns', baton_internal.inbox_claim_columns(box),
        'error', coalesce('t.' || quote_ident(box.error_column) || '::text', 'null::text'),
        'event_type', coalesce('t.' || quote_ident(box.event_type_column) || '::text', 'null::text'),
        'aggregate_id', coalesce('t.' || quote_ident(box.aggregate_id_column) || '::text', 'null::text'),
        -- what baton received has a moment, and an index by it
        'moment', case when box.layout = 'managed' then parts ->> moment_column else baton_internal.page_moment_sql(parts ->> moment_column) end,
        'leased_by', case when box.layout = 'managed' then 't.leased_by' else 'null::text' end,
        'leased_until', case when box.layout = 'managed' then 't.leased_until' else 'null::timestamptz' end,
        'tenant_id', case when box.layout = 'managed' then 't.tenant_id' else 'null::text' end,
        'failures', case when box.layout = 'managed' then 'coalesce(t.failures, ''[]'')' else '''[]''::jsonb' end,
        'wanted', case when inbox_messages.id is not null
                       then format('%s = any ($2::%s[])%s', parts ->> 'key', terms.id_type, baton_internal.inbox_group_condition(box, 't.'))
                       else format('(%s)', case in_state when 'processed' then terms.done when 'dead' then terms.dead else terms.pending end) end);
    return query
        select m.event_id, m.event_type, m.source, m.aggregate_id, m.sequence_num, m.state, m.attempts, m.error, m.received_at, m.processed_at,
               coalesce(w.leased_by, m.leased_by), coalesce(w.leased_until, m.leased_until), m.trace_id, m.payload, m.headers, m.tenant_id, m.failures, m.place
          from baton_internal.run_as_owner(box.relation, baton_internal.fill($query$
                   select {columns}, case when ({done}) then 'processed' when ({dead}) then 'dead' else 'pending' end, ({retries})::int, {error},
                          {processed_at}::timestamptz, {leased_by}, {leased_until}, {tenant_id}, {failures}, {id},
                          (extract(epoch from {moment}) * 1000000)::bigint || ':' || {id}, {moment}
                     from {relation} t
                    where {wanted}
                      and ($3 ->> 'event_type' is null or {event_type} = $3 ->> 'event_type')
                      and ($3 ->> 'aggregate' is null or {aggregate_id} = $3 ->> 'aggregate')
                      and ($3 ->> 'since' is null or {moment} >= ($3 ->> 'since')::timestamptz) and ($3 ->> 'until' is null or {moment} < ($3 ->> 'until')::timestamptz)
                      and ($3 ->> 'error' is null or strpos(lower({error}), lower($3 ->> 'error')) > 0) and ($3 ->> 'tenant' is null or {tenant_id} = $3 ->> 'tenant')
                      and ($3 ->> 'moment' is null or ({moment}, {id} collate "C") < (to_timestamp(0) + ($3 ->> 'moment')::bigint * interval '1 microsecond', $3 ->> 'id'))
                    order by {moment} desc, {id} collate "C" desc limit ($3 ->> 'most')::int$query$, parts),
                   clock_timestamp(), baton_internal.inbox_message_keys(box, array_remove(array[inbox_messages.id], null)),
                   jsonb_build_object('event_type', inbox_messages.type, 'aggregate', inbox_messages.aggregate, 'most', greatest(least(most, 10001), 0),
                                      'since', since, 'until', until, 'error', error_part, 'tenant', tenant,
                                      'moment', split_part(after, ':', 1), 'id', substr(after, strpos(after, ':') + 1)))
               as m (event_id text, event_type text, source text, aggregate_id text, payload jsonb, headers jsonb, trace_id text, received_at timestamptz,
                     sequence_num bigint, state text, attempts int, error text, processed_at timestamptz, leased_by text, leased_until timestamptz,
                     tenant_id text, failures jsonb, key text, place text, moment timestamptz)
          left join baton_internal.inbox_work w on w.inbox = box.id and w.event_id = m.key
         order by m.moment desc, m.key collate "C" desc;
end
$$;
comment on function baton.inbox_messages(text, text, text, text, text, text, int, name[], timestamptz, timestamptz, text, text) is 'messages of an inbox by state, or one by its id';

-- Lock the dead messages named, and return them whole; refuses ids that are none, unless those may be missing.
create function baton_internal.take_dead_messages(box baton.inboxes, event_ids text[], missing_ok boolean default false)
returns jsonb
language plpgsql
as $$
declare
    keys constant text[] := baton_internal.inbox_message_keys(box, event_ids);
    taken jsonb;
    stray text;
begin
    if event_ids is null or cardinality(event_ids) = 0 or array_position(event_ids, null) is not null then
        raise exception 'ids of dead messages are needed'
            using errcode = 'invalid_parameter_value', hint = format('see select * from baton.inbox_messages(%L, ''dead'')', format('%I.%I', box.schema_name, box.name));
    end if;
    select coalesce(jsonb_object_agg(r.id, r.message), '{}') into taken
      from baton_internal.run_as_owner(box.relation, baton_internal.fill(
               'select {id}, to_jsonb(t) from {relation} t where {key} = any ($2::{id_type}[]) and ({dead}) order by 1 for update',
               baton_internal.inbox_parts(box, baton_internal.inbox_terms(box))), clock_timestamp(), keys) as r (id text, message jsonb);
    select k into stray from unnest(keys) k where not taken ? k limit 1;
    if stray is not null and missing_ok is not true then
        raise exception 'there is no dead message "%" in inbox "%"', baton_internal.tenant_name(box, stray), format('%I.%I', box.schema_name, box.name)
            using errcode = 'undefined_object', hint = 'it may have been replayed already';
    end if;
    return taken;
end
$$;
comment on function baton_internal.take_dead_messages(baton.inboxes, text[], boolean) is 'locks dead messages of an inbox for an action';

-- Give up dead messages for good: they count as processed, and what comes behind them goes on. Their content stays in the audit trail.
create function baton.discard_inbox_messages(name text, event_ids text[], reason text, path name[] default current_schemas(false), missing_ok boolean default false)
returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    box constant baton.inboxes := baton_internal.need_tenant_inbox(discard_inbox_messages.name, path);
    letter record;
    given_up text[] := '{}';
begin
    perform baton_internal.check_inbox_is_queue(box);
    perform baton_internal.check_inbox_grants(box, '{select,update}');
    if coalesce(btrim(reason), '') = '' then
        raise exception 'a reason is needed to discard dead messages' using errcode = 'invalid_parameter_value';
    end if;
    for letter in select e.key as id, e.value as message from jsonb_each(baton_internal.take_dead_messages(box, event_ids, missing_ok)) e order by 1 loop
        given_up := given_up || baton_internal.tenant_name(box, letter.id);
        perform baton_internal.record_action('discard_inbox_message', format('%I.%I', box.schema_name, box.name),
            jsonb_build_object('event_id', baton_internal.tenant_name(box, letter.id), 'reason', reason, 'message', letter.message));
    end loop;
    return case when given_up = '{}' then 0 else baton_internal.settle_inbox(box, 'complete', given_up, null) end;
end
$$;
comment on function baton.discard_inbox_messages(text, text[], text, name[], boolean) is 'gives up dead messages of an inbox, with a reason';

-- Correct a dead message before it is replayed; what is null stays. The audit trail keeps the original.
create function baton.edit_inbox_message(name text, event_id text, payload jsonb default null, headers jsonb default null, path name[] default current_schemas(false))
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    box constant baton.inboxes := baton_internal.need_tenant_inbox(edit_inbox_message.name, path);
    letter record;
begin
    perform baton_internal.check_inbox_is_queue(box);
    perform baton_internal.check_inbox_grants(box, '{select,update}');
    if payload is null and headers is null then
        raise exception 'there is nothing to correct in message "%"', edit_inbox_message.event_id
            using errcode = 'null_value_not_allowed', hint = 'give a payload, headers, or both; to offer it as it is, call baton.replay_inbox_messages()';
    elsif headers is not null and jsonb_typeof(headers) <> 'object' then
        raise exception 'headers must be a JSON object' using errcode = 'invalid_parameter_value';
    elsif payload is not null and box.payload_column is null or headers is not null and box.headers_column is null then
        raise exception 'the table of inbox "%" has no column for %', format('%I.%I', box.schema_name, box.name),
            case when payload is not null and box.payload_column is null then 'payloads' else 'headers' end using errcode = 'undefined_column';
    end if;
    select e.key as id, e.value as message into strict letter from jsonb_each(baton_internal.take_dead_messages(box, array[edit_inbox_message.event_id])) e;
    perform baton_internal.change_as_owner(box.relation, format('update %s t set %s where t.%I = any ($2::%s[])', box.relation,
        concat_ws(', ', case when payload is not null then format('%I = ($3 -> ''payload'')::text::%s', box.payload_column, baton_internal.inbox_column_type(box, box.payload_column)) end,
                        case when headers is not null then format('%I = ($3 -> ''headers'')::text::%s', box.headers_column, baton_internal.inbox_column_type(box, box.headers_column)) end),
        box.id_column, (baton_internal.inbox_terms(box)).id_type), clock_timestamp(), array[letter.id],
        jsonb_build_object('payload', payload, 'headers', headers));
    perform baton_internal.record_action('edit_inbox_message', format('%I.%I', box.schema_name, box.name),
        jsonb_build_object('event_id', edit_inbox_message.event_id, 'message', letter.message));
end
$$;
comment on function baton.edit_inbox_message(text, text, jsonb, jsonb, name[]) is 'corrects a dead message of an inbox';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer}', '{inbox_messages}');
select baton_internal.declare_privileges('execute', '{baton_operator}', '{discard_inbox_messages,edit_inbox_message}');

-- List the aggregates of an ordered inbox in which messages wait although nobody is at work there: the reason, the message that they wait for, and
-- the name of its dead letter. `reason` asks for gap, dead, retry or scheduled, or for message: all but gaps. `after` is the cursor of the last one seen.
create function baton.blocked_aggregates(inbox text, reason text default null, after text default null, most int default 100, path name[] default current_schemas(false))
returns table (aggregate text, blocked_by text, event_id text, attempts int, error text, waiting_since timestamptz, letter text, cursor text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    box constant baton.inboxes := baton_internal.need_tenant_inbox(inbox, path);
    terms baton_internal.inbox_terms;
    stalled jsonb;
begin
    perform baton_internal.check_inbox_is_queue(box);
    perform baton_internal.check_inbox_grants(box, '{select}');
    terms := baton_internal.inbox_terms(box);
    select coalesce(jsonb_agg(to_jsonb(s)), '[]') into stalled
      from (select m.* from baton_internal.inbox_stalled_of(box) m
             where (blocked_aggregates.reason is null or m.reason = blocked_aggregates.reason or blocked_aggregates.reason = 'message' and m.reason <> 'gap')
               and (after is null or m.aggregate collate "C" > after collate "C")
             order by m.aggregate collate "C" limit greatest(least(most, 10001), 0)) s;
    return query
        select baton_internal.tenant_name(box, s.aggregate), s.reason, baton_internal.tenant_name(box, s.event_id), m.attempts, m.error, s.waiting_since,
               case when s.reason = 'dead' then format('inbox:%s:%s', box.id, baton_internal.tenant_name(box, s.event_id)) end, s.aggregate
          from jsonb_to_recordset(stalled) s (aggregate text, reason text, event_id text, waiting_since timestamptz)
          left join baton_internal.run_as_owner(box.relation, baton_internal.fill(
                   'select {id}, ({retries})::int, {error} from {relation} t where {key} = any ($2::{id_type}[])',
                   baton_internal.inbox_parts(box, terms) || jsonb_build_object('error', coalesce('t.' || quote_ident(box.error_column) || '::text', 'null::text'))),
                   ids => array(select e ->> 'event_id' from jsonb_array_elements(stalled) e where e ->> 'event_id' is not null)) as m (key text, attempts int, error text) on m.key = s.event_id
         order by s.aggregate collate "C";
end
$$;
comment on function baton.blocked_aggregates(text, text, text, int, name[]) is 'aggregates of an ordered inbox that wait for something: a gap, a dead letter, a retry, a time';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer}', '{blocked_aggregates}');
