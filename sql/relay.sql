-- A relay works a group alone: it owns it for a while and keeps the position in its memory.
--
-- Every take-over raises owner_epoch. Whatever an owner writes names its epoch and is refused with BT001 when that is not the
-- current one, in the transaction that writes: an owner that slept through its lease cannot move the position.
-- What an owner had read and not settled is read again by the next one, from the position that was written last.

-- What a relay gets to know when it takes a group. Without an epoch the group is somebody else's for now.
create type baton_internal.group_lease as (
    epoch         bigint,
    held_by       text,         -- who has it, when there is no epoch
    held_until    timestamptz,
    group_id      int,
    relation      text,
    payload_type  text,
    ordered       boolean,
    on_poison     text,
    era           int,
    seen          pg_snapshot,
    fresh_id      bigint,       -- what the position knows of ids, see baton_internal.group_positions
    fresh_xid     xid8,
    late_id       bigint,
    window_number bigint,
    open_window   baton_internal.windows,  -- null when none is open
    after_id      bigint,
    parked_upto   bigint,         -- highest id that is parked: events up to there may be parked already
    late_sql      text,           -- statements for reading, see baton_internal.read_statement()
    fresh_sql     text,
    open_sql      text            -- see baton_internal.open_statement()
);
comment on type baton_internal.group_lease is 'a group in the hands of a relay: its epoch, position and how to read it';

-- The select list of an event `e` as the relay reads it: every column in its own type.
create function baton_internal.relay_columns()
returns text
language sql immutable
as $$
    select 'e.id, e.event_id, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type, e.schema_version, e.topic, e.partition_key, '
           'e.payload, e.headers, e.trace_id, e.correlation_id, e.causation_id, e.occurred_at, e.available_at'
$$;
comment on function baton_internal.relay_columns() is 'select list of an event for the relay';

-- How many bytes payload and headers of an event `e` have when they are sent, as an expression. Only text and bytea know that without
-- being unpacked.
create function baton_internal.event_size(payload_type text)
returns text
language sql immutable
as $$
    select format('(coalesce(octet_length(e.payload%s), 0) + coalesce(octet_length(e.headers::text), 0))',
                  case when payload_type not in ('text', 'bytea') then '::text' end)
$$;
comment on function baton_internal.event_size(text) is 'expression for the bytes of an event''s payload and headers';

-- The select list of an event where payload and headers come only on a condition; the size stands in a last column otherwise.
create function baton_internal.columns_where(condition text, size text)
returns text
language sql immutable
as $$
    select replace(replace(baton_internal.relay_columns(), 'e.payload,', format('case when %s then e.payload end,', condition)),
                   'e.headers,', format('case when %s then e.headers end,', condition))
           || format(', case when not %s then %s end', condition, size)
$$;
comment on function baton_internal.columns_where(text, text) is 'select list of an event for the relay, without what is large';

-- The same for reading a window: what is stored in more than 8 kB or compressed is left out, so that one row is small whatever it
-- unpacks to. How many rows fit into the relay's memory is not known before they are read; so they come without what
-- is large, and the relay fetches that as far as it has room.
create function baton_internal.window_columns(payload_type text)
returns text
language sql immutable
as $$
    select baton_internal.columns_where(
        '(coalesce(pg_column_size(e.payload) <= 8192, true) and pg_column_compression(e.payload) is null '
        'and coalesce(pg_column_size(e.headers) <= 8192, true) and pg_column_compression(e.headers) is null)',
        baton_internal.event_size(payload_type))
$$;
comment on function baton_internal.window_columns(text) is 'select list of an event in a window for the relay, without large payloads';

-- The statement with which a relay opens the next window of the current era, prepared once: $1 group, $2 window number, $3 era, $4 seen, and what
-- the position knows of ids: $5 fresh_id, $6 fresh_xid, $7 late_id. It does what baton_internal.open_window() does, under one snapshot: its own.
-- `unsure` says that this was not the place to ask: ask baton_internal.open_group_window(). So with strays, and in the first window of an era.
-- Ids are compared with $7 itself: by a parameter the server leaves out old partitions before it looks into any.
create function baton_internal.open_statement(outbox baton.outboxes)
returns text
language sql stable
as $$
    select format($sql$
        with now as materialized (
            select pg_current_snapshot() as sight, pg_current_wal_insert_lsn() as lsn, pg_snapshot_xmax($4)::text::bigint as from_xid,
                   pg_current_xact_id_if_assigned() is not null or $6::xid8 is null or $6::text::bigint - pg_snapshot_xmax($4)::text::bigint > 1000
                   or exists (select from baton_internal.outbox_eras e where e.outbox_id = %2$s and (e.era > $3 or e.era < $3 and e.last_id > $7::bigint))
                   or exists (select from baton_internal.stray_events s where s.outbox_id = %2$s and s.xid >= pg_snapshot_xmin($4)
                                 and not pg_visible_in_snapshot(s.xid, $4)) as unsure
        ), bound as materialized (
            select least(greatest($5::bigint, $7) + 1, min(one.id)) as first_id
              from generate_series((select from_xid from now), (select case when unsure then from_xid else $6::text::bigint end - 1 from now)) x
             cross join lateral (select t.id from %1$s t where (t.xid, t.id) > (x::text::xid8, $7) and (t.xid, t.id) < (x::text::xid8, 9223372036854775807)
                                    and t.id > $7 order by t.xid, t.id limit 1) one
             where pg_visible_in_snapshot(x::text::xid8, (select sight from now))
        ), fresh as materialized (
            select case when exists (
                       select from now n cross join lateral baton_internal.ended_xids($4, n.sight) r
                        cross join lateral (select from %1$s t where (t.xid, t.id) > (r.after_xid, 9223372036854775807) and (t.xid, t.id) < (r.before_xid, 0)
                                               and t.id > $7 order by t.xid, t.id limit 1) one)
                   then (select first_id from bound) end as first_id
        ), late as materialized (
            select coalesce(array_agg(r.xid), '{}') as xids, min(one.id) as first_id
              from (select x from pg_snapshot_xip($4) x where pg_visible_in_snapshot(x, (select sight from now)) offset 0) r (xid)
             cross join lateral (select t.id from %1$s t where (t.xid, t.id) > (r.xid, $7)
                                    and (t.xid, t.id) < (r.xid, coalesce((select first_id from fresh), 9223372036854775807))
                                    and t.id > $7 order by t.xid, t.id limit 1) one
        )
        select case when not n.unsure and (f.first_id is not null or l.xids <> '{}')
                    then ($1::int, $2::bigint, $3::int, $4::pg_snapshot, n.sight, n.lsn, l.xids, f.first_id, null, least(f.first_id, l.first_id),
                          greatest($7, case when $6 <= pg_snapshot_xmin(n.sight) then $5 end))::baton_internal.windows
               end as opened,
               pg_current_wal_flush_lsn() >= n.lsn
               and not exists (select from baton.settings s where s.name = 'outbox_publish_after_standbys' and s.value <> '0') as flushed, n.unsure
          from now n, fresh f, late l$sql$, outbox.relation, outbox.outbox_id)
$$;
comment on function baton_internal.open_statement(baton.outboxes) is 'text of the statement that opens a window for a relay';

-- Find or make the group of a pipeline. One that exists keeps its position and gets the pipeline's policy.
create function baton_internal.prepare_group(
    name         text,
    outbox       text,
    start        text     default 'earliest',
    max_attempts int      default 10,
    retry_base   interval default '1 second',
    retry_limit  interval default '5 minutes',
    on_poison    text     default 'park')
returns int
language sql
as $$
    select baton_internal.fit_group(baton_internal.resolve_table(outbox), jsonb_build_object(
        'group_name', name, 'auto_offset_reset', start, 'max_attempts', max_attempts, 'retry_base', retry_base,
        'retry_limit', retry_limit, 'on_poison', on_poison))
$$;
comment on function baton_internal.prepare_group(text, text, text, int, interval, interval, text)
    is 'finds or makes the group of a pipeline and gives it the pipeline''s policy';

-- Make the group, or change its policy where it differs.
create function baton_internal.fit_group(relation regclass, options jsonb)
returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.outboxes := baton_internal.find_outbox(relation);
    wanted baton.consumer_groups;
    existing baton.consumer_groups;
begin
    perform baton_internal.check_group_options(options);
    select * into existing from baton.consumer_groups g where g.group_name = options ->> 'group_name';
    if not found then
        return baton_internal.make_group(relation, options);
    end if;
    perform baton_internal.check_tenant(outbox.tenancy, existing.tenant_id);
    if existing.outbox_id <> outbox.outbox_id then
        raise exception 'consumer group "%" reads another outbox than %', existing.group_name, relation
            using errcode = 'duplicate_object', hint = 'give the pipeline''s source another group';
    end if;
    wanted := jsonb_populate_record(existing, options - 'auto_offset_reset' - 'group_name');
    if wanted is distinct from existing then
        perform baton_internal.lock_position(existing.group_id);
        update baton.consumer_groups g
           set max_attempts = wanted.max_attempts, retry_base = wanted.retry_base, retry_limit = wanted.retry_limit,
               on_poison = wanted.on_poison
         where g.group_id = existing.group_id;
        -- what waited behind a dead letter that holds its key no more
        perform baton_internal.unblock_keys(wanted, array(select distinct p.key from baton_internal.parked p
                                                           where p.group_id = existing.group_id and p.state = 'blocked'));
    end if;
    return existing.group_id;
end
$$;
comment on function baton_internal.fit_group(regclass, jsonb) is 'makes or changes a group; called by prepare_group()';

-- Who has the group now, other than that relay; null when it is free to take.
create function baton_internal.group_holder(at baton_internal.group_positions, new_owner text)
returns table (holder text, until timestamptz)
language sql volatile
as $$
    select h.holder, h.until from (
        select at.owner as holder, at.owned_until as until where at.owner <> new_owner
        union all
        select p.consumer_id, p.leased_until from baton_internal.pieces p where p.group_id = at.group_id and p.lease_token is not null
        union all
        select p.consumer_id, p.leased_until from baton_internal.parked p
         where p.group_id = at.group_id and p.lease_token is not null and p.consumer_id is distinct from at.owner
           and p.consumer_id <> new_owner) h
     where h.until > clock_timestamp() order by h.until desc limit 1
$$;
comment on function baton_internal.group_holder(baton_internal.group_positions, text) is 'the relay or consumer that holds a group';

-- Put the position back to the oldest piece that nobody settled, so that a single reader can go on from there.
create function baton_internal.absorb_pieces(at baton_internal.group_positions)
returns baton_internal.group_positions
language plpgsql
as $$
declare
    oldest baton_internal.pieces;
    w baton_internal.windows;
begin
    select * into oldest from baton_internal.pieces p where p.group_id = at.group_id order by p.window_number, p.after_id limit 1;
    if found then
        select * into w from baton_internal.windows x where x.group_id = at.group_id and x.window_number = oldest.window_number;
        at.era := w.era;
        at.seen := w.seen;
        at.window_number := w.window_number;
        at.window_open := true;
        at.after_id := oldest.after_id;
        delete from baton_internal.pieces p where p.group_id = at.group_id;
    end if;
    delete from baton_internal.windows x
     where x.group_id = at.group_id and (x.window_number <> at.window_number or not at.window_open);
    return at;
end
$$;
comment on function baton_internal.absorb_pieces(baton_internal.group_positions) is 'turns outstanding pieces into one position before them';

-- Take a group for a relay when it is free, its lease ran out, or it is the relay's own. Raises the epoch.
create function baton_internal.take_group(group_name text, owner text, lease interval default '15 seconds')
returns baton_internal.group_lease
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    g baton.consumer_groups := baton_internal.find_group(group_name);
    outbox baton.outboxes;
    at baton_internal.group_positions;
    taken baton_internal.group_lease;
begin
    perform baton_internal.check_consumer(owner);
    if lease is null or lease <= interval '0' then
        raise exception 'a lease needs a duration above zero' using errcode = 'invalid_parameter_value';
    end if;
    perform baton_internal.check_duration('lease', lease);
    select * into outbox from baton.outboxes o where o.outbox_id = g.outbox_id;
    perform baton_internal.verify_era(outbox.relation);
    g := baton_internal.lock_group(g);
    at := baton_internal.position_of(g.group_id);
    select h.holder, h.until into taken.held_by, taken.held_until from baton_internal.group_holder(at, owner) h;
    if taken.held_by is not null then
        return taken;
    end if;
    at := baton_internal.absorb_pieces(at);
    update baton_internal.parked p set lease_token = null, consumer_id = null, leased_until = null
     where p.group_id = g.group_id and p.lease_token is not null;
    at.owner := owner;
    at.owner_epoch := at.owner_epoch + 1;
    at.owned_until := clock_timestamp() + lease;
    at.owner_timeline := baton_internal.current_timeline();
    perform baton_internal.move_position(at);
    taken.epoch := at.owner_epoch;
    taken.held_until := at.owned_until;
    taken.held_by := owner;
    taken.group_id := g.group_id;
    taken.relation := outbox.relation::text;
    taken.payload_type := outbox.payload_type;
    taken.ordered := g.ordered;
    taken.on_poison := g.on_poison;
    taken.era := at.era;
    taken.seen := at.seen;
    taken.fresh_id := at.fresh_id;
    taken.fresh_xid := at.fresh_xid;
    taken.late_id := at.late_id;
    taken.window_number := at.window_number;
    taken.after_id := at.after_id;
    if at.window_open then
        taken.open_window := baton_internal.load_window(outbox, g.group_id, at.window_number);
    end if;
    select max(p.id) into taken.parked_upto from baton_internal.parked p where p.group_id = g.group_id;
    taken.late_sql := baton_internal.read_statement(outbox.relation, 'late', baton_internal.window_columns(outbox.payload_type), g.tenant_id);
    taken.open_sql := baton_internal.open_statement(outbox);
    taken.fresh_sql := baton_internal.read_statement(outbox.relation, 'fresh', baton_internal.window_columns(outbox.payload_type), g.tenant_id);
    return taken;
end
$$;
comment on function baton_internal.take_group(text, text, interval) is 'gives a group to a relay alone, with a new epoch';

-- Lock the position and refuse an owner whose epoch is over. An owner behind a pooler may not have noticed that the server was replaced by
-- a standby: what such an owner remembers of the position can lie ahead of what the standby had.
create function baton_internal.check_owner(group_id int, epoch bigint)
returns baton_internal.group_positions
language plpgsql
as $$
declare
    at constant baton_internal.group_positions := baton_internal.lock_position(group_id);
begin
    if at.owner is null or at.owner_epoch <> epoch or at.owner_timeline <> baton_internal.current_timeline() then
        raise exception 'the relay has lost the consumer group'
            using errcode = 'BT001',
                  detail = format('epoch %s is over, the group is %s', epoch,
                                  case when at.group_id is null then 'gone' when at.owner is null then 'free'
                                       when at.owner_epoch = epoch then 'on a promoted server'
                                       else format('worked by "%s" in epoch %s', at.owner, at.owner_epoch) end),
                  hint = 'take it again with baton_internal.take_group()';
    end if;
    return at;
end
$$;
comment on function baton_internal.check_owner(int, bigint) is 'raises BT001 unless the epoch is the current one';

-- Keep a group longer. Says whether parked events hold back keys, and in how many seconds the next parked event is due.
create function baton_internal.renew_group(group_id int, epoch bigint, lease interval default '15 seconds',
                                  out blocking boolean, out due_in double precision)
returns record
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    at baton_internal.group_positions := baton_internal.check_owner(group_id, epoch);
    g baton.consumer_groups;
begin
    perform set_config('synchronous_commit', 'off', true);
    at.owned_until := clock_timestamp() + lease;
    perform baton_internal.move_position(at);
    select * into g from baton.consumer_groups c where c.group_id = at.group_id;
    blocking := exists (select from baton_internal.parked p where p.group_id = at.group_id and baton_internal.blocks_key(g, p.state));
    select extract(epoch from min(p.due_at) - clock_timestamp()) into due_in from baton_internal.parked p
     where p.group_id = at.group_id and p.state in ('scheduled', 'retry') and p.lease_token is null;
end
$$;
comment on function baton_internal.renew_group(int, bigint, interval) is 'extends a relay''s ownership of a group';

-- Give a group back, so that another relay or consumer need not wait for the lease to end.
create function baton_internal.release_group(group_id int, epoch bigint)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    at baton_internal.group_positions := baton_internal.check_owner(group_id, epoch);
begin
    update baton_internal.parked p set lease_token = null, consumer_id = null, leased_until = null
     where p.group_id = at.group_id and p.lease_token is not null;
    at.owner := null;
    at.owned_until := null;
    perform baton_internal.move_position(at);
end
$$;
comment on function baton_internal.release_group(int, bigint) is 'ends a relay''s ownership of a group';

-- Open the window after a position; null when there is nothing. Reads only. An era that is exhausted is left for the next one.
create function baton_internal.open_group_window(group_id int, window_number bigint, era int, seen pg_snapshot, fresh_id bigint default null,
                                                 fresh_xid xid8 default null, late_id bigint default 0, out opened baton_internal.windows, out flushed boolean)
returns record
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.outboxes;
    at baton_internal.group_positions;
begin
    select o.* into outbox from baton.outboxes o join baton.consumer_groups g using (outbox_id)
     where g.group_id = open_group_window.group_id;
    at.group_id := open_group_window.group_id;
    at.window_number := open_group_window.window_number - 1;
    at.era := open_group_window.era;
    at.seen := open_group_window.seen;
    at.fresh_id := open_group_window.fresh_id;
    at.fresh_xid := open_group_window.fresh_xid;
    at.late_id := open_group_window.late_id;
    at.after_id := 0;  -- the relay knows whether its floor is near
    loop
        opened := baton_internal.open_window(outbox, at);
        exit when not (opened is null)
               or not exists (select from baton_internal.outbox_eras x where x.outbox_id = outbox.outbox_id and x.era > at.era);
        at := baton_internal.next_era(at);
    end loop;
    flushed := opened is null or pg_current_wal_flush_lsn() >= opened.flushed_at and baton.setting('outbox_publish_after_standbys') = '0';
end
$$;
comment on function baton_internal.open_group_window(int, bigint, int, pg_snapshot, bigint, xid8, bigint) is 'the next window of a group for its relay';

-- Take a floor for the relay's next windows, keep it with the position, and raise the mark for the one after. `sight` is what the relay works
-- through. Returns the position's floor. `durable` is for a relay whose connection may outlive a crash, behind a pooler: a floor in its memory
-- must not be one that the crash took back.
create function baton_internal.note_group_floor(group_id int, epoch bigint, sight pg_snapshot, durable boolean, out fresh_id bigint, out fresh_xid xid8)
returns record
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.outboxes;
    ground record;
    at baton_internal.group_positions;
begin
    perform set_config('synchronous_commit', case when durable then 'local' else 'off' end, true);
    select o.* into outbox from baton.outboxes o join baton.consumer_groups g using (outbox_id)
     where g.group_id = note_group_floor.group_id;
    ground := baton_internal.take_floor(outbox.outbox_id);
    at := baton_internal.check_owner(group_id, epoch);
    perform baton_internal.raise_mark(outbox);
    if exists (select from baton_internal.outbox_eras e where e.outbox_id = outbox.outbox_id and e.era > at.era) then
        return;  -- what is stored is of an era that is over
    end if;
    at := baton_internal.keep_floor(at, ground.id, ground.xid, sight);
    if at.fresh_xid = ground.xid then
        perform baton_internal.move_position(at);
    end if;
    fresh_id := at.fresh_id;
    fresh_xid := at.fresh_xid;
end
$$;
comment on function baton_internal.note_group_floor(int, bigint, pg_snapshot, boolean) is 'takes a floor for a relay''s next windows';

-- Write down how far a window is settled. A window is stored only when the relay stops in the middle of it.
-- The commit is not waited for: a position that is lost in a crash means delivering again.
create function baton_internal.checkpoint_group(group_id int, epoch bigint, w baton_internal.windows, after_id bigint, done boolean)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    at baton_internal.group_positions := baton_internal.check_owner(group_id, epoch);
    stored constant boolean := at.window_open and at.window_number = w.window_number;
begin
    perform set_config('synchronous_commit', 'off', true);
    if at.window_open and (done or not stored) then
        delete from baton_internal.windows x where x.group_id = at.group_id and x.window_number = at.window_number;
    end if;
    if not done and not stored then
        insert into baton_internal.windows select w.*;
    end if;
    if done then
        at := baton_internal.after_window(at, w);
    else
        if at.era <> w.era then
            at := baton_internal.next_era(at);
        end if;
        at.era := w.era;
        at.seen := w.seen;
        at.window_number := w.window_number;
        at.window_open := true;
    end if;
    at.after_id := checkpoint_group.after_id;
    perform baton_internal.move_position(at);
end
$$;
comment on function baton_internal.checkpoint_group(int, bigint, baton_internal.windows, bigint, boolean) is 'moves the position of an owned group';

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
    is 'parks events that are not due or whose key is held back; returns all of the ids that are parked';

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

-- The statement with which the owner leases and reads parked events: $1 group, $2 epoch, $3 how many, $4 the most bytes that one may have,
-- $5 the most that they may have together. Behind the columns of an event come its size, when payload and headers were left out, and the
-- attempt. Those without a payload that are not over $4 go back with baton_internal.give_back_parked(); the first one always comes.
create function baton_internal.parked_statement(relation regclass)
returns text
language sql stable
as $$
    select format('select %2$s, e.attempt from (select e.*, sum(case when e.bytes <= $4 then e.bytes else 0 end) over (order by e.id) as upto '
                  'from (select e.*, p.attempt, %3$s::bigint as bytes from baton_internal.lease_group_parked($1, $2, $3) p cross join lateral '
                  '(%1$s) e) e) e order by e.id',
                  baton_internal.parked_event_query(o), baton_internal.columns_where('(e.bytes <= $4 and (e.upto <= $5 or e.upto = e.bytes))', 'e.bytes::int'),
                  baton_internal.event_size(o.payload_type))
      from baton_internal.find_outbox(relation) o
$$;
comment on function baton_internal.parked_statement(regclass) is 'text of the statement that leases and reads parked events';

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
    '{prepare_group,fit_group,take_group,renew_group,release_group,open_group_window,checkpoint_group,set_aside,park_group_events,
      lease_group_parked,settle_group_parked,give_back_parked,parked_statement,relay_columns,read_statement,open_statement,ended_xids,
      note_group_floor}');
