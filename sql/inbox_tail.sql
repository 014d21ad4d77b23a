-- Following an inbox: every message that comes, and every change of one.

-- The whole number of the transaction that wrote a row, of which the row keeps the end only: the latest one up to `top`.
create function baton_internal.whole_xid_sql(top text)
returns text
language sql immutable
as $$ select format('(%1$s - ((%1$s - t.xmin::text::bigint) & 4294967295))', top) $$;
comment on function baton_internal.whole_xid_sql(text) is 'expression for the number of the transaction that wrote a row';

-- Follow an inbox. Without a cursor: its last messages. With the cursor of the answer before: what was written since. The cursor is the oldest
-- transaction that was under way then: a message of a transaction that commits late comes late, and comes. Others come again meanwhile as they
-- are: whoever follows passes over what it knows. (A snapshot would not do: rows know of subtransactions, snapshots do not.)
--   P|N|X|low|mark|moment|key   written by P and later; N is where the next turn begins; X and key: the last one told in this turn;
--                               low: what was processed before is not looked at; mark: a transaction that began behind the moment
create function baton.tail_messages(inbox text, after text default null, type text default null, aggregate text default null, most int default 100,
                                    path name[] default current_schemas(false))
returns json
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    box constant baton.inboxes := baton_internal.need_tenant_inbox(inbox, path);
    sight constant pg_snapshot := pg_current_snapshot();
    oldest constant bigint := pg_snapshot_xmin(sight)::text::bigint;
    top constant bigint := pg_snapshot_xmax(sight)::text::bigint;
    now_number constant bigint := baton_internal.moment_as_number(clock_timestamp());
    slack constant bigint := 600 * 1000000::bigint;  -- an application may write the time at which its transaction began
    terms baton_internal.inbox_terms;
    place text[];
    found_messages json;
    found_count int;
    last_xid bigint;
    last_key text;
begin
    perform baton_internal.check_inbox_is_queue(box);
    perform baton_internal.check_inbox_grants(box, '{select}');
    if after is not null and after !~ '^([0-9]{1,18}[|]){3}-?[0-9]{1,18}[|][0-9]{1,18}[|][0-9]{1,18}[|]' then
        raise exception '"%" is no cursor', after using errcode = 'invalid_parameter_value', hint = 'give `next` of the answer before';
    elsif after is null then
        select coalesce(json_agg(row_to_json(r) order by coalesce(r.processed_at, r.received_at)), '[]') into found_messages
          from (select m.event_id, m.event_type, m.source, m.aggregate_id, m.sequence_num, m.state, m.attempts, m.error, m.received_at, m.processed_at, m.leased_by,
                       m.leased_until, m.trace_id, m.payload, m.headers
                  from unnest('{pending,dead,processed}'::text[]) s
                 cross join lateral baton.inbox_messages(format('%I.%I', box.schema_name, box.name), s, type => type, aggregate => aggregate, most => most) m
                 order by coalesce(m.processed_at, m.received_at) desc nulls last limit most) r;
        return json_build_object('items', found_messages, 'next', concat_ws('|', oldest, oldest, 0, now_number - 144 * slack, top, now_number, ''));
    end if;
    place := regexp_match(after, '^([^|]*)[|]([^|]*)[|]([^|]*)[|]([^|]*)[|]([^|]*)[|]([^|]*)[|](.*)$', 's');
    if place[3] = '0' then  -- a turn begins
        place[2] := oldest;
    end if;
    terms := baton_internal.inbox_terms(box);
    select coalesce(json_agg(json_build_object('event_id', m.event_id, 'event_type', m.event_type, 'source', m.source, 'aggregate_id', m.aggregate_id, 'sequence_num', m.sequence_num,
               'state', m.state, 'attempts', m.attempts, 'error', m.error, 'received_at', m.received_at, 'processed_at', m.processed_at, 'leased_by', coalesce(w.leased_by, m.leased_by),
               'leased_until', coalesce(w.leased_until, m.leased_until), 'trace_id', m.trace_id, 'payload', m.payload, 'headers', m.headers) order by m.written_by, m.key collate "C"), '[]'),
           count(*), max(m.written_by), (array_agg(m.key order by m.written_by desc, m.key collate "C" desc))[1]
      into found_messages, found_count, last_xid, last_key
      from baton_internal.run_as_owner(box.relation, baton_internal.fill($query$
               select {columns}, case when ({done}) then 'processed' when ({dead}) then 'dead' else 'pending' end, ({retries})::int, {error},
                      {processed_at}::timestamptz, {leased_by}, {leased_until}, {id}, {xid}
                 from {relation} t
                where (({unfinished}) or ({done}) and {processed_at} >= to_timestamp(0) + ($3 ->> 'low')::bigint * interval '1 microsecond')
                  and {xid} >= ($3 ->> 'from')::bigint and ({xid}, {id} collate "C") > (($3 ->> 'last')::bigint, $3 ->> 'key')
                  and ($3 ->> 'event_type' is null or {event_type} = $3 ->> 'event_type')
                  and ($3 ->> 'aggregate' is null or {aggregate_id} = $3 ->> 'aggregate')
                order by {xid}, {id} collate "C" limit ($3 ->> 'most')::int$query$,
               baton_internal.inbox_parts(box, terms) || jsonb_build_object(
                   'columns', baton_internal.inbox_claim_columns(box),
                   'xid', baton_internal.whole_xid_sql('($3 ->> ''top'')::bigint'),
                   'error', coalesce('t.' || quote_ident(box.error_column) || '::text', 'null::text'),
                   'event_type', coalesce('t.' || quote_ident(box.event_type_column) || '::text', 'null::text'),
                   'aggregate_id', coalesce('t.' || quote_ident(box.aggregate_id_column) || '::text', 'null::text'),
                   'leased_by', case when box.layout = 'managed' then 't.leased_by' else 'null::text' end,
                   'leased_until', case when box.layout = 'managed' then 't.leased_until' else 'null::timestamptz' end)),
               clock_timestamp(), null, jsonb_build_object('from', place[1], 'last', place[3], 'key', place[7], 'low', place[4], 'top', top, 'event_type', type,
                                                           'aggregate', aggregate, 'most', greatest(least(most, 10001), 1)))
           as m (event_id text, event_type text, source text, aggregate_id text, payload jsonb, headers jsonb, trace_id text, received_at timestamptz,
                 sequence_num bigint, state text, attempts int, error text, processed_at timestamptz, leased_by text, leased_until timestamptz, key text, written_by bigint)
      left join baton_internal.inbox_work w on w.inbox = box.id and w.event_id = m.key;
    if found_count >= most then
        return json_build_object('items', found_messages, 'next', concat_ws('|', place[1], place[2], last_xid, place[4], place[5], place[6], last_key));
    end if;
    if place[2]::bigint >= place[5]::bigint then  -- whatever is under way began behind the mark
        place[4:6] := array[place[6]::bigint - slack, top, now_number]::text[];
    end if;
    return json_build_object('items', found_messages, 'next', concat_ws('|', place[2], place[2], 0, place[4], place[5], place[6], ''));
end
$$;
comment on function baton.tail_messages(text, text, text, text, int, name[]) is 'what came into an inbox or changed there since the last look';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer}', '{tail_messages}');
