-- Consumer groups, their positions, and what is under way.
--
-- A position is a snapshot (docs/positions.md). Invariants, each hammered by tests/isolation/outbox_property_test.cpp:
--   1. Every event visible in `seen` was dispatched: settled, parked, or part of a piece.
--   2. Within the open window every event up to after_id was dispatched.
--   3. A piece is a range of ids of one window, cut down to some lanes; pieces of one lane are leased in order, and no two
--      consumers hold one lane at the same time.
--   4. A settled event is in no piece and not parked.

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

create table baton.windows (
    group_id      int         not null references baton.consumer_groups on delete cascade,
    window_number bigint      not null,
    era           int         not null,
    seen          pg_snapshot not null,
    sight         pg_snapshot not null,  -- the window's own snapshot
    flushed_at    pg_lsn      not null,  -- its commits are on disk when the log is flushed up to here
    late          xid8[]      not null,  -- transactions that `seen` saw running and that have events below first_id
    first_id      bigint,                -- lowest id above the late ones, null when there are only late ones
    last_id       bigint,                -- end of an era that is over
    primary key (group_id, window_number)
);
comment on table baton.windows is 'windows that are open or still have pieces under way';

create table baton.group_positions (
    group_id      int         primary key references baton.consumer_groups on delete cascade,
    era           int         not null,
    seen          pg_snapshot not null,
    window_number bigint      not null default 0,  -- the open window, or the last one
    window_open   boolean     not null default false,
    after_id      bigint      not null default 0,
    owner         text,                            -- a relay that works the group alone
    owner_epoch   bigint      not null default 0,
    owned_until   timestamptz
) with (fillfactor = 40);
comment on table baton.group_positions is 'how far each group has dispatched its log';

create table baton.pieces (
    piece_id      bigint      generated always as identity primary key,
    group_id      int         not null references baton.consumer_groups on delete cascade,
    window_number bigint      not null,
    after_id      bigint      not null,
    upto_id       bigint      not null,
    lanes         bigint      not null,  -- one bit per lane
    attempt       int         not null,
    lease_token   uuid,                  -- null while it waits for a taker
    consumer_id   text,
    leased_until  timestamptz
);
comment on table baton.pieces is 'stretches of windows that are leased or wait for a taker';
create index pieces_order on baton.pieces (group_id, window_number, after_id);

create table baton.parked (
    parked_id    bigint      generated always as identity primary key,
    group_id     int         not null references baton.consumer_groups on delete cascade,
    id           bigint      not null,
    state        text        not null check (state in ('scheduled', 'retry', 'blocked', 'dead')),
    key          text,
    attempt      int         not null,  -- deliveries made so far
    due_at       timestamptz not null,
    error        text,
    event        jsonb,                 -- a copy, once the log need not keep the row, or the edited event
    parked_at    timestamptz not null default clock_timestamp(),
    lease_token  uuid,
    consumer_id  text,
    leased_until timestamptz,
    unique (group_id, id)
);
comment on table baton.parked is 'events that cannot go now: scheduled, retry, blocked, dead';
create index parked_due on baton.parked (group_id, due_at) where state in ('scheduled', 'retry');
create index parked_key on baton.parked (group_id, key, id) where key is not null;
create index parked_dead on baton.parked (group_id, parked_id) where state = 'dead';
create index parked_lease on baton.parked (lease_token) where lease_token is not null;

create table baton.consumers (
    group_id          int         not null references baton.consumer_groups on delete cascade,
    consumer_id       text        not null,
    registered_at     timestamptz not null default clock_timestamp(),
    last_heartbeat_at timestamptz not null default clock_timestamp(),
    last_poll_at      timestamptz not null default clock_timestamp(),
    went_away_empty_at timestamptz,           -- all lanes with work were taken
    last_commit_at    timestamptz,
    last_offset       bigint,
    last_token        uuid,
    unhealthy_since   timestamptz,
    reaped_at         timestamptz,
    primary key (group_id, consumer_id)
) with (fillfactor = 50);
comment on table baton.consumers is 'members of the groups, with their last signs of life';

-- Find a group and check that the caller may work it.
create function baton.find_group(name text)
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
    perform baton.check_tenant(tenancy, found_group.tenant_id);
    return found_group;
end
$$;
comment on function baton.find_group(text) is 'catalog row of a group, or an error that says what to do';

-- The key whose order is kept: the partition key, else the aggregate's id, else none.
create function baton.event_key(partition_key text, aggregate_id text)
returns text
language sql immutable parallel safe
as $$ select coalesce(partition_key, aggregate_id) $$;
comment on function baton.event_key(text, text) is 'the key whose events keep their order';

-- The lane (0 to 63) of an event; one without key goes anywhere.
create function baton.lane(key text, id bigint)
returns int
language sql immutable parallel safe
as $$ select (coalesce(hashtextextended(key, 0), id) & 63)::int $$;
comment on function baton.lane(text, bigint) is 'the lane, 0 to 63, in which an event travels';

select baton.declare_privileges('select', '{baton_operator,baton_viewer,baton_relay}',
    '{consumer_groups,windows,group_positions,pieces,parked,consumers}');
