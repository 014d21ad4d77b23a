-- Settling: what becomes of leased events.

-- Raise BT001: the lease is gone.
create function baton_internal.raise_lease_lost(group_name text, consumer_id text)
returns void
language plpgsql
as $$
begin
    raise exception 'consumer "%" has lost its lease in group "%"', consumer_id, group_name
        using errcode = 'BT001',
              detail = 'the lease ran out and its events went to another consumer, or the group was sought',
              hint = 'stop handling these events and poll again; use a longer visibility or baton.extend_lease()';
end
$$;
comment on function baton_internal.raise_lease_lost(text, text) is 'raises BT001';

-- The pieces that a consumer holds, of one lease or of all, in delivery order: a piece gets its number when it is leased.
create function baton_internal.held_pieces(g baton.consumer_groups, consumer_id text, token uuid)
returns setof baton_internal.pieces
language sql stable
as $$
    select * from baton_internal.pieces p
     where p.group_id = g.group_id and p.piece_id >= (baton_internal.position_of(g.group_id)).first_piece
       and p.consumer_id = held_pieces.consumer_id and p.lease_token is not null
       and (token is null or p.lease_token = token)
     order by p.piece_id
$$;
comment on function baton_internal.held_pieces(baton.consumer_groups, text, uuid) is 'pieces leased to a consumer';

-- The events of a piece that are still to be settled.
create function baton_internal.piece_events(outbox baton.outboxes, g baton.consumer_groups, p baton_internal.pieces)
returns table (id bigint, key text)
language plpgsql volatile
as $$
begin
    return query execute format(
        'select e.id, e.key from (%s) e where %s & (1::bigint << e.lane) <> 0 and e.id <> all (%L::bigint[]) '
        'and not exists (select from baton_internal.parked q where q.group_id = %s and q.id = e.id) order by e.id',
        baton_internal.window_query(outbox, g, baton_internal.load_window(outbox, g.group_id, p.window_number), p.after_id, p.upto_id, 2147483647,
                           'e.id, coalesce(e.partition_key, e.aggregate_id) as key, ' || baton_internal.lane_expression() || ' as lane'),
        p.lanes, p.holes, g.group_id);
end
$$;
comment on function baton_internal.piece_events(baton.outboxes, baton.consumer_groups, baton_internal.pieces) is 'unsettled events of a piece';

-- Settle events of one lease, in delivery order, up to and including the event with that id. Without a token the lease is the one that holds
-- the event: whatever else the consumer holds may be what it had in its hands when it died, and comes again when that lease runs out.
-- True when something was settled; false, with a warning, when the event had been settled before.
create function baton.commit_offset(group_name text, consumer_id text, last_offset bigint, lease_token uuid default null)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off set enable_seqscan = off set enable_sort = off set jit = off  -- batches are read along an index, whatever the statistics say
as $$
declare
    g baton.consumer_groups := baton_internal.find_group(group_name);
    outbox baton.outboxes;
    at baton_internal.group_positions;
    p baton_internal.pieces;
    target baton_internal.pieces;
    lease uuid;                  -- the lease that holds the event
    in_parked boolean;
    keys text[];
    held boolean := false;
begin
    perform baton_internal.check_consumer(consumer_id);
    if last_offset is null then
        raise exception 'last_offset is needed' using errcode = 'null_value_not_allowed';
    end if;
    g := baton_internal.lock_group(g);
    at := baton_internal.position_of(g.group_id);
    select * into outbox from baton.outboxes o where o.outbox_id = g.outbox_id;
    select q.lease_token into lease from baton_internal.held_parked(g, consumer_id, commit_offset.lease_token) q where q.id = last_offset;
    in_parked := found;
    if not in_parked then
        for p in select * from baton_internal.held_pieces(g, consumer_id, commit_offset.lease_token) loop
            held := true;
            if last_offset = p.upto_id or last_offset > p.after_id and last_offset < p.upto_id
               and exists (select from baton_internal.piece_events(outbox, g, p) e where e.id = last_offset) then
                target := p;
                lease := p.lease_token;
                exit;
            end if;
        end loop;
    end if;
    if lease is null then
        return baton_internal.refuse_commit(outbox, g, at, consumer_id, last_offset, commit_offset.lease_token, held);
    end if;

    with settled as (
        delete from baton_internal.parked q
         where q.parked_id in (select h.parked_id
                                 from baton_internal.held_parked(g, commit_offset.consumer_id, lease) h
                                where not in_parked or h.id <= commit_offset.last_offset)
        returning q.key
    )
    select array_agg(s.key) into keys from settled s where s.key is not null;
    if keys is not null then
        perform baton_internal.unblock_keys(g, keys);
    end if;
    if target.piece_id is not null then
        delete from baton_internal.pieces q
         where q.group_id = g.group_id and q.piece_id >= at.first_piece and q.piece_id <= target.piece_id
           and q.lease_token = lease
           and (q.piece_id <> target.piece_id or commit_offset.last_offset = target.upto_id);
        update baton_internal.pieces q set after_id = commit_offset.last_offset where q.group_id = g.group_id and q.piece_id = target.piece_id;
    end if;
    perform baton_internal.note_commit(g.group_id, consumer_id, last_offset, lease);
    return true;
end
$$;
comment on function baton.commit_offset(text, text, bigint, uuid) is 'settles the events of a lease in delivery order up to an id';

-- The parked events that a consumer holds, of one lease or of all.
create function baton_internal.held_parked(g baton.consumer_groups, consumer_id text, token uuid)
returns setof baton_internal.parked
language plpgsql stable
as $$
begin
    if token is null then
        return query select * from baton_internal.parked p
                      where p.group_id = g.group_id and p.consumer_id = held_parked.consumer_id and p.lease_token is not null;
    else
        return query select * from baton_internal.parked p
                      where p.group_id = g.group_id and p.consumer_id = held_parked.consumer_id and p.lease_token = token;
    end if;
end
$$;
comment on function baton_internal.held_parked(baton.consumer_groups, text, uuid) is 'parked events leased to a consumer';

-- Whether an event was dispatched and is neither in a piece nor parked: then somebody has settled it.
create function baton_internal.is_settled(outbox baton.outboxes, g baton.consumer_groups, at baton_internal.group_positions, id bigint)
returns boolean
language plpgsql stable
as $$
declare
    event_xid xid8;
    event_lane int;
    event_era int;
    w baton_internal.windows;
begin
    if exists (select from baton_internal.parked q where q.group_id = g.group_id and q.id = is_settled.id) then
        return false;
    end if;
    execute format('select e.xid, %s from %s e where e.id = $1', baton_internal.lane_expression(), outbox.relation)
       into event_xid, event_lane using id;
    if event_xid is null then  -- not there: it left the log, because all groups have settled it, or it never was
        return is_settled.id < (select min(p.first_id) from baton_internal.outbox_partitions p
                                 where p.outbox_id = outbox.outbox_id and p.state in ('open', 'left'));
    end if;
    select min(x.era) into event_era from baton_internal.outbox_eras x
     where x.outbox_id = outbox.outbox_id and (x.last_id is null or x.last_id >= is_settled.id);
    select * into w from baton_internal.windows x
     where x.group_id = g.group_id and at.window_open and x.window_number = at.window_number;
    return (event_era < at.era
            or event_era = at.era and (pg_visible_in_snapshot(event_xid, at.seen)
                                       or is_settled.id <= at.after_id and coalesce(pg_visible_in_snapshot(event_xid, w.sight), false)))
       and not exists (
           select from baton_internal.pieces p join baton_internal.windows x using (group_id, window_number)
            where p.group_id = g.group_id and p.after_id < is_settled.id and p.upto_id >= is_settled.id
              and p.lanes & (1::bigint << event_lane) <> 0 and is_settled.id <> all (p.holes)
              and x.era = event_era and pg_visible_in_snapshot(event_xid, x.sight) and not pg_visible_in_snapshot(event_xid, x.seen));
end
$$;
comment on function baton_internal.is_settled(baton.outboxes, baton.consumer_groups, baton_internal.group_positions, bigint) is 'true when an event of a group is settled';

-- Say why a commit cannot be: settled before by this consumer (a warning), lease lost (BT001), not leased (BT002). A lease that is held, or
-- that the last commit was of, was never lost: what it does not hold any more was settled by its own consumer.
create function baton_internal.refuse_commit(outbox baton.outboxes, g baton.consumer_groups, at baton_internal.group_positions, consumer_id text,
                                    last_offset bigint, token uuid, held boolean)
returns boolean
language plpgsql
as $$
declare
    c constant baton_internal.consumers := baton_internal.consumer_of(g.group_id, consumer_id);
begin
    if (last_offset = c.last_offset or token = c.last_token or held and token is not null or token is null and last_offset < c.last_offset)
       and baton_internal.is_settled(outbox, g, at, last_offset) then
        raise warning 'offset % of consumer "%" is settled already, nothing changed', last_offset, consumer_id;
        return false;
    end if;
    if not held or token is null and last_offset < c.last_offset then
        perform baton_internal.raise_lease_lost(g.group_name, consumer_id);
    end if;
    raise exception 'event % is not in the lease of consumer "%"', last_offset, consumer_id
        using errcode = 'BT002', hint = 'commit an id that poll_outbox() returned to this consumer and that is not settled';
end
$$;
comment on function baton_internal.refuse_commit(baton.outboxes, baton.consumer_groups, baton_internal.group_positions, text, bigint, uuid, boolean)
    is 'raises, and says why a commit is refused';

-- An event that a consumer holds.
create type baton_internal.held_event as (id bigint, key text, attempt int, parked boolean);
comment on type baton_internal.held_event is 'an event under lease';

-- Everything that a consumer holds and has not settled.
create function baton_internal.held_events(outbox baton.outboxes, g baton.consumer_groups, consumer_id text, token uuid)
returns baton_internal.held_event[]
language sql volatile
as $$
    select array(
        select (h.id, h.key, h.attempt, h.parked)::baton_internal.held_event from (
            select q.id, q.key, q.attempt, true as parked from baton_internal.held_parked(g, held_events.consumer_id, token) q
            union all
            select e.id, e.key, p.attempt, false
              from baton_internal.held_pieces(g, held_events.consumer_id, token) p cross join lateral baton_internal.piece_events(outbox, g, p) e) h)
$$;
comment on function baton_internal.held_events(baton.outboxes, baton.consumer_groups, text, uuid) is 'events under lease';

-- Settle events that were handled in this transaction: these and no others, the rest of the lease stays held. Raises BT001 unless
-- every one of the events is held still, because what was done for them must then be undone.
create function baton.commit_events(group_name text, consumer_id text, ids bigint[], lease_token uuid)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off set enable_seqscan = off set enable_sort = off set jit = off  -- batches are read along an index, whatever the statistics say
as $$
declare
    g baton.consumer_groups := baton_internal.find_group(group_name);
    outbox baton.outboxes;
    at baton_internal.group_positions;
    held baton_internal.held_event[];
    keys text[];
begin
    perform baton_internal.check_consumer(consumer_id);
    if ids is null or cardinality(ids) = 0 or array_position(ids, null) is not null or lease_token is null then
        raise exception 'ids of the handled events and their lease token are needed' using errcode = 'invalid_parameter_value';
    end if;
    g := baton_internal.lock_group(g);
    at := baton_internal.position_of(g.group_id);
    select * into outbox from baton.outboxes o where o.outbox_id = g.outbox_id;
    held := baton_internal.held_events(outbox, g, commit_events.consumer_id, commit_events.lease_token);
    if exists (select from unnest(ids) i where not exists (select from unnest(held) h where h.id = i)) then
        perform baton_internal.raise_lease_lost(group_name, consumer_id);
    end if;
    with settled as (
        delete from baton_internal.parked q
         where q.group_id = g.group_id and q.lease_token = commit_events.lease_token and q.id = any (ids)
        returning q.key
    )
    select array_agg(s.key) into keys from settled s where s.key is not null;
    if keys is not null then
        perform baton_internal.unblock_keys(g, keys);
    end if;
    if not exists (select from unnest(held) h where h.id <> all (ids)) then  -- the usual case: the whole lease
        delete from baton_internal.pieces p
         where p.group_id = g.group_id and p.piece_id >= at.first_piece and p.lease_token = commit_events.lease_token;
    else
        perform baton_internal.trim_pieces(outbox, g, commit_events.consumer_id, commit_events.lease_token, ids);
    end if;
    perform baton_internal.note_commit(g.group_id, commit_events.consumer_id, ids[cardinality(ids)], commit_events.lease_token);
end
$$;
comment on function baton.commit_events(text, text, bigint[], uuid) is 'settles exactly the handled events, all of them or, with BT001, none';

-- Refuse ids that the consumer does not hold; those that are parked already are fine.
create function baton_internal.check_held(g baton.consumer_groups, consumer_id text, ids bigint[], held baton_internal.held_event[])
returns void
language plpgsql stable
as $$
declare
    stray bigint;
begin
    select i into stray from unnest(ids) i
     where not exists (select from unnest(held) h where h.id = i)
       and not exists (select from baton_internal.parked q where q.group_id = g.group_id and q.id = i and q.lease_token is null)
     limit 1;
    if stray is not null then
        if cardinality(held) = 0 then
            perform baton_internal.raise_lease_lost(g.group_name, consumer_id);
        end if;
        raise exception 'event % is not in the lease of consumer "%"', stray, consumer_id
            using errcode = 'BT002', hint = 'fail ids that poll_outbox() returned to this consumer and that are not settled';
    end if;
end
$$;
comment on function baton_internal.check_held(baton.consumer_groups, text, bigint[], baton_internal.held_event[]) is 'raises BT001 or BT002 for events not held';

-- Take events that were parked or settled out of a consumer's pieces.
create function baton_internal.trim_pieces(outbox baton.outboxes, g baton.consumer_groups, consumer_id text, token uuid, taken_ids bigint[])
returns void
language plpgsql
as $$
declare
    p baton_internal.pieces;
    first_left bigint;
    last_left bigint;
begin
    for p in select * from baton_internal.held_pieces(g, consumer_id, token) loop
        p.holes := p.holes || array(select i from unnest(taken_ids) i where i > p.after_id and i <= p.upto_id);
        select min(e.id), max(e.id) into first_left, last_left from baton_internal.piece_events(outbox, g, p) e;
        if last_left is null then
            delete from baton_internal.pieces q where q.group_id = g.group_id and q.piece_id = p.piece_id;
        else
            update baton_internal.pieces q
               set after_id = first_left - 1, upto_id = last_left, holes = array(select i from unnest(p.holes) i where i > first_left and i < last_left)
             where q.group_id = g.group_id and q.piece_id = p.piece_id;
        end if;
    end loop;
end
$$;
comment on function baton_internal.trim_pieces(baton.outboxes, baton.consumer_groups, text, uuid, bigint[]) is 'takes parked and settled events out of the pieces of a consumer';

-- Park events that a consumer could not handle. In an ordered group the later events of the same keys in the lease are blocked with
-- them: the rows returned say what was parked, and none of it may be handled now. They come back by the group's backoff, or not
-- before the time given. For an event that is parked already, because it was failed before or its lease has ended, they are
-- all that is parked of its key from there on: the caller may have more of it in its hands than it holds.
create function baton.fail_events(group_name text, consumer_id text, ids bigint[], error text, permanent boolean default false,
                                  lease_token uuid default null, retry_after interval default null)
returns table (id bigint, state text, attempt int, due_at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off set enable_seqscan = off set enable_sort = off set jit = off  -- batches are read along an index, whatever the statistics say
as $$
#variable_conflict use_column
declare
    g baton.consumer_groups := baton_internal.find_group(fail_events.group_name);
    outbox baton.outboxes;
    held baton_internal.held_event[];
    failed baton_internal.held_event[];
    followers baton_internal.held_event[];
    already bigint[];
begin
    perform baton_internal.check_consumer(fail_events.consumer_id);
    if ids is null or cardinality(ids) = 0 or array_position(ids, null) is not null then
        raise exception 'ids of the failed events are needed' using errcode = 'invalid_parameter_value';
    end if;
    g := baton_internal.lock_group(g);
    if retry_after is not null then  -- a delay comes with a fifth of jitter, here only upwards
        g.retry_base := least(greatest(retry_after, interval '0'), interval '100 years') * 1.25;
        g.retry_limit := g.retry_base;
    end if;
    select * into outbox from baton.outboxes o where o.outbox_id = g.outbox_id;
    held := baton_internal.held_events(outbox, g, fail_events.consumer_id, fail_events.lease_token);
    failed := array(select h from unnest(held) h where h.id = any (ids) order by h.id);
    perform baton_internal.check_held(g, fail_events.consumer_id, ids, held);
    already := array(select i from unnest(ids) i where not exists (select from unnest(failed) f where f.id = i));

    followers := array(  -- a dead letter holds its key only where the group's policy says so
        select h from unnest(held) h
         where g.ordered and h.key is not null and h.id <> all (ids)
           and exists (select from unnest(failed) f where f.key = h.key and f.id < h.id
                          and (g.on_poison <> 'park' or not (permanent or f.attempt >= g.max_attempts))));
    perform baton_internal.park(outbox, g, array(select f.id from unnest(failed) f order by f.id),
                       array(select f.key from unnest(failed) f order by f.id),
                       array(select f.attempt from unnest(failed) f order by f.id), fail_events.error, permanent);
    insert into baton_internal.parked as q (group_id, id, state, key, attempt, due_at)
    select g.group_id, f.id, 'blocked', f.key, f.attempt - 1, clock_timestamp() from unnest(followers) f
    on conflict (group_id, id) do update
       set state = 'blocked', attempt = excluded.attempt, lease_token = null, consumer_id = null, leased_until = null;
    perform baton_internal.unblock_keys(g, array(select f.key from unnest(failed) f where f.parked));
    perform baton_internal.trim_pieces(outbox, g, fail_events.consumer_id, fail_events.lease_token,
                              array(select f.id from unnest(failed || followers) f where not f.parked));
    return query
        select q.id, q.state, q.attempt, q.due_at from baton_internal.parked q
         where q.group_id = g.group_id
           and (q.id = any (already || array(select f.id from unnest(failed || followers) f))
                or g.ordered and exists (select from baton_internal.parked r where r.group_id = g.group_id and r.id = any (already)
                                            and r.key = q.key and r.id < q.id))
         order by q.id;
end
$$;
comment on function baton.fail_events(text, text, bigint[], text, boolean, uuid, interval) is 'parks events that a consumer could not handle';

-- Return a lease's unsettled events to the group at once, for a consumer that stops in good order.
create function baton.release_lease(group_name text, consumer_id text, lease_token uuid default null)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    g baton.consumer_groups := baton_internal.find_group(group_name);
begin
    perform baton_internal.lock_position(g.group_id);
    update baton_internal.pieces p set lease_token = null, consumer_id = null, leased_until = null
     where p.group_id = g.group_id and p.piece_id >= (baton_internal.position_of(g.group_id)).first_piece
       and p.piece_id = any (array(select h.piece_id from baton_internal.held_pieces(g, release_lease.consumer_id, release_lease.lease_token) h));
    update baton_internal.parked p set lease_token = null, consumer_id = null, leased_until = null, attempt = p.attempt - 1  -- that was no attempt
     where p.parked_id in (select h.parked_id from baton_internal.held_parked(g, release_lease.consumer_id, release_lease.lease_token) h);
end
$$;
comment on function baton.release_lease(text, text, uuid) is 'gives back what a consumer holds';

-- Extend a lease; returns the new deadline, or the current time when there is none. Without a token the lease is the one that the consumer took
-- last: an older one may be what it had in its hands when it died, and must run out. A lease that others have been given meanwhile is
-- lost, hence the lock.
create function baton.extend_lease(group_name text, consumer_id text, extension_seconds int default 30, lease_token uuid default null)
returns timestamptz
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    g baton.consumer_groups := baton_internal.find_group(group_name);
    lease uuid := lease_token;
    deadline timestamptz;
    extended boolean;
begin
    perform baton_internal.check_consumer(consumer_id);
    if coalesce(extension_seconds, 0) < 1 then
        raise exception 'extension_seconds must be at least 1' using errcode = 'invalid_parameter_value';
    end if;
    perform baton_internal.lock_position(g.group_id);
    if lease is null then
        select h.lease_token into lease from (
            select p.lease_token, p.leased_at from baton_internal.held_pieces(g, extend_lease.consumer_id, null) p
            union all
            select p.lease_token, p.leased_at from baton_internal.held_parked(g, extend_lease.consumer_id, null) p) h
         order by h.leased_at desc limit 1;
    end if;
    deadline := clock_timestamp() + make_interval(secs => extension_seconds);
    update baton_internal.pieces p set leased_until = deadline
     where p.group_id = g.group_id and p.piece_id >= (baton_internal.position_of(g.group_id)).first_piece
       and p.consumer_id = extend_lease.consumer_id and p.lease_token = lease;
    extended := found;
    update baton_internal.parked p set leased_until = deadline
     where p.group_id = g.group_id and p.consumer_id = extend_lease.consumer_id and p.lease_token = lease;
    extended := extended or found;
    if not extended and lease_token is not null then
        perform baton_internal.raise_lease_lost(group_name, consumer_id);
    end if;
    return case when extended then deadline else clock_timestamp() end;
end
$$;
comment on function baton.extend_lease(text, text, int, uuid) is 'extends a lease of a consumer';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}',
    '{commit_offset,commit_events,fail_events,release_lease,extend_lease}');
