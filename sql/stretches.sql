-- Stretches: what becomes of the next events of a window, and which of them a poll leases.

-- What is to be done with a stretch of a window: its next events, each in one of four ways.
create type baton_internal.stretch_plan as (
    reads       int,            -- events in the stretch
    last_read   bigint,
    gave        int,            -- events that can be given, in lanes that are open
    first_given bigint,
    last_given  bigint,
    given_lanes bigint,
    wait_from   bigint,         -- events in lanes that are not open
    wait_upto   bigint,
    wait_lanes  bigint,
    holes       bigint[],       -- events that are parked or will be
    aside_ids   bigint[],       -- events that are to be parked,
    aside_keys  text[],         -- with their keys
    aside_due   timestamptz[]   -- and times; none where the key is blocked
);
comment on type baton_internal.stretch_plan is 'a plan: what a poll does with a stretch of a window';

-- Plan the next events of a piece. Reads only. What is parked is looked at only where it can matter: a dead letter from before costs nothing.
create function baton_internal.plan_stretch(outbox baton.outboxes, g baton.consumer_groups, w baton_internal.windows, p baton_internal.pieces, open_lanes bigint,
                                   room int, moment timestamptz)
returns baton_internal.stretch_plan
language plpgsql stable
as $$
declare
    blocking constant text := case when g.on_poison = 'park' then $c$q.state in ('retry', 'blocked')$c$ else $c$q.state in ('retry', 'blocked', 'dead')$c$ end;
    some_parked constant boolean := exists (
        select from baton_internal.parked q
         where q.group_id = g.group_id and q.id > case when w.late = '{}' then greatest(p.after_id, w.first_id - 1) else p.after_id end and q.id <= p.upto_id);
    some_blocked boolean := false;
    plan baton_internal.stretch_plan;
begin
    if g.ordered then
        execute format('select exists (select from baton_internal.parked q where q.group_id = %s and q.key is not null and %s)', g.group_id, blocking)
           into some_blocked;
    end if;
    execute format($sql$
        with stretch as (
            select e.id, e.key, e.available_at, 1::bigint << e.lane as lane,
                   case when e.id = any ($1) %2$s then 'parked'
                        when $2 & (1::bigint << e.lane) = 0 then 'wait'
                        when e.available_at > $3 then 'scheduled'
                        %3$s else 'give' end as way
              from (%1$s) e)
        select count(*), max(id), count(*) filter (where way = 'give'), min(id) filter (where way = 'give'), max(id) filter (where way = 'give'),
               coalesce(bit_or(lane) filter (where way = 'give'), 0), min(id) filter (where way = 'wait'), max(id) filter (where way = 'wait'),
               coalesce(bit_or(lane) filter (where way = 'wait'), 0),
               $1 || coalesce(array_agg(id) filter (where way in ('scheduled', 'blocked') or way = 'parked' and id <> all ($1)), '{}'),
               array_agg(id) filter (where way in ('scheduled', 'blocked')), array_agg(key) filter (where way in ('scheduled', 'blocked')),
               array_agg(case when way = 'scheduled' then available_at end) filter (where way in ('scheduled', 'blocked'))
          from stretch$sql$,
        baton_internal.window_query(outbox, g, w, p.after_id, p.upto_id, room,
                           'e.id, coalesce(e.partition_key, e.aggregate_id) as key, e.available_at, ' || baton_internal.lane_expression() || ' as lane'),
        case when some_parked then format('or exists (select from baton_internal.parked q where q.group_id = %s and q.id = e.id)', g.group_id) end,
        case when some_blocked then format(
             'when exists (select from baton_internal.parked q where q.group_id = %s and q.key = e.key and q.key is not null and q.id < e.id and %s) then ''blocked''',
             g.group_id, blocking) end)
       into plan using p.holes, open_lanes, moment;
    return plan;
end
$$;
comment on function baton_internal.plan_stretch(baton.outboxes, baton.consumer_groups, baton_internal.windows, baton_internal.pieces, bigint, int, timestamptz)
    is 'plans what a poll does with the next events of a piece; read-only';

-- The pieces that a poll may lease, in order, and the lanes in which something is outstanding. When a suspect can go, it is the only one.
create function baton_internal.choose_pieces(g baton.consumer_groups, first_piece bigint, out waiting baton_internal.pieces[], out busy bigint, out suspects boolean)
language plpgsql stable
as $$
declare
    p baton_internal.pieces;
    ahead bigint;                -- lanes in which something earlier is outstanding
begin
    busy := 0;
    suspects := false;
    if g.ordered then
        -- a consumer that polls on without settling may have been started anew: its own lanes are no exception
        select coalesce(bit_or(q.lanes), 0) into busy
          from baton_internal.pieces q where q.group_id = g.group_id and q.piece_id >= first_piece and q.lease_token is not null;
    end if;
    waiting := array(select q from baton_internal.pieces q
                   where q.group_id = g.group_id and q.piece_id >= first_piece and q.lease_token is null
                   order by q.window_number, q.after_id, q.piece_id);
    ahead := busy;
    foreach p in array waiting loop
        if p.attempt > 1 and p.lanes & ~ahead <> 0 then
            waiting := array[p];
            busy := ahead;
            suspects := true;
            return;
        end if;
        ahead := case when g.ordered then ahead | p.lanes else 0 end;
    end loop;
end
$$;
comment on function baton_internal.choose_pieces(baton.consumer_groups, bigint) is 'the pieces that a poll may lease';

-- Put a carved or split stretch aside until somebody can take it.
create function baton_internal.leave_piece(group_id int, window_number bigint, after_id bigint, upto_id bigint, lanes bigint, attempt int,
                                  holes bigint[])
returns void
language sql
as $$
    insert into baton_internal.pieces (group_id, window_number, after_id, upto_id, lanes, attempt, holes) values ($1, $2, $3, $4, $5, $6, $7)
$$;
comment on function baton_internal.leave_piece(int, bigint, bigint, bigint, bigint, int, bigint[]) is 'adds a piece that waits for a consumer';

-- Carry a plan out: park what steps aside, lease what is given.
create function baton_internal.take_stretch(g baton.consumer_groups, w baton_internal.windows, p baton_internal.pieces, plan baton_internal.stretch_plan, consumer_id text,
                                   token uuid, moment timestamptz, until timestamptz)
returns void
language plpgsql
as $$
begin
    if plan.aside_ids is not null then
        insert into baton_internal.parked (group_id, id, state, key, attempt, lost, due_at)
        select g.group_id, a.id, case when a.due is null then 'blocked' else 'scheduled' end, a.key, p.attempt - 1, p.attempt - 1,
               coalesce(a.due, moment)
          from unnest(plan.aside_ids, plan.aside_keys, plan.aside_due) as a (id, key, due);
    end if;
    if plan.gave > 0 then
        insert into baton_internal.pieces (group_id, window_number, after_id, upto_id, lanes, attempt, holes, lease_token, consumer_id, leased_at, leased_until)
        values (g.group_id, w.window_number, plan.first_given - 1, plan.last_given, case when g.ordered then plan.given_lanes else -1 end,
                p.attempt, plan.holes, token, take_stretch.consumer_id, moment, until);
    end if;
end
$$;
comment on function baton_internal.take_stretch(baton.consumer_groups, baton_internal.windows, baton_internal.pieces, baton_internal.stretch_plan, text, uuid, timestamptz, timestamptz)
    is 'parks and leases the events of a stretch';

-- The position at the beginning of the next era. What was known of ids is of the era before.
create function baton_internal.next_era(at baton_internal.group_positions)
returns baton_internal.group_positions
language plpgsql immutable
as $$
begin
    at.era := at.era + 1;
    at.seen := '3:3:';
    at.fresh_id := null;
    at.fresh_xid := null;
    at.late_id := 0;
    return at;
end
$$;
comment on function baton_internal.next_era(baton_internal.group_positions) is 'the position at the beginning of the next era';

-- Give the open window, or open the next one; null when there is nothing more. `prepared` is the window that follows this position, if known.
create function baton_internal.window_to_carve(outbox baton.outboxes, g baton.consumer_groups, prepared baton_internal.windows,
                                               floor_id bigint, floor_xid xid8, inout at baton_internal.group_positions, out w baton_internal.windows)
language plpgsql
as $$
begin
    if at.window_open then
        w := baton_internal.load_window(outbox, g.group_id, at.window_number);
        at := baton_internal.keep_floor(at, floor_id, floor_xid, w.sight);
        return;
    end if;
    w := prepared;
    while w is null loop
        w := baton_internal.open_window(outbox, at);
        exit when not (w is null);
        exit when not exists (select from baton_internal.outbox_eras x where x.outbox_id = outbox.outbox_id and x.era > at.era);
        at := baton_internal.next_era(at);
    end loop;
    if not (w is null) then
        at := baton_internal.keep_floor(at, floor_id, floor_xid, w.sight);
        insert into baton_internal.windows select w.*;
        at.window_open := true;
        at.window_number := w.window_number;
        at.after_id := w.start_id - 1;
    end if;
end
$$;
comment on function baton_internal.window_to_carve(baton.outboxes, baton.consumer_groups, baton_internal.windows, bigint, xid8, baton_internal.group_positions)
    is 'the window from which a poll takes new stretches';

-- Lease a part of a piece that waits: as much as there is room for, of the lanes that are open. The rest waits on.
create function baton_internal.lease_piece(outbox baton.outboxes, g baton.consumer_groups, p baton_internal.pieces, open_lanes bigint, room int,
                                  consumer_id text, token uuid, moment timestamptz, until timestamptz)
returns baton_internal.stretch_plan
language plpgsql
as $$
declare
    w constant baton_internal.windows := baton_internal.load_window(outbox, g.group_id, p.window_number);
    plan constant baton_internal.stretch_plan := baton_internal.plan_stretch(outbox, g, w, p, open_lanes, room, moment);
begin
    perform baton_internal.flush_window(w);
    delete from baton_internal.pieces q where q.group_id = g.group_id and q.piece_id = p.piece_id;
    if p.lanes & ~open_lanes <> 0 then
        perform baton_internal.leave_piece(g.group_id, p.window_number, p.after_id, p.upto_id, p.lanes & ~open_lanes, p.attempt, plan.holes);
    end if;
    if plan.reads = room and plan.last_read < p.upto_id then
        perform baton_internal.leave_piece(g.group_id, p.window_number, plan.last_read, p.upto_id, open_lanes, p.attempt, p.holes);
    end if;
    perform baton_internal.take_stretch(g, w, p, plan, consumer_id, token, moment, until);
    return plan;
end
$$;
comment on function baton_internal.lease_piece(baton.outboxes, baton.consumer_groups, baton_internal.pieces, bigint, int, text, uuid, timestamptz, timestamptz)
    is 'leases a piece, or the part of it that can go now';

-- Carve the next stretch out of the open window. Lanes that are not open become a piece that waits.
create function baton_internal.carve_stretch(outbox baton.outboxes, g baton.consumer_groups, w baton_internal.windows, open_lanes bigint, room int,
                                    consumer_id text, token uuid, moment timestamptz, until timestamptz,
                                    inout at baton_internal.group_positions, out plan baton_internal.stretch_plan)
language plpgsql
as $$
declare
    p baton_internal.pieces;
begin
    p.after_id := at.after_id;
    p.upto_id := 9223372036854775807;
    p.attempt := 1;
    p.holes := '{}';
    plan := baton_internal.plan_stretch(outbox, g, w, p, open_lanes, room, moment);
    perform baton_internal.flush_window(w);
    if plan.wait_lanes <> 0 then
        perform baton_internal.leave_piece(g.group_id, w.window_number, plan.wait_from - 1, plan.wait_upto, plan.wait_lanes, 1, plan.holes);
    end if;
    perform baton_internal.take_stretch(g, w, p, plan, consumer_id, token, moment, until);
    if plan.reads < room then
        at := baton_internal.after_window(at, w);
    end if;
    at.after_id := coalesce(plan.last_read, at.after_id);
end
$$;
comment on function baton_internal.carve_stretch(baton.outboxes, baton.consumer_groups, baton_internal.windows, bigint, int, text, uuid, timestamptz,
    timestamptz, baton_internal.group_positions) is 'leases the next events of the open window';

-- The position when a window is exhausted: what the window showed is seen.
create function baton_internal.after_window(at baton_internal.group_positions, w baton_internal.windows)
returns baton_internal.group_positions
language plpgsql immutable
as $$
begin
    if at.era <> w.era then
        at := baton_internal.next_era(at);
        at.era := w.era;
    end if;
    at.seen := w.sight;
    at.late_id := w.late_id;
    at.window_number := w.window_number;
    at.window_open := false;
    return at;
end
$$;
comment on function baton_internal.after_window(baton_internal.group_positions, baton_internal.windows) is 'the position behind a window';

-- See that everything in a window is on disk: what a crash could still take back must not leave the database.
create function baton_internal.flush_window(w baton_internal.windows)
returns void
language plpgsql
as $$
begin
    if pg_current_wal_flush_lsn() < w.flushed_at then
        perform baton_internal.flush_wal_up_to(w.flushed_at);
    end if;
end
$$;
comment on function baton_internal.flush_window(baton_internal.windows) is 'waits until a window''s commits are on disk';

-- Lease the next events of a group: suspects by themselves, else parked events that are due, pieces that wait, and new stretches of the window.
-- `members` share the lanes. Returns the position as it is then, and how many events were leased.
create function baton_internal.lease_events(outbox baton.outboxes, g baton.consumer_groups, prepared baton_internal.windows, consumer_id text, token uuid,
                                   moment timestamptz, until timestamptz, batch int, members int, floor_id bigint, floor_xid xid8,
                                   inout at baton_internal.group_positions, out gave int)
language plpgsql
as $$
declare
    choice record;
    step record;
    p baton_internal.pieces;
    w baton_internal.windows;
    plan baton_internal.stretch_plan;
    busy bigint;                 -- lanes in which something is outstanding
    given bigint := 0;           -- lanes given in this poll: later events of theirs may follow
    open_lanes bigint;
    room int;
    pieces int := 0;             -- pieces that were looked at
begin
    gave := 0;
    loop
        choice := baton_internal.choose_pieces(g, at.first_piece);
        busy := choice.busy;
        room := batch;
        if choice.suspects then
            room := baton_internal.suspects_share(batch, (choice.waiting[1]).attempt - 1);
            members := 1;
        elsif exists (select from baton_internal.due_parked(g, moment, true, 1)) then
            select count(*) into gave from baton_internal.lease_parked(g, consumer_id, token, moment, until, room, true);
            room := room - gave;
        end if;

        foreach p in array choice.waiting loop
            exit when room <= 0;
            pieces := pieces + 1;
            open_lanes := case when not g.ordered then p.lanes when p.attempt > 1 and not choice.suspects then 0
                               else p.lanes & ~busy & given | baton_internal.share_lanes(p.lanes & ~busy & ~given, members, consumer_id) end;
            if open_lanes = 0 or p.attempt > 1 and not choice.suspects then
                busy := busy | p.lanes;
                continue;
            end if;
            plan := baton_internal.lease_piece(outbox, g, p, open_lanes, room, consumer_id, token, moment, until);
            busy := busy | (p.lanes & ~open_lanes);
            given := given | plan.given_lanes;
            gave := gave + plan.gave;
            room := room - plan.reads;
        end loop;
        exit when gave > 0 or not choice.suspects;
    end loop;

    while room > 0 and not choice.suspects and pieces < 64 loop
        open_lanes := case when g.ordered then ~busy else -1 end;
        exit when open_lanes = 0;
        step := baton_internal.window_to_carve(outbox, g, prepared, floor_id, floor_xid, at);
        at := step.at;
        w := step.w;
        exit when w is null or not baton_internal.await_standbys(w.flushed_at, '1 second');
        prepared := null;
        if g.ordered and members > 1 then
            open_lanes := given & ~busy | baton_internal.share_lanes(
                coalesce((baton_internal.survey_window(outbox, g, w, at.after_id, room)), 0) & ~busy & ~given, members, consumer_id);
        end if;
        step := baton_internal.carve_stretch(outbox, g, w, open_lanes, room, consumer_id, token, moment, until, at);
        at := step.at;
        plan := step.plan;
        if plan.wait_lanes <> 0 then
            busy := busy | plan.wait_lanes;
            pieces := pieces + 1;  -- counts against the limit of pieces under way
        end if;
        given := given | plan.given_lanes;
        gave := gave + plan.gave;
        room := room - plan.reads;
    end loop;
end
$$;
comment on function baton_internal.lease_events(baton.outboxes, baton.consumer_groups, baton_internal.windows, text, uuid, timestamptz, timestamptz, int, int,
    bigint, xid8, baton_internal.group_positions) is 'leases the next events of a group to a consumer';
