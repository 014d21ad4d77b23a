-- Parking: an event that cannot go now steps aside and the group moves on.
--
--   scheduled -> (due) -> leased -> settled          retry -> (due) -> leased -> settled | retry | dead
--   blocked   -> retry, when no earlier event of its key is parked any more
--   dead      -> retry by replay_dead_letters(), gone by discard_dead_letters()

-- How long to wait before the next attempt: doubling, capped, with a fifth of jitter.
create function baton_internal.retry_delay(retry_base interval, retry_limit interval, attempt int)
returns interval
language sql volatile
as $$
    select least(extract(epoch from retry_base)::float8 * 2 ^ least(attempt - 1, 30), extract(epoch from retry_limit)::float8)
           * (0.8 + 0.4 * random()) * interval '1 second'
$$;
comment on function baton_internal.retry_delay(interval, interval, int) is 'delay before the next attempt';

-- What went wrong before, and one failed attempt more: the latest ten are kept.
create function baton_internal.add_failure(failures jsonb, attempt int, error text, moment timestamptz)
returns jsonb
language sql stable
as $$
    select case when jsonb_array_length(failures) >= 10 then failures - 0 else coalesce(failures, '[]') end
           || jsonb_build_object('at', moment, 'attempt', attempt, 'error', left(error, 1000))
$$;
comment on function baton_internal.add_failure(jsonb, int, text, timestamptz) is 'the failed attempts of an event, with one more';

-- An event `e` of the log as JSON, as an expression. A payload that is missing has no member there: a member null is JSON's own null.
create function baton_internal.event_as_json()
returns text
language sql immutable
as $$ select $e$to_jsonb(e) - case when e.payload is null then '{xid,payload}'::text[] else '{xid}' end$e$ $$;
comment on function baton_internal.event_as_json() is 'expression for an event as JSON, as a parked event is kept';

-- Copy an event out of the log, so that the log need not keep it. Null for one that jsonb has no place for, which the door refuses and which came
-- by another way: the log keeps that one.
create function baton_internal.copy_event(outbox baton.outboxes, id bigint)
returns jsonb
language plpgsql stable
as $$
declare
    copy jsonb;
begin
    execute format('select %s from %s e where id = $1', baton_internal.event_as_json(), outbox.relation) into copy using id;
    return copy;
exception when data_exception or program_limit_exceeded or internal_error then
    return null;
end
$$;
comment on function baton_internal.copy_event(baton.outboxes, bigint) is 'an event of the log as JSON; null when the event does not fit into JSON';

-- The same without the payload.
create function baton_internal.copy_without_payload(outbox baton.outboxes, id bigint)
returns jsonb
language plpgsql stable
as $$
declare
    copy jsonb;
begin
    execute format('select to_jsonb(e) from (select %s from %s e where e.id = $1) e',
                   replace(baton_internal.relay_columns(), 'e.payload, ', ''), outbox.relation) into copy using id;
    return copy;
end
$$;
comment on function baton_internal.copy_without_payload(baton.outboxes, bigint) is 'an event of the log as JSON, without its payload';

-- Whether a parked event stops later ones of its key.
create function baton_internal.blocks_key(g baton.consumer_groups, state text)
returns boolean
language sql immutable
as $$ select g.ordered and (state in ('retry', 'blocked') or state = 'dead' and g.on_poison <> 'park') $$;
comment on function baton_internal.blocks_key(baton.consumer_groups, text) is 'true when a parked event holds back its key';

-- Park events that a consumer failed; the last attempt, or a permanent error, makes them dead.
create function baton_internal.park(outbox baton.outboxes, g baton.consumer_groups, ids bigint[], keys text[], attempts int[],
                           error text, permanent boolean)
returns void
language plpgsql
as $$
begin
    insert into baton_internal.parked as p (group_id, id, state, key, attempt, due_at, error, failures, event)
    select g.group_id, f.id, case when f.dead then 'dead' when f.place > 1 then 'blocked' else 'retry' end, f.key, f.attempt,
           clock_timestamp() + baton_internal.retry_delay(g.retry_base, g.retry_limit, f.attempt), park.error,
           baton_internal.add_failure(null, f.attempt, park.error, clock_timestamp()),
           case when f.dead then baton_internal.copy_event(outbox, f.id) end
      from (select u.id, u.key, u.attempt, permanent or u.attempt >= g.max_attempts as dead,
                   case when g.ordered and u.key is not null
                        then row_number() over (partition by u.key, permanent or u.attempt >= g.max_attempts order by u.id) else 1 end as place
              from unnest(ids, keys, attempts) as u (id, key, attempt)) f
    on conflict (group_id, id) do update
       set state = excluded.state, attempt = excluded.attempt, due_at = excluded.due_at, error = excluded.error,
           failures = baton_internal.add_failure(p.failures, excluded.attempt, excluded.error, clock_timestamp()),
           event = coalesce(p.event, excluded.event), lost = 0, lease_token = null, consumer_id = null, leased_until = null,
           parked_at = clock_timestamp();
    perform baton_internal.alert('dead_letter', g.group_name, jsonb_build_object('id', p.id, 'error', left(p.error, 500), 'attempt', p.attempt))
       from baton_internal.parked p where p.group_id = g.group_id and p.id = any (ids) and p.state = 'dead';
end
$$;
comment on function baton_internal.park(baton.outboxes, baton.consumer_groups, bigint[], text[], int[], text, boolean)
    is 'parks failed events as retry or dead';

-- Let the first blocked event of each key go when nothing before it holds the key any more.
create function baton_internal.unblock_keys(g baton.consumer_groups, keys text[])
returns void
language sql
as $$
    update baton_internal.parked p
       set state = 'retry', due_at = clock_timestamp()
      from (select distinct k from unnest(keys) k where k is not null) wanted
     cross join lateral (select q.parked_id, q.state from baton_internal.parked q
                          where q.group_id = g.group_id and q.key = wanted.k and baton_internal.blocks_key(g, q.state)
                          order by q.id limit 1) head
     where p.parked_id = head.parked_id and head.state = 'blocked'
$$;
comment on function baton_internal.unblock_keys(baton.consumer_groups, text[]) is 'makes the first blocked event of each key due';

-- Whether an earlier event of a key is in a piece still, leased or waiting: one of the event's own stretch, or of a transaction that drew its ids
-- early and committed late. Pieces wait for no parked event, so that nothing waits in a circle.
create function baton_internal.is_behind_piece(g baton.consumer_groups, key text, id bigint)
returns boolean
language plpgsql stable
as $$
declare
    outbox baton.outboxes;
    p baton_internal.pieces;
begin
    for p in select * from baton_internal.pieces q
              where q.group_id = g.group_id and q.piece_id >= (baton_internal.position_of(g.group_id)).first_piece
                and q.lanes & (1::bigint << baton_internal.lane(is_behind_piece.key, is_behind_piece.id)) <> 0
                and q.after_id < is_behind_piece.id - 1 loop
        if outbox.outbox_id is null then
            select * into outbox from baton.outboxes o where o.outbox_id = g.outbox_id;
        end if;
        p.upto_id := least(p.upto_id, is_behind_piece.id - 1);
        if exists (select from baton_internal.piece_events(outbox, g, p) e where e.key = is_behind_piece.key) then
            return true;
        end if;
    end loop;
    return false;
end
$$;
comment on function baton_internal.is_behind_piece(baton.consumer_groups, text, bigint) is 'true when a piece holds an earlier event of the key';

-- Whether a parked event could go now, were it the first of its key. A suspect cannot go with others, where suspects are heeded.
create function baton_internal.is_free(g baton.consumer_groups, p baton_internal.parked, moment timestamptz, heed_suspects boolean)
returns boolean
language sql stable
as $$
    select p.lease_token is null and (p.state = 'blocked' or p.state in ('scheduled', 'retry') and p.due_at <= moment)
       and (p.lost = 0 or not heed_suspects)
       and not (g.ordered and p.key is not null and p.state <> 'scheduled' and baton_internal.is_behind_piece(g, p.key, p.id))
$$;
comment on function baton_internal.is_free(baton.consumer_groups, baton_internal.parked, timestamptz, boolean) is 'true when a parked event is due, is not leased, and waits for no event in a piece';

-- Parked events that can go, each the first of its key or one whose key does not matter, in order of their time.
create function baton_internal.due_parked(g baton.consumer_groups, moment timestamptz, heed_suspects boolean, batch int)
returns setof baton_internal.parked
language sql stable
as $$
    select p.*
      from baton_internal.parked p
     where p.group_id = g.group_id and p.state in ('scheduled', 'retry') and p.lease_token is null and p.due_at <= moment
       and baton_internal.is_free(g, p, moment, heed_suspects)
       and not (p.state = 'retry' and exists (
               select from baton_internal.parked q where q.group_id = g.group_id and q.key = p.key and q.id < p.id
                  and baton_internal.blocks_key(g, q.state) and not baton_internal.is_free(g, q, moment, heed_suspects)))
     order by p.due_at, p.id limit batch
$$;
comment on function baton_internal.due_parked(baton.consumer_groups, timestamptz, boolean, int) is 'parked events that can go now';

-- Lease parked events that are due. What is parked of a key goes in id order and without a gap: an event that another consumer holds, or
-- that is not due, holds back all that follow it, even when one before it is due. Leases that ran out have been ended before.
-- A relay does not heed suspects: it has no leases on events to lose.
create function baton_internal.lease_parked(g baton.consumer_groups, consumer_id text, token uuid, moment timestamptz, until timestamptz, batch int,
                                   heed_suspects boolean)
returns setof baton_internal.parked
language sql
as $$
    with due as materialized (
        select d.parked_id, d.key, d.state from baton_internal.due_parked(g, moment, heed_suspects, batch) d
    ), line as materialized (
        select f.parked_id
          from (select distinct d.key from due d where d.state = 'retry' and d.key is not null) k
         cross join lateral (
               select l.parked_id, bool_and(l.free) over (order by l.id) as free
                 from (select q.parked_id, q.id, baton_internal.is_free(g, q, moment, heed_suspects) as free
                         from baton_internal.parked q
                        where q.group_id = g.group_id and q.key = k.key and baton_internal.blocks_key(g, q.state)
                        order by q.id limit batch) l) f
         where f.free
    ), chosen as (
        select p.parked_id from baton_internal.parked p
         where p.parked_id in (select d.parked_id from due d where d.state = 'scheduled' or d.key is null or not g.ordered
                               union select l.parked_id from line l)
         order by p.id limit batch for update
    )
    update baton_internal.parked p
       set lease_token = token, consumer_id = lease_parked.consumer_id, leased_at = moment, leased_until = until, attempt = p.attempt + 1
      from chosen where p.parked_id = chosen.parked_id
    returning p.*
$$;
comment on function baton_internal.lease_parked(baton.consumer_groups, text, uuid, timestamptz, timestamptz, int, boolean) is 'leases due parked events';

-- The event of a parked row `p`, as a query: from the copy, or from the log. The server reads a member null as a missing value.
create function baton_internal.parked_event_query(outbox baton.outboxes)
returns text
language sql stable
as $$
    select format('select %2$s from %1$s e where p.event is null and e.id = p.id union all '
                  'select %3$s from jsonb_populate_record(null::%1$s, p.event) e where p.event is not null', outbox.relation, columns,
                  case when outbox.payload_type in ('jsonb', 'json')
                       then replace(columns, 'e.payload,', format($e$case when p.event -> 'payload' = 'null' then 'null'::%s else e.payload end,$e$, outbox.payload_type))
                       else columns end)
      from baton_internal.relay_columns() columns
$$;
comment on function baton_internal.parked_event_query(baton.outboxes) is 'query for the event of a parked row';

-- Read parked events back.
create function baton_internal.parked_events(outbox baton.outboxes, leased baton_internal.parked[])
returns setof baton.polled_event
language plpgsql stable
as $$
begin
    return query execute format($sql$
        select %2$s, p.attempt, p.lease_token
          from unnest($1) p
         cross join lateral (%1$s) e
         order by e.id$sql$, baton_internal.parked_event_query(outbox), baton_internal.event_columns(outbox.payload_type)) using leased;
end
$$;
comment on function baton_internal.parked_events(baton.outboxes, baton_internal.parked[]) is 'parked events as consumers get them';

-- Take events that no consumer can be given out of a lease, as dead letters by their ids, so that the others go on.
create function baton_internal.set_unreadable_aside(outbox baton.outboxes, g baton.consumer_groups, consumer_id text, token uuid)
returns void
language plpgsql
as $$
declare
    e baton_internal.held_event;
    ignored record;
begin
    foreach e in array baton_internal.held_events(outbox, g, consumer_id, token) loop
        begin
            if e.parked then
                perform r.payload from baton_internal.parked_events(outbox, array(
                    select q from baton_internal.held_parked(g, set_unreadable_aside.consumer_id, token) q where q.id = e.id)) r;
            else
                execute format('select %s from %s e where e.id = $1', baton_internal.event_columns(outbox.payload_type), outbox.relation) into ignored using e.id;
            end if;
        exception when data_exception or program_limit_exceeded or internal_error then
            perform baton.fail_events(g.group_name, set_unreadable_aside.consumer_id, array[e.id], 'no consumer can be given this event: ' || sqlerrm, true, token);
        end;
    end loop;
end
$$;
comment on function baton_internal.set_unreadable_aside(baton.outboxes, baton.consumer_groups, text, uuid) is 'makes dead letters of events that cannot be read';
