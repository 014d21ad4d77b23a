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

-- Who has the group now, other than that relay and one that is gone; null when it is free to take.
create function baton_internal.group_holder(at baton_internal.group_positions, new_owner text, gone text)
returns table (holder text, until timestamptz)
language sql volatile
as $$
    select h.holder, h.until from (
        select at.owner as holder, at.owned_until as until where at.owner <> new_owner and at.owner is distinct from gone
        union all
        select p.consumer_id, p.leased_until from baton_internal.pieces p where p.group_id = at.group_id and p.lease_token is not null
        union all
        select p.consumer_id, p.leased_until from baton_internal.parked p
         where p.group_id = at.group_id and p.lease_token is not null and p.consumer_id is distinct from at.owner
           and p.consumer_id <> new_owner) h
     where h.until > clock_timestamp() order by h.until desc limit 1
$$;
comment on function baton_internal.group_holder(baton_internal.group_positions, text, text) is 'the relay or consumer that holds a group';

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

-- Take a group for a relay when it is free, its lease ran out, or it is the relay's own. Raises the epoch. The caller may know that an owner is gone, whose lease
-- counts no more then: a process of the same machine that has ended sends nothing again.
create function baton_internal.take_group(group_name text, owner text, lease interval default '15 seconds', gone text default null)
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
    select h.holder, h.until into taken.held_by, taken.held_until from baton_internal.group_holder(at, owner, gone) h;
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
comment on function baton_internal.take_group(text, text, interval, text) is 'gives a group to a relay alone, with a new epoch';

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

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}',
    '{prepare_group,fit_group,take_group,renew_group,release_group,open_group_window,checkpoint_group,note_group_floor}');
