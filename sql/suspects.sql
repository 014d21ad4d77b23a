-- Lost leases. A lease that runs out is lost, and each event that it still held is a suspect: it may have killed its consumer. Suspects are
-- given again in smaller leases, at last one at a time; the rule and why it buries no innocent is in docs/positions.md.

-- How many suspects one lease may hold: a quarter as many after each loss.
create function baton_internal.suspects_share(batch int, lost int)
returns int
language sql immutable
as $$ select greatest(1, batch >> least(2 * lost, 30)) $$;
comment on function baton_internal.suspects_share(int, int) is 'how many suspects one lease may hold';

-- Whether a consumer holds anything.
create function baton_internal.holds_something(g baton.consumer_groups, first_piece bigint, consumer_id text)
returns boolean
language plpgsql stable
as $$
begin
    return exists (select from baton_internal.parked p where p.group_id = g.group_id and p.consumer_id = holds_something.consumer_id and p.lease_token is not null)
        or exists (select from baton_internal.pieces p where p.group_id = g.group_id and p.piece_id >= holds_something.first_piece
                      and p.consumer_id = holds_something.consumer_id and p.lease_token is not null);
end
$$;
comment on function baton_internal.holds_something(baton.consumer_groups, bigint, text) is 'true when a consumer has a lease';

-- Whether a consumer has a suspect in hand at its last attempt. It gets nothing else until that is settled or lost.
create function baton_internal.has_last_chance(g baton.consumer_groups, consumer_id text)
returns boolean
language plpgsql stable
as $$
begin
    return exists (select from baton_internal.parked p where p.group_id = g.group_id and p.consumer_id = has_last_chance.consumer_id
                      and p.lease_token is not null and p.lost > 0 and p.attempt >= g.max_attempts);
end
$$;
comment on function baton_internal.has_last_chance(baton.consumer_groups, text) is 'true when a consumer tries a suspect for the last time';

-- Parked suspects that can go now, in delivery order: of a key those with nothing but such before them, and none after one that goes alone.
create function baton_internal.next_suspects(g baton.consumer_groups, moment timestamptz, batch int)
returns setof baton_internal.parked
language sql stable
as $$
    select p.*
      from baton_internal.parked p
     where p.group_id = g.group_id and p.lost > 0 and p.lease_token is null and p.state <> 'dead' and baton_internal.is_free(g, p, moment, false)
       and not (p.state <> 'scheduled' and exists (
               select from baton_internal.parked q where q.group_id = g.group_id and q.key = p.key and q.id < p.id and baton_internal.blocks_key(g, q.state)
                  and not (q.lost > 0 and q.attempt + 1 < g.max_attempts and baton_internal.is_free(g, q, moment, false))))
     order by p.id limit batch
$$;
comment on function baton_internal.next_suspects(baton.consumer_groups, timestamptz, int) is 'parked suspects that can go now';

-- Lease parked suspects, and nothing with them. One that has its last chance goes alone, to a consumer with nothing else in hand: `wait` says
-- that there is one and that this consumer must settle first.
create function baton_internal.lease_suspects(g baton.consumer_groups, first_piece bigint, consumer_id text, token uuid, moment timestamptz,
                                     until timestamptz, batch int, out gave int, out wait boolean)
language plpgsql
as $$
declare
    head baton_internal.parked;
    last_chance boolean;
begin
    gave := 0;
    wait := false;
    select * into head from baton_internal.next_suspects(g, moment, 1);
    if head.parked_id is null then
        return;
    end if;
    last_chance := head.attempt + 1 >= g.max_attempts;
    if last_chance and baton_internal.holds_something(g, first_piece, consumer_id) then
        wait := true;
        return;
    end if;
    update baton_internal.parked p
       set lease_token = token, consumer_id = lease_suspects.consumer_id, leased_at = moment, leased_until = until, attempt = p.attempt + 1
     where p.parked_id in (
           select s.parked_id
             from baton_internal.next_suspects(g, moment, case when last_chance then 1 else baton_internal.suspects_share(batch, head.lost) end) s
            where last_chance or s.attempt + 1 < g.max_attempts);
    get diagnostics gave = row_count;
end
$$;
comment on function baton_internal.lease_suspects(baton.consumer_groups, bigint, text, uuid, timestamptz, timestamptz, int) is 'leases parked suspects';

-- Park the events of a piece one by one: each has one attempt left, and makes it alone.
create function baton_internal.isolate_piece(outbox baton.outboxes, g baton.consumer_groups, p baton_internal.pieces, moment timestamptz)
returns void
language plpgsql
as $$
begin
    insert into baton_internal.parked (group_id, id, state, key, attempt, lost, due_at)
    select g.group_id, e.id,
           case when g.ordered and e.key is not null
                 and (e.place > 1 or exists (select from baton_internal.parked q where q.group_id = g.group_id and q.key = e.key and q.id < e.id
                                                and baton_internal.blocks_key(g, q.state)))
                then 'blocked' else 'retry' end, e.key, p.attempt - 1, p.attempt - 1, moment
      from (select x.id, x.key, row_number() over (partition by x.key order by x.id) as place
              from baton_internal.piece_events(outbox, g, p) x) e;
    delete from baton_internal.pieces q where q.group_id = g.group_id and q.piece_id = p.piece_id;
end
$$;
comment on function baton_internal.isolate_piece(baton.outboxes, baton.consumer_groups, baton_internal.pieces, timestamptz) is 'parks each event of a piece by itself';

-- Make dead letters of parked suspects that nobody survived.
create function baton_internal.bury(outbox baton.outboxes, g baton.consumer_groups, poison bigint[])
returns void
language plpgsql
as $$
declare
    ids bigint[];
    keys text[];
    attempts int[];
begin
    select array_agg(p.id order by p.id), array_agg(p.key order by p.id), array_agg(p.attempt order by p.id) into ids, keys, attempts
      from baton_internal.parked p where p.parked_id = any (poison);
    if ids is not null then
        perform baton_internal.park(outbox, g, ids, keys, attempts,
                           'the lease ran out at the last attempt, and its consumer had nothing but this event in hand', true);
        perform baton_internal.unblock_keys(g, keys);
    end if;
end
$$;
comment on function baton_internal.bury(baton.outboxes, baton.consumer_groups, bigint[]) is 'makes dead letters of events that killed their consumers';

-- End the leases of a group that ran out, each as a whole, hence by one moment: whoever comes too late can settle nothing of it, neither
-- what others have been given meanwhile nor the rest. The caller has locked the group.
create function baton_internal.end_leases(outbox baton.outboxes, g baton.consumer_groups, first_piece bigint, moment timestamptz)
returns void
language plpgsql
as $$
declare
    ended constant uuid[] := array(
        select p.lease_token from baton_internal.pieces p where p.group_id = g.group_id and p.piece_id >= first_piece and p.leased_until < moment
        union
        select p.lease_token from baton_internal.parked p where p.group_id = g.group_id and p.lease_token is not null and p.leased_until < moment);
    poison bigint[];
    p baton_internal.pieces;
begin
    if ended = '{}' then
        return;
    end if;
    poison := array(  -- its consumer had nothing else in hand
        select x.parked_id from baton_internal.parked x
         where x.group_id = g.group_id and x.lease_token = any (ended) and x.attempt >= g.max_attempts
           and not exists (select from baton_internal.parked q where q.group_id = g.group_id and q.consumer_id = x.consumer_id
                              and q.lease_token is not null and q.parked_id <> x.parked_id)
           and not exists (select from baton_internal.pieces q where q.group_id = g.group_id and q.piece_id >= first_piece
                              and q.consumer_id = x.consumer_id and q.lease_token is not null));
    update baton_internal.parked x
       set lease_token = null, consumer_id = null, leased_until = null, lost = x.lost + 1,
           failures = case when x.parked_id = any (poison) then x.failures  -- bury() notes that one
                           else baton_internal.add_failure(x.failures, x.attempt, format('the lease of consumer "%s" ran out', x.consumer_id), clock_timestamp()) end
     where x.group_id = g.group_id and x.lease_token = any (ended);
    update baton_internal.consumers c set last_token = null  -- what of it is not held any more may be settled by others now
     where c.group_id = g.group_id and c.last_token = any (ended);
    for p in update baton_internal.pieces x set lease_token = null, consumer_id = null, leased_until = null, attempt = x.attempt + 1
              where x.group_id = g.group_id and x.piece_id >= first_piece and x.lease_token = any (ended)
             returning x.* loop
        if p.attempt >= g.max_attempts then
            perform baton_internal.isolate_piece(outbox, g, p, moment);
        end if;
    end loop;
    perform baton_internal.bury(outbox, g, poison);
end
$$;
comment on function baton_internal.end_leases(baton.outboxes, baton.consumer_groups, bigint, timestamptz) is 'ends leases whose time is over';
