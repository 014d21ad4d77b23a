-- Polling: lease the next events of a group to a consumer.

-- Whether a poll of the group could give anything. Writes nothing and draws no transaction id. The position that it saw and the
-- window that would follow come back too, for a poll that finds the position unchanged.
create function baton_internal.look_for_work(outbox baton.outboxes, g baton.consumer_groups,
                                    out found_some boolean, out at baton_internal.group_positions, out next_window baton_internal.windows)
language plpgsql volatile
as $$
begin
    at := baton_internal.position_of(g.group_id);
    found_some := at.window_open
         or exists (select from baton_internal.pieces p where p.group_id = g.group_id and p.piece_id >= at.first_piece
                       and (p.lease_token is null or p.leased_until < clock_timestamp()))
         or exists (select from baton_internal.parked p where p.group_id = g.group_id and p.state in ('scheduled', 'retry')
                       and p.due_at <= clock_timestamp() and (p.lease_token is null or p.leased_until < clock_timestamp()));
    if not found_some then
        next_window := baton_internal.open_window(outbox, g.group_id, at.window_number + 1, at.era, at.seen);
        found_some := not (next_window is null)
             or exists (select from baton_internal.outbox_eras e where e.outbox_id = outbox.outbox_id and e.era > at.era);
    end if;
end
$$;
comment on function baton_internal.look_for_work(baton.outboxes, baton.consumer_groups) is 'whether a poll could give anything; read-only';

-- Choose a consumer's share of the lanes that are free and have events: all of them when it is alone, never none when there
-- are some. Each consumer starts at a place of its own.
create function baton_internal.share_lanes(free bigint, members int, consumer_id text)
returns bigint
language sql immutable
as $$
    select case when members = 1 then free else coalesce((
        select bit_or(1::bigint << l.lane) from (
            select lane from generate_series(0, 63) lane
             where free & (1::bigint << lane) <> 0
             order by (lane + hashtext(consumer_id)) & 63
             limit ceil(baton_internal.count_lanes(free)::numeric / members)) l), 0) end
$$;
comment on function baton_internal.share_lanes(bigint, int, text) is 'which lanes a consumer takes';

-- Note a poll of a consumer whose group the caller has locked.
create function baton_internal.note_poll(group_id int, consumer_id text)
returns void
language plpgsql
as $$
declare
    c constant baton_internal.consumers := baton_internal.consumer_of(group_id, consumer_id);
begin
    if c is null then
        insert into baton_internal.consumers (group_id, consumer_id) values (note_poll.group_id, note_poll.consumer_id);
    elsif c.last_poll_at < clock_timestamp() - interval '2 seconds' or c.reaped_at is not null then
        update baton_internal.consumers x
           set last_poll_at = clock_timestamp(), last_heartbeat_at = clock_timestamp(), unhealthy_since = null, reaped_at = null
         where x.group_id = c.group_id and x.consumer_id = c.consumer_id and x.generation = c.generation;
    end if;
end
$$;
comment on function baton_internal.note_poll(int, text) is 'registers a poll';

-- Count those who want a share of the lanes: this consumer, and others who lately went away empty-handed.
create function baton_internal.count_sharers(hungry jsonb, consumer_id text)
returns int
language sql volatile
as $$
    select 1 + count(*)::int from jsonb_each_text(hungry) h
     where h.key <> consumer_id and h.value::timestamptz > clock_timestamp() - interval '5 seconds'
$$;
comment on function baton_internal.count_sharers(jsonb, text) is 'counts the consumers that share the lanes';

-- Add a consumer to the hungry ones, and forget those who were that long ago.
create function baton_internal.add_hungry(hungry jsonb, consumer_id text)
returns jsonb
language sql volatile
as $$
    select coalesce(jsonb_object_agg(h.key, h.value), '{}') || jsonb_build_object(consumer_id, clock_timestamp())
      from jsonb_each_text(hungry) h where h.value::timestamptz > clock_timestamp() - interval '5 seconds'
$$;
comment on function baton_internal.add_hungry(jsonb, text) is 'notes a consumer that found all lanes with work taken';

-- Put a carved or split stretch aside until somebody can take it.
create function baton_internal.leave_piece(group_id int, window_number bigint, after_id bigint, upto_id bigint, lanes bigint, attempt int,
                                  holes bigint[])
returns void
language sql
as $$
    insert into baton_internal.pieces (group_id, window_number, after_id, upto_id, lanes, attempt, holes) values ($1, $2, $3, $4, $5, $6, $7)
$$;
comment on function baton_internal.leave_piece(int, bigint, bigint, bigint, bigint, int, bigint[]) is 'adds a piece that waits for a taker';

-- End the leases of a group that ran out, each as a whole, hence by one moment: whoever comes too late can settle nothing of it, neither
-- what others have been given meanwhile nor the rest. The caller has locked the group.
create function baton_internal.end_leases(g baton.consumer_groups, first_piece bigint)
returns void
language plpgsql
as $$
declare
    moment constant timestamptz := clock_timestamp();
    lost constant uuid[] := array(
        select p.lease_token from baton_internal.pieces p where p.group_id = g.group_id and p.piece_id >= first_piece and p.leased_until < moment
        union
        select p.lease_token from baton_internal.parked p where p.group_id = g.group_id and p.lease_token is not null and p.leased_until < moment);
begin
    if lost = '{}' then
        return;
    end if;
    update baton_internal.pieces p set lease_token = null, consumer_id = null, leased_until = null, attempt = p.attempt + 1
     where p.group_id = g.group_id and p.piece_id >= first_piece and p.lease_token = any (lost);
    update baton_internal.parked p set lease_token = null, consumer_id = null, leased_until = null
     where p.group_id = g.group_id and p.lease_token = any (lost);
    update baton_internal.consumers c set last_token = null  -- what of it is not held any more may be settled by others now
     where c.group_id = g.group_id and c.last_token = any (lost);
end
$$;
comment on function baton_internal.end_leases(baton.consumer_groups, bigint) is 'frees what consumers hold beyond their time';

-- Take an event aside when it cannot go now; true when it was taken aside.
create function baton_internal.step_aside(g baton.consumer_groups, id bigint, key text, available_at timestamptz)
returns boolean
language plpgsql
as $$
begin
    if available_at > clock_timestamp() then
        insert into baton_internal.parked (group_id, id, state, key, attempt, due_at)
        values (g.group_id, step_aside.id, 'scheduled', step_aside.key, 0, step_aside.available_at);
        return true;
    end if;
    if g.ordered and step_aside.key is not null and exists (
        select from baton_internal.parked p where p.group_id = g.group_id and p.key = step_aside.key and p.id < step_aside.id
                        and baton_internal.blocks_key(g, p.state)) then
        insert into baton_internal.parked (group_id, id, state, key, attempt, due_at)
        values (g.group_id, step_aside.id, 'blocked', step_aside.key, 0, clock_timestamp());
        return true;
    end if;
    return false;
end
$$;
comment on function baton_internal.step_aside(baton.consumer_groups, bigint, text, timestamptz) is 'parks an event that is not due or whose key is blocked';

-- Lease the next events to a consumer. Rows come in delivery order and all carry one lease token.
create function baton.poll_outbox(group_name text, consumer_id text, batch_size int default 100, visibility_seconds int default 30)
returns setof baton.polled_event
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off set enable_seqscan = off set enable_sort = off set jit = off  -- batches are read along an index, whatever the statistics say
as $$
declare
    everything constant bigint := 9223372036854775807;
    g baton.consumer_groups := baton_internal.find_group(group_name);
    outbox baton.outboxes;
    at baton_internal.group_positions;
    w baton_internal.windows;             -- the window at hand
    p baton_internal.pieces;              -- the piece at hand
    todo baton_internal.pieces[];         -- pieces without a taker
    work record;                 -- what a first look showed
    e record;
    token constant uuid := gen_random_uuid();
    until timestamptz;
    room int := batch_size;      -- events that may still be given
    gave int := 0;               -- events given
    busy bigint := 0;            -- lanes with something outstanding
    members int;                 -- consumers that share the lanes
    open_lanes bigint;
    given_lanes bigint;
    given bigint := 0;           -- lanes given in this poll: later events of theirs may follow
    wait_lanes bigint;
    wait_from bigint;
    wait_upto bigint;
    first_given bigint;
    last_given bigint;
    last_read bigint;
    reads int;
    next_piece int := 1;
    carving boolean;
    whole boolean;               -- the stretch was given in one go
    holes bigint[];              -- events of the stretch that are parked
    moved boolean := false;
    any_parked boolean;
begin
    perform baton_internal.check_consumer(consumer_id);
    if coalesce(batch_size, 0) < 1 or coalesce(visibility_seconds, 0) < 1 then
        raise exception 'batch_size and visibility_seconds must be at least 1' using errcode = 'invalid_parameter_value';
    end if;
    select * into outbox from baton.outboxes o where o.outbox_id = g.outbox_id;
    if not exists (select from pg_class c where c.oid = outbox.relation) then
        raise exception 'the table of the outbox of group "%" is gone', group_name
            using errcode = 'undefined_table', hint = 'it was dropped without baton.drop_outbox(): drop the group, or restore the table';
    end if;
    perform baton_internal.verify_era(outbox.relation);
    work := baton_internal.look_for_work(outbox, g);
    if not work.found_some then
        if baton_internal.consumer_of(g.group_id, consumer_id) is null then
            perform baton_internal.lock_position(g.group_id);
            perform baton_internal.note_poll(g.group_id, consumer_id);
        end if;
        return;
    end if;
    at := baton_internal.lock_position(g.group_id);
    if at is null then
        return;  -- dropped while we looked
    elsif at.owned_until > clock_timestamp() then
        raise exception 'consumer group "%" is worked by relay "%"', group_name, at.owner
            using errcode = 'BT003', hint = 'stop its pipeline, or use a group of your own';
    elsif at.owner is not null then  -- its lease ran out: it must not move the position any more
        at.owner := null;
        at.owned_until := null;
        at.owner_epoch := at.owner_epoch + 1;
        moved := true;
    end if;
    until := clock_timestamp() + make_interval(secs => visibility_seconds);
    members := case when at.hungry = '{}' then 1 else baton_internal.count_sharers(at.hungry, consumer_id) end;
    perform baton_internal.note_poll(g.group_id, consumer_id);
    perform baton_internal.end_leases(g, at.first_piece);

    any_parked := exists (select from baton_internal.parked q where q.group_id = g.group_id);
    if any_parked then
        return query select * from baton_internal.parked_events(outbox, array(
            select l from baton_internal.lease_parked(g, consumer_id, token, until, room) l));
        get diagnostics gave = row_count;
        room := room - gave;
    end if;

    if g.ordered then
        -- a consumer that polls on without settling may have been started anew: its own lanes are no exception
        select coalesce(bit_or(q.lanes), 0) into busy
          from baton_internal.pieces q where q.group_id = g.group_id and q.piece_id >= at.first_piece and q.lease_token is not null;
    end if;
    todo := array(select q from baton_internal.pieces q
                   where q.group_id = g.group_id and q.piece_id >= at.first_piece and q.lease_token is null
                   order by q.window_number, q.after_id, q.piece_id);

    while room > 0 loop
        carving := next_piece > cardinality(todo);
        if carving then
            open_lanes := case when g.ordered then ~busy else -1 end;
            exit when open_lanes = 0 or next_piece > 64;
            if not at.window_open then
                if not (work.next_window is null) and work.at::text = at::text then
                    w := work.next_window;
                else
                    w := baton_internal.open_window(outbox, g.group_id, at.window_number + 1, at.era, at.seen);
                end if;
                if w is null then
                    exit when not exists (select from baton_internal.outbox_eras x where x.outbox_id = outbox.outbox_id and x.era > at.era);
                    at.era := at.era + 1;
                    at.seen := '3:3:';
                    moved := true;
                    continue;
                end if;
                insert into baton_internal.windows select w.*;
                at.window_open := true;
                at.window_number := w.window_number;
                at.after_id := 0;
                moved := true;
            elsif w.window_number is distinct from at.window_number then
                w := baton_internal.load_window(outbox, g.group_id, at.window_number);
            end if;
            if g.ordered and members > 1 then
                e := baton_internal.survey_window(outbox, g, w, at.after_id, everything, room);
                open_lanes := given & ~busy | baton_internal.share_lanes(coalesce(e.lanes, 0) & ~busy & ~given, members, consumer_id);
            end if;
            p := null;
            p.after_id := at.after_id;
            p.upto_id := everything;
            p.attempt := 1;
            p.holes := '{}';
        else
            p := todo[next_piece];
            next_piece := next_piece + 1;
            open_lanes := case when g.ordered then p.lanes & ~busy & given | baton_internal.share_lanes(p.lanes & ~busy & ~given, members, consumer_id) else p.lanes end;
            if open_lanes = 0 then
                busy := busy | p.lanes;
                continue;
            end if;
            if w.window_number is distinct from p.window_number then
                w := baton_internal.load_window(outbox, g.group_id, p.window_number);
            end if;
        end if;
        if pg_current_wal_flush_lsn() < w.flushed_at then
            perform baton_internal.flush_wal_up_to(w.flushed_at);
        end if;

        reads := 0;
        given_lanes := 0;
        wait_lanes := 0;
        wait_from := null;
        first_given := null;
        last_given := null;
        whole := false;
        holes := p.holes;
        if carving and not any_parked and open_lanes = -1 then  -- nothing can stand in the way: give the stretch as a whole
            e := baton_internal.survey_window(outbox, g, w, p.after_id, p.upto_id, room);
            whole := not e.scheduled;
            if whole then
                reads := e.events;
                last_read := e.last_id;
                first_given := e.first_id;
                last_given := e.last_id;
                given_lanes := e.lanes;
                gave := gave + reads;
                return query execute format('select *, %s, %L::uuid from (%s) e', p.attempt, token,
                    baton_internal.window_query(outbox, g, w, p.after_id, last_given, room, baton_internal.event_columns(outbox.payload_type)));
            end if;
        end if;
        for e in select * from baton_internal.read_window(outbox, g, w, p.after_id, p.upto_id, room) where not whole loop
            reads := reads + 1;
            last_read := e.id;
            if e.id = any (p.holes) then
                continue;
            elsif any_parked and exists (select from baton_internal.parked q where q.group_id = g.group_id and q.id = e.id) then
                holes := holes || e.id;
                continue;
            elsif open_lanes & (1::bigint << e.lane) = 0 then
                wait_from := coalesce(wait_from, e.id);
                wait_lanes := wait_lanes | (1::bigint << e.lane);
                wait_upto := e.id;
                continue;
            elsif (any_parked or e.available_at is not null) and baton_internal.step_aside(g, e.id, e.key, e.available_at) then
                any_parked := true;
                holes := holes || e.id;
                continue;
            end if;
            given_lanes := given_lanes | (1::bigint << e.lane);
            first_given := coalesce(first_given, e.id);
            last_given := e.id;
            gave := gave + 1;
            return next (e.id, e.event_id, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type, e.schema_version,
                         e.topic, e.partition_key, e.payload, e.headers, e.trace_id, e.correlation_id, e.causation_id,
                         e.occurred_at, e.payload_bytes, p.attempt, token)::baton.polled_event;
        end loop;

        if not carving then
            delete from baton_internal.pieces q where q.group_id = g.group_id and q.piece_id = p.piece_id;
            if p.lanes & ~open_lanes <> 0 then
                perform baton_internal.leave_piece(g.group_id, p.window_number, p.after_id, p.upto_id, p.lanes & ~open_lanes, p.attempt, holes);
            end if;
            if reads = room and last_read < p.upto_id then  -- more than there is room for
                perform baton_internal.leave_piece(g.group_id, p.window_number, last_read, p.upto_id, open_lanes, p.attempt, p.holes);
            end if;
            busy := busy | (p.lanes & ~open_lanes);
        else
            if wait_lanes <> 0 then
                perform baton_internal.leave_piece(g.group_id, w.window_number, wait_from - 1, wait_upto, wait_lanes, 1, holes);
                busy := busy | wait_lanes;
                next_piece := next_piece + 1;  -- counts against the limit of pieces under way
            end if;
            if reads < room then
                at.seen := w.sight;
                at.window_open := false;
            end if;
            at.after_id := case when reads > 0 then last_read else at.after_id end;
            moved := true;
        end if;
        if last_given is not null then
            insert into baton_internal.pieces (group_id, window_number, after_id, upto_id, lanes, attempt, holes, lease_token, consumer_id,
                                      leased_at, leased_until)
            values (g.group_id, w.window_number, first_given - 1, last_given, case when g.ordered then given_lanes else -1 end,
                    p.attempt, holes, token, poll_outbox.consumer_id, clock_timestamp(), until);
            given := given | given_lanes;
        end if;
        room := room - reads;
    end loop;

    if gave = 0 and coalesce((at.hungry ->> consumer_id)::timestamptz, '-infinity') < clock_timestamp() - interval '1 second' then
        at.hungry := baton_internal.add_hungry(at.hungry, consumer_id);  -- there was work, but not for us: the others leave us some lanes
        moved := true;
    end if;
    if moved then
        select coalesce(min(q.piece_id), at.first_piece) into at.first_piece
          from baton_internal.pieces q where q.group_id = g.group_id and q.piece_id >= at.first_piece;
        delete from baton_internal.windows x
         where x.group_id = g.group_id and x.window_number >= at.first_window
           and (x.window_number < at.window_number or not at.window_open)
           and not exists (select from baton_internal.pieces q
                            where q.group_id = g.group_id and q.piece_id >= at.first_piece and q.window_number = x.window_number);
        select coalesce(min(x.window_number), at.window_number) into at.first_window
          from baton_internal.windows x where x.group_id = g.group_id and x.window_number >= at.first_window;
        perform baton_internal.move_position(at);
    end if;
end
$$;
comment on function baton.poll_outbox(text, text, int, int) is 'leases the next events of a group to a consumer';

-- Count the lanes of a set.
create function baton_internal.count_lanes(lanes bigint)
returns int
language sql immutable
as $$ select length(replace(lanes::bit(64)::text, '0', '')) $$;
comment on function baton_internal.count_lanes(bigint) is 'how many lanes a set has';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}', '{poll_outbox}');
