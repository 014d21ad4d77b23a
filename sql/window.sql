-- Windows: which events a group has not dispatched yet (docs/positions.md).

-- The current snapshot, in which the caller's own transaction counts as running: its events may still be rolled back.
create function baton_internal.current_sight()
returns pg_snapshot
language plpgsql volatile
as $$
declare
    sight constant pg_snapshot := pg_current_snapshot();
    own constant xid8 := pg_current_xact_id_if_assigned();
begin
    if own is null or own >= pg_snapshot_xmax(sight) then
        return sight;
    end if;
    return (select format('%s:%s:%s', least(pg_snapshot_xmin(sight)::text::numeric, own::text::numeric), pg_snapshot_xmax(sight),
                          string_agg(x::text, ',' order by x))::pg_snapshot
              from (select pg_snapshot_xip(sight) union select own) running (x));
end
$$;
comment on function baton_internal.current_sight() is 'the current snapshot, in which the own transaction counts as running';

-- The stretches of transaction ids from `seen` to `sight` in which none was running: each lies between two xids, both exclusive.
create function baton_internal.ended_xids(seen pg_snapshot, sight pg_snapshot, out after_xid xid8, out before_xid xid8)
returns setof record
language sql immutable
as $$
    select (coalesce(lag(r.x) over (order by r.x), pg_snapshot_xmax(seen)::text::numeric - 1))::text::xid8, r.x::text::xid8
      from (select x::text::numeric from pg_snapshot_xip(sight) x where x >= pg_snapshot_xmax(seen)
            union select pg_snapshot_xmax(sight)::text::numeric) r (x)
$$;
comment on function baton_internal.ended_xids(pg_snapshot, pg_snapshot) is 'stretches of ended transactions between two snapshots';

-- Whether there is an event from an id on: a fresh one, of a transaction that began after `seen` and has ended; a late one, of these
-- transactions. One statement for both, because the server plans it each time: the simplest one where no other transaction matters.
create function baton_internal.find_news(outbox baton.outboxes, seen pg_snapshot, sight pg_snapshot, late xid8[], low bigint,
                                         out fresh boolean, out has_late boolean)
returns record
language plpgsql volatile
as $$
declare
    everything constant bigint := 9223372036854775807;
    stretches record;
begin
    if late = '{}' and not exists (select from pg_snapshot_xip(sight) x where x >= pg_snapshot_xmax(seen)) then
        execute format('select true from %s where (xid, id) >= ($1, 0) and (xid, id) < ($2, 0) and id >= %s limit 1', outbox.relation, low)
           into fresh using pg_snapshot_xmax(seen), pg_snapshot_xmax(sight);
    else
        select array_agg(r.after_xid) as after, array_agg(r.before_xid) as before, array_agg(r.is_late) as is_late into stretches
          from (select e.after_xid, e.before_xid, false as is_late from baton_internal.ended_xids(seen, sight) e
                union all
                select (x::text::numeric - 1)::text::xid8, (x::text::numeric + 1)::text::xid8, true from unnest(late) x) r;
        execute format($sql$
            select bool_or(not r.is_late), bool_or(r.is_late) from unnest($1, $2, $3) r (after_xid, before_xid, is_late)
             cross join lateral (select from %1$s where (xid, id) > (r.after_xid, %3$s) and (xid, id) < (r.before_xid, 0)
                                    and id >= %2$s order by xid, id limit 1) one$sql$, outbox.relation, low, everything)
           into fresh, has_late using stretches.after, stretches.before, stretches.is_late;
    end if;
    fresh := coalesce(fresh, false);
    has_late := coalesce(has_late, false);
end
$$;
comment on function baton_internal.find_news(baton.outboxes, pg_snapshot, pg_snapshot, xid8[], bigint) is 'true when there are fresh events, true when there are late events';

-- The lower bound of fresh ids: of transactions that began after `seen`. Those from fresh_xid on are above fresh_id, and the few between are
-- looked up one by one; nothing at all that is not seen is below `low`.
create function baton_internal.first_fresh_id(outbox baton.outboxes, seen pg_snapshot, sight pg_snapshot, fresh_id bigint, fresh_xid xid8, low bigint)
returns bigint
language plpgsql volatile
as $$
declare
    everything constant bigint := 9223372036854775807;
    first_id bigint := greatest(low, fresh_id + 1);
begin
    if fresh_xid > pg_snapshot_xmax(seen) then
        execute format($sql$
            select least($1, min(one.id)) from generate_series($2, $3 - 1) n
             cross join lateral (select id from %1$s where (xid, id) >= (n::text::xid8, %2$s) and (xid, id) < (n::text::xid8, %3$s) and id >= %2$s
                                  order by xid, id limit 1) one
             where pg_visible_in_snapshot(n::text::xid8, $4)$sql$, outbox.relation, low, everything)
           into first_id using first_id, pg_snapshot_xmax(seen)::text::bigint, fresh_xid::text::bigint, sight;
    end if;
    return first_id;
end
$$;
comment on function baton_internal.first_fresh_id(baton.outboxes, pg_snapshot, pg_snapshot, bigint, xid8, bigint)
    is 'lower bound for ids of transactions that began after a snapshot, from a floor';

-- The lowest id of a transaction that began after `seen`, searched along the index: reads all that there is to be dispatched.
create function baton_internal.search_fresh_id(outbox baton.outboxes, seen pg_snapshot, sight pg_snapshot, low bigint, high bigint)
returns bigint
language plpgsql volatile
as $$
declare
    first_id bigint;
begin
    execute format($sql$
        select min(id) from (select id from %s where xid >= $1 and xid < $2 and id >= %s and id <= %s
                                and pg_visible_in_snapshot(xid, $3) offset 0) fresh$sql$, outbox.relation, low, high)
       into first_id using pg_snapshot_xmax(seen), pg_snapshot_xmax(sight), sight;
    return first_id;
end
$$;
comment on function baton_internal.search_fresh_id(baton.outboxes, pg_snapshot, pg_snapshot, bigint, bigint)
    is 'lowest id of transactions that began after a snapshot, found without a floor';

-- Open a window after a position: everything committed by now that `seen` does not show. Null when there is nothing. Floors are of this history:
-- in an era that is over they are not used.
create function baton_internal.open_window(outbox baton.outboxes, at baton_internal.group_positions)
returns baton_internal.windows
language plpgsql volatile
as $$
declare
    everything constant bigint := 9223372036854775807;
    w baton_internal.windows;
    first_of_era bigint;
    low bigint;                  -- nothing that is not seen is below it
    stray bigint;
    news record;
    first_late bigint;
    has_events boolean;
begin
    select max(e.last_id) filter (where e.era = at.era), coalesce(max(e.last_id) filter (where e.era < at.era), 0) + 1
      into w.last_id, first_of_era from baton_internal.outbox_eras e where e.outbox_id = outbox.outbox_id and e.era <= at.era;
    low := first_of_era;
    w.late_id := first_of_era - 1;
    if w.last_id is null then
        w.sight := baton_internal.current_sight();
    else  -- the era is over, everything in it is committed
        w.sight := '9223372036854775807:9223372036854775807:';
    end if;
    w.flushed_at := pg_current_wal_insert_lsn();
    if pg_snapshot_xmax(at.seen) > pg_snapshot_xmax(w.sight) then  -- remembered by a relay, or by a session, from before a restore
        raise exception 'the position is ahead of the transaction ids of this server'
            using errcode = 'object_not_in_prerequisite_state', hint = 'it is of another server or another time: connect again and take the group again';
    end if;
    if pg_snapshot_xmax(w.sight) = pg_snapshot_xmax(at.seen)
       and not exists (select pg_snapshot_xip(at.seen) except select pg_snapshot_xip(w.sight)) then
        return null;  -- no transaction has ended since
    end if;
    if w.last_id is null and pg_snapshot_xmax(at.seen) <> '3' then
        stray := baton_internal.first_stray(outbox.outbox_id, at.seen, w.sight, first_of_era);
        low := least(greatest(first_of_era, at.late_id + 1), stray);
        w.late_id := greatest(w.late_id, at.late_id, case when at.fresh_xid <= pg_snapshot_xmin(w.sight) then at.fresh_id end);
    end if;
    w.late := array(select x from pg_snapshot_xip(at.seen) x where pg_visible_in_snapshot(x, w.sight));
    if pg_snapshot_xmax(at.seen) = '3' then  -- nothing was dispatched yet: the window begins where the era does
        w.first_id := first_of_era;
        execute format('select exists (select from %s where id >= $1 and id <= $2 and pg_visible_in_snapshot(xid, $3))', outbox.relation)
           into has_events using first_of_era, coalesce(w.last_id, everything), w.sight;
        if not has_events then
            return null;
        end if;
    elsif w.last_id is null and baton_internal.is_near(at, at.seen) then
        news := baton_internal.find_news(outbox, at.seen, w.sight, w.late, low);
        if news.fresh then
            w.first_id := baton_internal.first_fresh_id(outbox, at.seen, w.sight, least(at.fresh_id, stray - 1), at.fresh_xid, low);
        end if;
        if not news.has_late then
            w.late := '{}';
        end if;
    else
        w.first_id := baton_internal.search_fresh_id(outbox, at.seen, w.sight, low, coalesce(w.last_id, everything));
    end if;
    if w.late <> '{}' then  -- lateral: one look into the index for each, never a join with the whole log
        execute format($sql$
            select coalesce(array_agg(x), '{}'), min(one.id) from unnest($1) x
             cross join lateral (select id from %1$s where (xid, id) >= (x, %2$s) and (xid, id) < (x, %3$s) and id >= %2$s
                                  order by xid, id limit 1) one$sql$,
            outbox.relation, low, coalesce(w.first_id, w.last_id + 1, everything))
           into w.late, first_late using w.late;
    end if;
    if w.first_id is null and w.late = '{}' then
        return null;
    end if;
    w.group_id := at.group_id;
    w.window_number := at.window_number + 1;
    w.era := at.era;
    w.seen := at.seen;
    w.start_id := least(w.first_id, first_late);
    return w;
end
$$;
comment on function baton_internal.open_window(baton.outboxes, baton_internal.group_positions) is 'the next window after a position, or null';

-- The statements that read a window in id order, for the server's own functions and for the relay, which prepares them.
--   late:  $1 late xids, $2 after_id, $3 first_id (exclusive upper bound), $4 limit. Whole pairs are compared, although xid = late_xid
--          would say the same, because then only the index of pairs will do: after one large load the planner would take every xid for
--          a frequent one, and walk the whole log by id. The id alone is compared for the partitions, of which it leaves out the old ones.
--   fresh: $1 seen, $2 sight, $3 after_id (exclusive lower bound), $4 upto_id, $5 limit
create function baton_internal.read_statement(relation regclass, part text, columns text, tenant_id text default null)
returns text
language sql stable
as $$
    select case part
        when 'late' then format(
            'select %2$s from unnest($1::xid8[]) as late_xid cross join lateral '
            '(select * from %1$s where (xid, id) > (late_xid, $2) and (xid, id) < (late_xid, $3) and id > $2 %3$s order by xid, id limit $4) as e '
            'order by e.id limit $4',
            relation, columns, case when tenant_id is not null then format('and tenant_id = %L', tenant_id) end)
        when 'fresh' then format(
            'select %2$s from %1$s as e where id > $3 and id <= $4 and pg_visible_in_snapshot(xid, $2) '
            'and not pg_visible_in_snapshot(xid, $1) %3$s order by id limit $5',
            relation, columns, case when tenant_id is not null then format('and tenant_id = %L', tenant_id) end)
    end
$$;
comment on function baton_internal.read_statement(regclass, text, text, text) is 'text of the statements that read a window';

-- An event as consumers get it.
create type baton.polled_event as (
    id             bigint,
    event_id       uuid,
    tenant_id      text,
    aggregate_type text,
    aggregate_id   text,
    event_type     text,
    schema_version int,
    topic          text,
    partition_key  text,
    payload        jsonb,        -- a text payload as a JSON string, a binary one as base64 in a JSON string
    headers        jsonb,
    trace_id       text,
    correlation_id text,
    causation_id   text,
    idempotency_key text,
    occurred_at    timestamptz,
    payload_bytes  bytea,        -- a binary payload as it is, otherwise null
    attempt        int,          -- 1 for the first delivery
    lease_token    uuid
);
comment on type baton.polled_event is 'an event as poll_outbox() returns it';

-- The select list that turns a row `e` of an outbox into the event's part of polled_event.
create function baton_internal.event_columns(payload_type text)
returns text
language sql immutable
as $$
    select format('e.id, e.event_id, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type, e.schema_version, e.topic, '
                  'e.partition_key, %s as payload, e.headers, e.trace_id, e.correlation_id, e.causation_id, e.idempotency_key, e.occurred_at, %s as payload_bytes',
        case payload_type when 'jsonb' then 'e.payload' when 'json' then 'e.payload::jsonb'
             when 'text' then 'to_jsonb(e.payload)' else $e$to_jsonb(encode(e.payload, 'base64'))$e$ end,
        case payload_type when 'bytea' then 'e.payload' else 'null::bytea' end)
$$;
comment on function baton_internal.event_columns(text) is 'select list of an event, by the type of its payload';

-- The lane of a row `e` as an expression.
create function baton_internal.lane_expression()
returns text
language sql immutable
as $$ select '(coalesce(hashtextextended(coalesce(e.partition_key, e.aggregate_id), 0), e.id) & 63)::int' $$;
comment on function baton_internal.lane_expression() is 'expression for the lane of a row of an outbox';

-- The statement that reads the next events of a window: late ones below first_id, then everything from there on.
create function baton_internal.window_query(outbox baton.outboxes, g baton.consumer_groups, w baton_internal.windows, after_id bigint, upto_id bigint,
                                   batch int, columns text)
returns text
language plpgsql stable
as $$
declare
    everything constant bigint := 9223372036854775807;
    read_upto constant bigint := least(upto_id, w.last_id, everything);
    of_tenant constant text := case when g.tenant_id is not null then format('and tenant_id = %L', g.tenant_id) else '' end;
    fresh constant text := format(
        'select %2$s from %1$s as e where id > %3$s and id <= %4$s and pg_visible_in_snapshot(xid, %5$L) '
        'and not pg_visible_in_snapshot(xid, %6$L) %7$s order by id limit %8$s',
        outbox.relation, columns, greatest(after_id, w.first_id - 1), read_upto, w.sight, w.seen, of_tenant, batch);
    late constant text := format(
        'select %2$s from unnest(%3$L::xid8[]) as late_xid cross join lateral (select * from %1$s '
        'where (xid, id) > (late_xid, %4$s::bigint) and (xid, id) < (late_xid, %5$s::bigint) and id > %4$s %6$s order by xid, id limit %7$s) as e '
        'order by e.id limit %7$s',
        outbox.relation, columns, w.late, after_id, least(w.first_id, 1 + nullif(read_upto, everything), everything), of_tenant, batch);
begin
    if w.late = '{}' or after_id >= w.first_id - 1 then
        return fresh;
    elsif w.first_id is null or read_upto < w.first_id then
        return late;
    end if;
    return format('(%s) union all (%s) order by id limit %s', late, fresh, batch);
end
$$;
comment on function baton_internal.window_query(baton.outboxes, baton.consumer_groups, baton_internal.windows, bigint, bigint, int, text)
    is 'text of the statement that reads a window';

-- The lanes of the next events of a window.
create function baton_internal.survey_window(outbox baton.outboxes, g baton.consumer_groups, w baton_internal.windows, after_id bigint, batch int)
returns bigint
language plpgsql volatile
as $$
declare
    lanes bigint;
begin
    execute format('select bit_or(1::bigint << lane) from (%s) s',
                   baton_internal.window_query(outbox, g, w, after_id, 9223372036854775807, batch, 'e.id, ' || baton_internal.lane_expression() || ' as lane'))
       into lanes;
    return lanes;
end
$$;
comment on function baton_internal.survey_window(baton.outboxes, baton.consumer_groups, baton_internal.windows, bigint, int) is 'lanes of the next events of a window';

-- Load a window that was opened before; one of an era that has ended since stops at the era's end.
create function baton_internal.load_window(outbox baton.outboxes, group_id int, window_number bigint)
returns baton_internal.windows
language plpgsql stable
as $$
declare
    w baton_internal.windows;
begin
    select * into w from baton_internal.windows x where x.group_id = load_window.group_id and x.window_number = load_window.window_number;
    if w.last_id is null then
        select e.last_id into w.last_id from baton_internal.outbox_eras e where e.outbox_id = outbox.outbox_id and e.era = w.era;
    end if;
    return w;
end
$$;
comment on function baton_internal.load_window(baton.outboxes, int, bigint) is 'a stored window';
