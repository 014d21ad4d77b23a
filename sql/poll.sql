-- Polling: lease the next events of a group to a consumer.

-- Whether a poll of the group could give that consumer anything. Writes nothing and draws no transaction id. The position that it saw and the
-- window that would follow come back too, for a poll that finds the position unchanged. One statement looks whether there is anything to be
-- judged at all, one look into an index each: most polls end behind it.
create function baton_internal.look_for_work(outbox baton.outboxes, g baton.consumer_groups, consumer_id text, moment timestamptz,
                                    out found_some boolean, out at baton_internal.group_positions, out next_window baton_internal.windows)
language plpgsql volatile
as $$
declare
    suspects boolean;            -- some event has lost a lease
    due boolean;                 -- some parked event's time has come
    waiting boolean;             -- a piece waits for a consumer
begin
    at := baton_internal.position_of(g.group_id);
    select coalesce(bool_or(p.leased_until < moment), false)
           or exists (select from baton_internal.parked q where q.group_id = g.group_id and q.lease_token is not null and q.leased_until < moment)
           or coalesce(at.owned_until < moment, false),  -- a relay that is gone may have left parked events behind
           at.window_open or coalesce(bool_or(p.lease_token is null), false),
           exists (select from baton_internal.parked q where q.group_id = g.group_id and q.state in ('scheduled', 'retry') and q.lease_token is null
                                                         and q.due_at <= moment),
           exists (select from baton_internal.parked q where q.group_id = g.group_id and q.lost > 0)
      into found_some, waiting, due, suspects
      from baton_internal.pieces p where p.group_id = g.group_id and p.piece_id >= at.first_piece;
    if not found_some and suspects and baton_internal.has_last_chance(g, consumer_id) then
        return;
    end if;
    found_some := found_some or waiting;
    if due and not found_some then
        found_some := exists (select from baton_internal.due_parked(g, moment, true, 1));
    end if;
    if suspects and not found_some then
        found_some := exists (select from baton_internal.next_suspects(g, moment, 1));
    end if;
    if not found_some then
        next_window := baton_internal.open_window(outbox, at);
        found_some := not (next_window is null)
             or exists (select from baton_internal.outbox_eras e where e.outbox_id = outbox.outbox_id and e.era > at.era);
    end if;
end
$$;
comment on function baton_internal.look_for_work(baton.outboxes, baton.consumer_groups, text, timestamptz) is 'true when a poll could return events; read-only';

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
comment on function baton_internal.share_lanes(bigint, int, text) is 'the lanes that a consumer takes';

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
comment on function baton_internal.add_hungry(jsonb, text) is 'notes a consumer that found work only in lanes of others';

-- The events of a lease, in delivery order: parked ones first, then the pieces as they were leased.
create function baton_internal.leased_events(outbox baton.outboxes, g baton.consumer_groups, consumer_id text, token uuid)
returns setof baton.polled_event
language plpgsql volatile
as $$
declare
    p baton_internal.pieces;
begin
    return query select * from baton_internal.parked_events(outbox, array(select q from baton_internal.held_parked(g, leased_events.consumer_id, token) q));
    for p in select * from baton_internal.held_pieces(g, leased_events.consumer_id, token) loop
        -- only what is given becomes jsonb: a neighbour may be an event for which jsonb has no place
        return query execute format('select %s, %s, %L::uuid from (%s) e where %s & (1::bigint << e.lane) <> 0 and e.id <> all (%L::bigint[])',
            baton_internal.event_columns(outbox.payload_type), p.attempt, token,
            baton_internal.window_query(outbox, g, baton_internal.load_window(outbox, g.group_id, p.window_number), p.after_id, p.upto_id, 2147483647,
                               baton_internal.relay_columns() || ', ' || baton_internal.lane_expression() || ' as lane'),
            p.lanes, p.holes);
    end loop;
end
$$;
comment on function baton_internal.leased_events(baton.outboxes, baton.consumer_groups, text, uuid) is 'the events of a lease as consumers get them';

-- Forget windows that are over, and store the position that the caller has locked.
create function baton_internal.close_poll(at baton_internal.group_positions)
returns void
language plpgsql
as $$
begin
    select coalesce(min(q.piece_id), at.first_piece) into at.first_piece
      from baton_internal.pieces q where q.group_id = at.group_id and q.piece_id >= at.first_piece;
    delete from baton_internal.windows x
     where x.group_id = at.group_id and x.window_number >= at.first_window
       and (x.window_number < at.window_number or not at.window_open)
       and not exists (select from baton_internal.pieces q
                        where q.group_id = at.group_id and q.piece_id >= at.first_piece and q.window_number = x.window_number);
    select coalesce(min(x.window_number), at.window_number) into at.first_window
      from baton_internal.windows x where x.group_id = at.group_id and x.window_number >= at.first_window;
    perform baton_internal.move_position(at);
end
$$;
comment on function baton_internal.close_poll(baton_internal.group_positions) is 'stores the position after a poll';

-- The position without its relay: nobody polls a group that a relay works, and one whose lease ran out must not move the position any more.
-- Parked events that such a relay held are free.
create function baton_internal.without_relay(g baton.consumer_groups, at baton_internal.group_positions)
returns baton_internal.group_positions
language plpgsql volatile
as $$
begin
    if at.owned_until > clock_timestamp() then
        raise exception 'consumer group "%" is worked by relay "%"', g.group_name, at.owner
            using errcode = 'BT003', hint = 'stop its pipeline, or use a group of your own';
    elsif at.owner is not null then
        update baton_internal.parked p set lease_token = null, consumer_id = null, leased_until = null
         where p.group_id = g.group_id and p.lease_token is not null and p.leased_until = 'infinity';
        at.owner := null;
        at.owned_until := null;
        at.owner_epoch := at.owner_epoch + 1;
    end if;
    return at;
end
$$;
comment on function baton_internal.without_relay(baton.consumer_groups, baton_internal.group_positions) is 'ends the ownership of a relay, or raises BT003';

-- Lease the next events to a consumer. Rows come in delivery order and all carry one lease token.
create function baton.poll_outbox(group_name text, consumer_id text, batch_size int default 100, visibility_seconds int default 30)
returns setof baton.polled_event
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off set enable_seqscan = off set enable_sort = off set jit = off  -- batches are read along an index, whatever the statistics say
as $$
declare
    g baton.consumer_groups := baton_internal.find_group(group_name);
    token constant uuid := gen_random_uuid();
    outbox baton.outboxes;
    stored baton_internal.group_positions;
    at baton_internal.group_positions;
    work record;                 -- what a first look showed
    ground record;               -- a floor, see sql/floors.sql
    moment timestamptz := clock_timestamp();
    until timestamptz;
    leased record;
    gave int;
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
    work := baton_internal.look_for_work(outbox, g, consumer_id, moment);
    if not work.found_some then
        if baton_internal.consumer_of(g.group_id, consumer_id) is null then
            perform baton_internal.lock_position(g.group_id);
            perform baton_internal.note_poll(g.group_id, consumer_id);
        end if;
        return;
    end if;
    ground := baton_internal.take_floor(outbox.outbox_id);
    g := baton_internal.lock_group(g);
    stored := baton_internal.position_of(g.group_id);
    at := baton_internal.without_relay(g, stored);
    moment := clock_timestamp();
    until := moment + make_interval(secs => visibility_seconds);
    perform baton_internal.note_poll(g.group_id, consumer_id);
    perform baton_internal.end_leases(outbox, g, at.first_piece, moment);
    if baton_internal.has_last_chance(g, consumer_id) then
        return;
    end if;
    leased := baton_internal.lease_suspects(g, at.first_piece, consumer_id, token, moment, until, batch_size);
    gave := leased.gave;
    if gave = 0 and not leased.wait then
        leased := baton_internal.lease_events(outbox, g, case when work.at::text = at::text then work.next_window end, consumer_id, token,
            moment, until, batch_size, case when at.hungry = '{}' then 1 else baton_internal.count_sharers(at.hungry, consumer_id) end,
            ground.id, ground.xid, at);
        at := leased.at;
        gave := leased.gave;
        if gave = 0 and coalesce((at.hungry ->> consumer_id)::timestamptz, '-infinity') < moment - interval '1 second' then
            at.hungry := baton_internal.add_hungry(at.hungry, consumer_id);  -- there was work, but not for us: the others leave us some lanes
        end if;
    end if;
    if at::text <> stored::text then
        perform baton_internal.close_poll(at);
        perform baton_internal.raise_mark(outbox);
    end if;
    if gave > 0 then
        begin
            return query select * from baton_internal.leased_events(outbox, g, consumer_id, token);
        exception when data_exception or program_limit_exceeded or internal_error then
            perform baton_internal.set_unreadable_aside(outbox, g, consumer_id, token);
            return query select * from baton_internal.leased_events(outbox, g, consumer_id, token);
        end;
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
