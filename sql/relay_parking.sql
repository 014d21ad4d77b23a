-- What a relay parks: events that cannot go now, and events that it could not deliver. Only the owner of a group parks, leases and settles.

-- Take aside those of the events just read that cannot go now; returns them and those that are parked already.
create function baton_internal.set_aside(group_id int, epoch bigint, ids bigint[], keys text[], available timestamptz[])
returns bigint[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    at baton_internal.group_positions := baton_internal.check_owner(set_aside.group_id, epoch);
    g baton.consumer_groups;
begin
    perform set_config('synchronous_commit', 'off', true);
    select * into g from baton.consumer_groups c where c.group_id = at.group_id;
    insert into baton_internal.parked (group_id, id, state, key, attempt, due_at)
    select at.group_id, e.id, case when e.available_at > clock_timestamp() then 'scheduled' else 'blocked' end, e.key, 0,
           greatest(e.available_at, clock_timestamp())
      from unnest(ids, keys, available) as e (id, key, available_at)
     where e.available_at > clock_timestamp()
        or g.ordered and e.key is not null
           and exists (select from baton_internal.parked p where p.group_id = at.group_id and p.key = e.key and p.id < e.id
                          and baton_internal.blocks_key(g, p.state))
    on conflict (group_id, id) do nothing;
    return array(select p.id from baton_internal.parked p where p.group_id = at.group_id and p.id = any (ids));
end
$$;
comment on function baton_internal.set_aside(int, bigint, bigint[], text[], timestamptz[])
    is 'parks events that are not due or whose key is held back; returns all ids that are parked';

-- Park what an owner could not deliver: kind is retry, dead, or blocked for later events of a key that is held back.
create function baton_internal.park_group_events(group_id int, epoch bigint, ids bigint[], keys text[], attempts int[], errors text[], kinds text[])
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    at baton_internal.group_positions := baton_internal.check_owner(park_group_events.group_id, epoch);
    g baton.consumer_groups;
    outbox baton.outboxes;
    f record;
begin
    perform set_config('synchronous_commit', 'off', true);
    select * into g from baton.consumer_groups c where c.group_id = at.group_id;
    select * into outbox from baton.outboxes o where o.outbox_id = g.outbox_id;
    for f in
        select x.error, x.kind, array_agg(x.id order by x.id) as ids, array_agg(x.key order by x.id) as keys,
               array_agg(x.attempt order by x.id) as attempts
          from unnest(ids, keys, attempts, errors, kinds) as x (id, key, attempt, error, kind)
         where x.kind <> 'blocked' group by x.error, x.kind
    loop
        perform baton_internal.park(outbox, g, f.ids, f.keys, f.attempts, f.error, f.kind = 'dead');
    end loop;
    insert into baton_internal.parked as p (group_id, id, state, key, attempt, due_at)
    select at.group_id, x.id, 'blocked', x.key, x.attempt - 1, clock_timestamp()
      from unnest(ids, keys, attempts, kinds) as x (id, key, attempt, kind)
     where x.kind = 'blocked'
    on conflict (group_id, id) do update
       set state = 'blocked', attempt = excluded.attempt, lease_token = null, consumer_id = null, leased_until = null;
    perform baton_internal.unblock_keys(g, keys);
end
$$;
comment on function baton_internal.park_group_events(int, bigint, bigint[], text[], int[], text[], text[])
    is 'parks events that a relay could not deliver';

-- Lease due parked events to the owner, in delivery order.
create function baton_internal.lease_group_parked(group_id int, epoch bigint, batch int)
returns setof baton_internal.parked
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    at baton_internal.group_positions := baton_internal.check_owner(group_id, epoch);
    g baton.consumer_groups;
begin
    select * into g from baton.consumer_groups c where c.group_id = at.group_id;
    -- the owner holds them until it settles them or loses the group: take_group() and without_relay() free them
    return query select * from baton_internal.lease_parked(g, at.owner, gen_random_uuid(), clock_timestamp(), 'infinity', batch, false);
end
$$;
comment on function baton_internal.lease_group_parked(int, bigint, int) is 'leases due parked events to the relay that owns the group';

-- Give leased parked events back that there was no room for. They were not delivered, so that is no attempt.
create function baton_internal.give_back_parked(group_id int, epoch bigint, ids bigint[])
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    at baton_internal.group_positions := baton_internal.check_owner(group_id, epoch);
begin
    update baton_internal.parked p
       set lease_token = null, consumer_id = null, leased_until = null, attempt = p.attempt - 1
     where p.group_id = at.group_id and p.id = any (ids) and p.lease_token is not null;
end
$$;
comment on function baton_internal.give_back_parked(int, bigint, bigint[]) is 'ends the lease of parked events without an attempt';

-- Settle parked events that the owner delivered.
create function baton_internal.settle_group_parked(group_id int, epoch bigint, ids bigint[])
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    at baton_internal.group_positions := baton_internal.check_owner(group_id, epoch);
    g baton.consumer_groups;
    keys text[];
begin
    perform set_config('synchronous_commit', 'off', true);
    select * into g from baton.consumer_groups c where c.group_id = at.group_id;
    with settled as (
        delete from baton_internal.parked p where p.group_id = at.group_id and p.id = any (ids) and p.lease_token is not null returning p.key
    )
    select array_agg(s.key) into keys from settled s where s.key is not null;
    perform baton_internal.unblock_keys(g, keys);
end
$$;
comment on function baton_internal.settle_group_parked(int, bigint, bigint[]) is 'removes parked events that were delivered';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}',
    '{set_aside,park_group_events,lease_group_parked,settle_group_parked,give_back_parked}');
