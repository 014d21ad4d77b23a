-- Consumer groups, their positions, and what is under way.
--
-- A position is a snapshot (docs/positions.md). Invariants, each hammered by tests/isolation/outbox_property_test.cpp:
--   1. Every event visible in `seen` was dispatched: settled, parked, or part of a piece.
--   2. Within the open window every event up to after_id was dispatched.
--   3. A piece is a range of ids of one window, cut down to some lanes; pieces of one lane are leased in order, and no two
--      consumers hold one lane at the same time.
--   4. A settled event is in no piece and not parked: an event that is parked out of a piece is one of its holes from then on.
--   5. A lease is held as a whole or lost as a whole. Whoever lost it can neither commit, fail nor extend any of it.
--   6. An event dies of lost leases only when the last of them held this event alone, and its consumer nothing else.

create table baton.consumer_groups (
    group_id          int         generated always as identity primary key,
    group_name        text        not null unique,
    outbox_id         int         not null references baton.outboxes on delete cascade,
    auto_offset_reset text        not null check (auto_offset_reset in ('latest', 'earliest')),
    ordered           boolean     not null,
    tenant_id         text,
    max_attempts      int         not null check (max_attempts > 0),
    retry_base        interval    not null,
    retry_limit       interval    not null,
    on_poison         text        not null check (on_poison in ('park', 'block_key', 'halt')),
    created_at        timestamptz not null default now()
);
comment on table baton.consumer_groups is 'consumer groups and their policies';
create index consumer_groups_outbox on baton.consumer_groups (outbox_id);

create table baton_internal.windows (
    group_id      int         not null references baton.consumer_groups on delete cascade,
    window_number bigint      not null,
    era           int         not null,
    seen          pg_snapshot not null,
    sight         pg_snapshot not null,  -- the window's own snapshot
    flushed_at    pg_lsn      not null,  -- its commits are on disk when the log is flushed up to here
    late          xid8[]      not null,  -- transactions that `seen` saw running and that have events below first_id
    first_id      bigint,                -- no event of a transaction that began after `seen` is below it; null when there are only late ones
    last_id       bigint,                -- end of an era that is over
    start_id      bigint      not null,  -- nothing of the window is below it
    late_id       bigint      not null,  -- what the window does not show has a higher id, apart from strays
    primary key (group_id, window_number)
);
comment on table baton_internal.windows is 'windows that are open or still have pieces under way';

-- One row for each group at any time. It is updated in place and, every so often, replaced by a row of the next generation; the same
-- holds for baton_internal.consumers. Whoever asks for the newest generation finds it at once, even where a long transaction keeps thousands of
-- old versions alive. For that reason, too, first_piece and first_window bound what a poll looks through.
create table baton_internal.group_positions (
    group_id      int         not null references baton.consumer_groups on delete cascade,
    generation    bigint      not null default 0,
    moves         int         not null default 0,  -- updates within the generation
    era           int         not null,
    seen          pg_snapshot not null,
    fresh_id      bigint,                          -- the floor: transactions from fresh_xid on have higher ids only, apart from strays;
    fresh_xid     xid8,                            -- null when there is none
    late_id       bigint      not null default 0,  -- what `seen` does not show has a higher id, apart from strays
    window_number bigint      not null default 0,  -- the open window, or the last one
    window_open   boolean     not null default false,
    after_id      bigint      not null default 0,
    first_piece   bigint      not null default 0,  -- pieces below it are gone
    first_window  bigint      not null default 0,  -- windows below it are gone
    hungry        jsonb       not null default '{}',  -- consumers that found all lanes with work taken, and when
    owner         text,                            -- a relay that works the group alone
    owner_epoch   bigint      not null default 0,
    owned_until   timestamptz,
    owner_timeline int,                            -- where the owner got to know the position
    primary key (group_id, generation)
) with (fillfactor = 40);
comment on table baton_internal.group_positions is 'the position of each group: how far its log was given out';

create table baton_internal.pieces (
    piece_id      bigint      generated always as identity,
    group_id      int         not null references baton.consumer_groups on delete cascade,
    window_number bigint      not null,
    after_id      bigint      not null,
    upto_id       bigint      not null,
    lanes         bigint      not null,  -- one bit per lane
    holes         bigint[]    not null default '{}',  -- ids within it that were parked, and so have gone their own way
    attempt       int         not null,  -- above 1: a lease on it was lost, its events are suspects
    lease_token   uuid,                  -- null while it waits for a taker
    consumer_id   text,
    leased_at     timestamptz,
    leased_until  timestamptz,
    primary key (group_id, piece_id)
);
comment on table baton_internal.pieces is 'stretches of windows that are leased or wait for a consumer';

create table baton_internal.parked (
    parked_id    bigint      generated always as identity primary key,
    group_id     int         not null references baton.consumer_groups on delete cascade,
    id           bigint      not null,
    state        text        not null check (state in ('scheduled', 'retry', 'blocked', 'dead')),
    key          text,
    attempt      int         not null,  -- deliveries made so far
    lost         int         not null default 0,  -- leases lost since a consumer last said something of it: above 0 it is a suspect
    due_at       timestamptz not null,
    error        text,
    failures     jsonb       not null default '[]',  -- the latest attempts that failed: at, attempt, error
    event        jsonb,                 -- a copy, once the log need not keep the row, or the edited event
    parked_at    timestamptz not null default clock_timestamp(),
    lease_token  uuid,
    consumer_id  text,
    leased_at    timestamptz,
    leased_until timestamptz,
    unique (group_id, id)
);
comment on table baton_internal.parked is 'events that cannot go now: scheduled, retry, blocked, dead';
create index parked_due on baton_internal.parked (group_id, due_at) where state in ('scheduled', 'retry') and lease_token is null;
create index parked_key on baton_internal.parked (group_id, key, id) where key is not null;
create index parked_blocking on baton_internal.parked (group_id, key, id) where state in ('retry', 'blocked') and key is not null;
create index parked_dead on baton_internal.parked (group_id, parked_id) where state = 'dead';
create index parked_holder on baton_internal.parked (group_id, consumer_id, lease_token) where lease_token is not null;
create index parked_lease_end on baton_internal.parked (group_id, leased_until) where lease_token is not null;
create index parked_suspects on baton_internal.parked (group_id, id) where lost > 0;

create table baton_internal.consumers (
    group_id          int         not null references baton.consumer_groups on delete cascade,
    consumer_id       text        not null,
    generation        bigint      not null default 0,
    commits           int         not null default 0,  -- within the generation
    registered_at     timestamptz not null default clock_timestamp(),
    last_heartbeat_at timestamptz not null default clock_timestamp(),
    last_poll_at      timestamptz not null default clock_timestamp(),
    last_commit_at    timestamptz,
    last_offset       bigint,
    last_token        uuid,
    unhealthy_since   timestamptz,
    reaped_at         timestamptz,
    primary key (group_id, consumer_id, generation)
) with (fillfactor = 50);
comment on table baton_internal.consumers is 'members of the groups, and when each was last heard of';

-- The position of a group as it is now.
create function baton_internal.position_of(group_id int)
returns baton_internal.group_positions
language plpgsql stable
as $$
declare
    at baton_internal.group_positions;
begin
    select * into at from baton_internal.group_positions p where p.group_id = position_of.group_id order by p.generation desc limit 1;
    return at;
end
$$;
comment on function baton_internal.position_of(int) is 'the position of a group, found quickly among old versions of the row';

-- Lock a group, so that polls, commits and failures of its members come one after the other; returns its position.
create function baton_internal.lock_position(group_id int)
returns baton_internal.group_positions
language plpgsql volatile
as $$
declare
    at baton_internal.group_positions;
begin
    perform from baton.consumer_groups g where g.group_id = lock_position.group_id for no key update;
    at := baton_internal.position_of(group_id);
    if current_setting('transaction_isolation') <> 'read committed' then  -- raises when the snapshot is too old to see the position
        perform from baton_internal.group_positions p where p.group_id = at.group_id and p.generation = at.generation for no key update;
    end if;
    return at;
end
$$;
comment on function baton_internal.lock_position(int) is 'serialises the members of a group';

-- Write a position that the caller has locked.
create function baton_internal.move_position(at baton_internal.group_positions)
returns void
language plpgsql
as $$
begin
    if at.moves < 64 then
        update baton_internal.group_positions p
           set moves = p.moves + 1, era = at.era, seen = at.seen, fresh_id = at.fresh_id, fresh_xid = at.fresh_xid, late_id = at.late_id,
               window_number = at.window_number, window_open = at.window_open,
               after_id = at.after_id, first_piece = at.first_piece, first_window = at.first_window, hungry = at.hungry,
               owner = at.owner, owner_epoch = at.owner_epoch, owned_until = at.owned_until, owner_timeline = at.owner_timeline
         where p.group_id = at.group_id and p.generation = at.generation;
        return;
    end if;
    delete from baton_internal.group_positions p where p.group_id = at.group_id and p.generation = at.generation;
    at.generation := at.generation + 1;
    at.moves := 0;
    insert into baton_internal.group_positions select at.*;
end
$$;
comment on function baton_internal.move_position(baton_internal.group_positions) is 'stores a group''s position';

-- What is known of a consumer; null when it is new.
create function baton_internal.consumer_of(group_id int, consumer_id text)
returns baton_internal.consumers
language plpgsql stable
as $$
declare
    c baton_internal.consumers;
begin
    select * into c from baton_internal.consumers x
     where x.group_id = consumer_of.group_id and x.consumer_id = consumer_of.consumer_id order by x.generation desc limit 1;
    return c;
end
$$;
comment on function baton_internal.consumer_of(int, text) is 'the row of a consumer';

-- Note a commit of a consumer whose group the caller has locked.
create function baton_internal.note_commit(group_id int, consumer_id text, last_offset bigint, token uuid)
returns void
language plpgsql
as $$
declare
    c baton_internal.consumers := baton_internal.consumer_of(group_id, consumer_id);
begin
    if c.commits < 64 then
        update baton_internal.consumers x
           set commits = x.commits + 1, last_commit_at = clock_timestamp(), last_heartbeat_at = clock_timestamp(),
               last_offset = note_commit.last_offset, last_token = token, unhealthy_since = null, reaped_at = null
         where x.group_id = c.group_id and x.consumer_id = c.consumer_id and x.generation = c.generation;
        return;
    end if;
    delete from baton_internal.consumers x where x.group_id = c.group_id and x.consumer_id = c.consumer_id and x.generation = c.generation;
    insert into baton_internal.consumers (group_id, consumer_id, generation, registered_at, last_poll_at, last_commit_at, last_offset, last_token)
    values (note_commit.group_id, note_commit.consumer_id, coalesce(c.generation + 1, 0), coalesce(c.registered_at, clock_timestamp()),
            coalesce(c.last_poll_at, clock_timestamp()), clock_timestamp(), note_commit.last_offset, token);
end
$$;
comment on function baton_internal.note_commit(int, text, bigint, uuid) is 'notes what a consumer settled last';

-- Lock a group and return it as it is now: its policy may have been changed while the caller waited.
create function baton_internal.lock_group(g baton.consumer_groups)
returns baton.consumer_groups
language plpgsql volatile
as $$
declare
    locked baton.consumer_groups;
begin
    select * into locked from baton.consumer_groups c where c.group_id = g.group_id for no key update;
    if not found then
        raise exception 'consumer group "%" was dropped', g.group_name using errcode = 'undefined_object';
    elsif current_setting('transaction_isolation') <> 'read committed' then
        perform baton_internal.lock_position(g.group_id);
    end if;
    return locked;
end
$$;
comment on function baton_internal.lock_group(baton.consumer_groups) is 'serialises the members of a group; returns the group''s policy';

-- Find a group and check that the caller may work it.
create function baton_internal.find_group(name text)
returns baton.consumer_groups
language plpgsql stable
as $$
declare
    found_group baton.consumer_groups;
    tenancy boolean;
begin
    if name is null or name = '' then
        raise exception 'a group name is needed' using errcode = 'invalid_parameter_value';
    end if;
    select * into found_group from baton.consumer_groups g where g.group_name = name;
    if not found then
        raise exception 'there is no consumer group "%"', left(name, 100)
            using errcode = 'undefined_object', hint = 'create it with baton.create_consumer_group(name, outbox)';
    end if;
    select o.tenancy into tenancy from baton.outboxes o where o.outbox_id = found_group.outbox_id;
    perform baton_internal.check_tenant(tenancy, found_group.tenant_id);
    return found_group;
end
$$;
comment on function baton_internal.find_group(text) is 'catalog row of a group, or an error that says what to do';

-- The key whose order is kept: the partition key, else the aggregate's id, else none.
create function baton_internal.event_key(partition_key text, aggregate_id text)
returns text
language sql immutable parallel safe
as $$ select coalesce(partition_key, aggregate_id) $$;
comment on function baton_internal.event_key(text, text) is 'the key whose events keep their order';

-- The lane (0 to 63) of an event; one without key goes anywhere.
create function baton_internal.lane(key text, id bigint)
returns int
language sql immutable parallel safe
as $$ select (coalesce(hashtextextended(key, 0), id) & 63)::int $$;
comment on function baton_internal.lane(text, bigint) is 'the lane, 0 to 63, in which an event travels';

select baton_internal.declare_privileges('select', '{baton_operator,baton_viewer,baton_relay}',
    '{consumer_groups,windows,group_positions,pieces,consumers}');
-- Parked events hold payloads of every tenant; viewers have the view baton.dead_letters.
select baton_internal.declare_privileges('select', '{baton_operator,baton_relay}', '{parked}');
