-- One event's way: where it stands in its outbox, at every group, and in the inboxes of this database.

-- What every group has done with an event: waiting, leased, retry, blocked, dead or settled. A group that began behind the event has
-- settled it too, as far as anybody can tell.
create function baton.event_deliveries(outbox regclass, event_offset bigint)
returns table (group_name text, state text, attempts int, consumer text, leased_until timestamptz, due_at timestamptz, error text, dead_letter bigint,
               leased_at timestamptz, parked_at timestamptz, failures jsonb)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    box constant baton.outboxes := baton_internal.find_outbox(event_deliveries.outbox);
    event record;
    event_era int;
    g baton.consumer_groups;
    at baton_internal.group_positions;
    w baton_internal.windows;
    letter baton_internal.parked;
    piece baton_internal.pieces;
begin
    execute format('select e.xid, e.tenant_id from %s e where e.id = $1', box.relation) into event using event_offset;
    if event.xid is null then
        return;
    end if;
    select min(e.era) into event_era from baton_internal.outbox_eras e where e.outbox_id = box.outbox_id and (e.last_id is null or e.last_id >= event_offset);
    for g in select c.* from baton.consumer_groups c where c.outbox_id = box.outbox_id and baton_internal.may_know_group(c, box.tenancy)
                and (c.tenant_id is null or c.tenant_id = event.tenant_id) order by c.group_name loop
        select * into at from baton_internal.group_positions p where p.group_id = g.group_id;
        select * into w from baton_internal.windows x where at.window_open and x.group_id = g.group_id and x.window_number = at.window_number;
        select * into letter from baton_internal.parked p where p.group_id = g.group_id and p.id = event_offset;
        select p.* into piece from baton_internal.pieces p
         where p.group_id = g.group_id and event_offset > p.after_id and event_offset <= p.upto_id and letter.parked_id is null
           and exists (select from baton_internal.piece_events(box, g, p) e where e.id = event_offset) limit 1;
        group_name := g.group_name;
        state := case when letter.parked_id is not null and letter.leased_until > clock_timestamp() then 'leased'
                      when letter.parked_id is not null then letter.state
                      when piece.piece_id is not null then case when piece.leased_until > clock_timestamp() then 'leased' else 'waiting' end
                      when event_era < at.era then 'settled'
                      when event_era > at.era then 'waiting'
                      when w.window_number is not null and not pg_visible_in_snapshot(event.xid, w.seen) and pg_visible_in_snapshot(event.xid, w.sight)
                      then case when event_offset > at.after_id then 'waiting' else 'settled' end
                      when pg_visible_in_snapshot(event.xid, at.seen) then 'settled'
                      else 'waiting' end;
        attempts := coalesce(letter.attempt, piece.attempt, 0);
        consumer := coalesce(letter.consumer_id, piece.consumer_id, case when state = 'waiting' and at.owned_until > clock_timestamp() then at.owner end);
        leased_until := coalesce(letter.leased_until, piece.leased_until);
        leased_at := case when state = 'leased' then coalesce(letter.leased_at, piece.leased_at) end;
        parked_at := letter.parked_at;
        failures := letter.failures;
        due_at := case when letter.state = 'retry' then letter.due_at end;
        error := letter.error;
        dead_letter := case when letter.state = 'dead' then letter.parked_id end;
        return next;
    end loop;
end
$$;
comment on function baton.event_deliveries(regclass, bigint) is 'what every group has done with an event';

-- The id of the first event that is not older than a moment, as far as ids follow time; null when all are older.
create function baton_internal.id_near(relation regclass, moment timestamptz)
returns bigint
language plpgsql stable
as $$
declare
    low bigint;
    high bigint;
    probe record;
begin
    execute pg_catalog.format('select min(id), max(id) from %s', relation) into low, high;
    while low < high loop
        execute pg_catalog.format('select id, occurred_at from %s where id between $1 and $2 order by id limit 1', relation) into probe using low + (high - low) / 2, high;
        if probe.id is null or probe.occurred_at >= moment then
            high := low + (high - low) / 2;
        else
            low := probe.id + 1;
        end if;
    end loop;
    return low;
end
$$;
comment on function baton_internal.id_near(regclass, timestamptz) is 'first id of about a moment';

-- How far ids may be from the order of time: transactions overlap.
create function baton_internal.id_slack()
returns bigint
language sql immutable
as $$ select 10000::bigint $$;
comment on function baton_internal.id_slack() is 'how far ids may be from the order of time';

-- Find an event by its id, in one outbox or in all that the caller may read. The time within the id narrows the search; an id without
-- a time, or an event that was published long after its id was made, costs a look at every row.
create function baton.find_event(event_id uuid, in_outbox text default null)
returns table (outbox text, event_offset bigint)
language plpgsql stable
as $$
declare
    box regclass;
    made constant timestamptz := baton.uuid_v7_time(event_id);
    slack constant bigint := baton_internal.id_slack();
begin
    for box in select o.relation from baton.outboxes o join pg_catalog.pg_class c on c.oid = o.relation
                where (in_outbox is null or o.relation = baton_internal.known_table(in_outbox))
                  and has_table_privilege(o.relation, 'select')
                order by o.outbox_id loop
        outbox := box::text;
        event_offset := null;
        if made is not null then
            execute pg_catalog.format('select e.id from %s e where e.event_id = $1 and e.id between $2 and $3 limit 1', box) into event_offset
              using find_event.event_id, baton_internal.id_near(box, made - interval '1 minute') - slack, baton_internal.id_near(box, made + interval '10 minutes') + slack;
        end if;
        if event_offset is null then
            execute pg_catalog.format('select e.id from %s e where e.event_id = $1 limit 1', box) into event_offset using find_event.event_id;
        end if;
        if event_offset is not null then
            return next;
        end if;
    end loop;
end
$$;
comment on function baton.find_event(uuid, text) is 'where the event with an id is';

-- Write what is shown of an event; a payload is JSON, whatever its type.
create function baton_internal.shown_columns(outbox regclass)
returns text
language sql stable
as $$
    select 'e.id as "offset", e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, coalesce(e.partition_key, e.aggregate_id) as key, e.topic, e.tenant_id, e.trace_id,'
        || ' e.occurred_at, ' || case o.payload_type when 'jsonb' then 'e.payload::json' when 'json' then 'e.payload' when 'bytea' then 'to_json(encode(e.payload, ''base64''))'
                                                     else 'to_json(e.payload::text)' end || ' as payload, e.headers'
      from baton.outboxes o where o.relation = shown_columns.outbox
$$;
comment on function baton_internal.shown_columns(regclass) is 'select list of an event for people';

-- Search an outbox, the latest first. Events of a type or a key are found by looking at every event between the moments given.
create function baton.search_events(outbox regclass, type text default null, in_key text default null, since timestamptz default null, until timestamptz default null,
                                    before bigint default null, most int default 100)
returns table ("offset" bigint, event_id uuid, event_type text, aggregate_type text, aggregate_id text, key text, topic text, tenant_id text, trace_id text,
               occurred_at timestamptz, payload json, headers jsonb)
language plpgsql stable
as $$
begin
    return query execute baton_internal.fill($query$
        select {columns} from {relation} e
         where ($1 is null or e.event_type = $1) and ($2 is null or coalesce(e.partition_key, e.aggregate_id) = $2) and ($3 is null or e.occurred_at >= $3) and ($4 is null or e.occurred_at <= $4)
           and e.id < $5 and e.id >= $6 order by e.id desc limit $7$query$,
        pg_catalog.jsonb_build_object('columns', baton_internal.shown_columns((baton_internal.find_outbox(search_events.outbox)).relation), 'relation', search_events.outbox))
      using type, search_events.in_key, since, until, coalesce(before, 9223372036854775807),
            case when since is null then 0 else coalesce(baton_internal.id_near(search_events.outbox, since), 0) - baton_internal.id_slack() end, most;
end
$$;
comment on function baton.search_events(regclass, text, text, timestamptz, timestamptz, bigint, int) is 'events of an outbox by type, key and time';

-- Follow an outbox. Without a cursor: its last events. With the cursor of the answer before: what was committed since, in the order of transactions.
-- An event of a transaction that commits late comes late, and comes: the cursor is a snapshot, not an offset. An answer has at most so many
-- events; when there are more, the next answer goes on with them.
create function baton.tail_events(outbox regclass, after text default null, type text default null, in_key text default null, most int default 100)
returns json
language plpgsql stable
as $$
declare
    sight constant pg_snapshot := pg_current_snapshot();
    columns constant text := baton_internal.shown_columns((baton_internal.find_outbox(tail_events.outbox)).relation);
    place text[];  -- seen, sight, xid, id: between the two snapshots, behind this event
    found_events json;
    last_xid text;
    last_id text;
begin
    if after is not null and after !~ '^[0-9:,]+[|][0-9:,]+[|][0-9]+[|][0-9]+$' then
        raise exception '"%" is no cursor', after using errcode = 'invalid_parameter_value', hint = 'give `next` of the answer before';
    elsif after is null then
        execute baton_internal.fill($query$
            select coalesce(pg_catalog.json_agg(row_to_json(r) order by r."offset"), '[]') from (
                select {columns} from {relation} e where ($1 is null or e.event_type = $1) and ($2 is null or coalesce(e.partition_key, e.aggregate_id) = $2) order by e.id desc limit $3) r$query$,
            pg_catalog.jsonb_build_object('columns', columns, 'relation', tail_events.outbox)) into found_events using type, in_key, most;
        return pg_catalog.json_build_object('items', found_events, 'next', pg_catalog.format('%s|%s|0|0', sight, sight));
    end if;
    place := string_to_array(after, '|');
    for turn in 1 .. 2 loop
        execute baton_internal.fill($query$
            select pg_catalog.json_agg(row_to_json(r) order by r.place), (max(r.place))[1], (max(r.place))[2] from (
                select {columns}, array[e.xid::text::numeric, e.id] as place from {relation} e
                 where e.xid >= pg_snapshot_xmin($1) and not pg_visible_in_snapshot(e.xid, $1) and pg_visible_in_snapshot(e.xid, $2) and (e.xid, e.id) > ($3, $4)
                   and ($5 is null or e.event_type = $5) and ($6 is null or coalesce(e.partition_key, e.aggregate_id) = $6)
                 order by e.xid, e.id limit $7) r$query$, pg_catalog.jsonb_build_object('columns', columns, 'relation', tail_events.outbox))
           into found_events, last_xid, last_id
          using place[1]::pg_snapshot, place[2]::pg_snapshot, place[3]::xid8, place[4]::bigint, type, in_key, most;
        exit when found_events is not null or turn = 2;
        place := array[place[2], sight::text, '0', '0'];  -- all up to there was told
    end loop;
    return pg_catalog.json_build_object('items', coalesce(found_events, '[]'),
                             'next', pg_catalog.array_to_string(array[place[1], place[2], coalesce(last_xid, place[3]), coalesce(last_id, place[4])], '|'));
end
$$;
comment on function baton.tail_events(regclass, text, text, text, int) is 'what was committed to an outbox since the last look';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_viewer}',
    '{fill,find_outbox,way_into,event_deliveries,find_event,id_near,id_slack,shown_columns,search_events,tail_events}');
