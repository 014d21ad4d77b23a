-- What baton knows about its outboxes, their partitions and eras.

create table baton.outboxes (
    outbox_id          int         generated always as identity primary key,
    relation           regclass    not null unique,
    payload_type       text        not null check (payload_type in ('jsonb', 'json', 'bytea', 'text')),
    ordered            boolean     not null,  -- default of its groups
    tenancy            boolean     not null,
    partition_interval interval,              -- a new partition is begun after this time ...
    partition_bytes    bigint,                -- ... or at this size, whichever comes first
    retention          interval,              -- null: the setting outbox_retention_hours
    archive_for        interval,              -- null: what leaves the log is dropped at once
    idempotency_window interval    not null,
    max_payload_bytes  bigint      check (max_payload_bytes between 65536 and 128000000),  -- null: the setting outbox_max_payload_bytes
    notify_channel     text        check (octet_length(notify_channel) between 1 and 63 and notify_channel not like 'baton\_%'),  -- null: nobody is notified
    created_at         timestamptz not null default now(),
    storage_alert_at   timestamptz,
    maintained_at      timestamptz,           -- when maintenance last had a look
    maintenance_error  text,                  -- what went wrong then, null when all is well
    events_retired     bigint      not null default 0, -- ids drawn in partitions that have left the log
    last_drained_at    timestamptz,           -- when a partition last left the log ...
    last_drained_count bigint                 -- ... and how many ids were drawn in it
);
comment on table baton.outboxes is 'one row per outbox made by create_outbox()';

-- Partitions are ranges of ids. A partition is left by moving the sequence to the next range, so no writer waits.
--   new       attached; statements that were running then do not know of it
--   ahead     everybody knows it, its ids are still to come
--   open      publishers draw its ids
--   left      the sequence has moved on; transactions that drew an id before may still be running
--   detached  out of the log: every event in it is settled or copied, for every group; to be archived or dropped
--   archived  part of the archive table
create table baton_internal.outbox_partitions (
    outbox_id   int         not null references baton.outboxes on delete cascade,
    first_id    bigint      not null,
    end_id      bigint      not null,
    relation    regclass    not null,
    state       text        not null default 'new' check (state in ('new', 'ahead', 'open', 'left', 'detached', 'archived')),
    since       timestamptz not null default clock_timestamp(),  -- when it came into that state
    waits_for   text[],               -- a new one: transactions that may not know of it, as in pg_locks.virtualtransaction
    last_id     bigint,               -- about the last id that was drawn in it, once it was left
    primary key (outbox_id, first_id)
);
comment on table baton_internal.outbox_partitions is 'the partitions of each log, by range of ids';

create table baton_internal.outbox_archives (
    outbox_id int      primary key references baton.outboxes on delete cascade,
    relation  regclass not null
);
comment on table baton_internal.outbox_archives is 'the archive table of each outbox that has one; another table with such a name may belong to a user';

-- Transaction ids mean something only within the history that gave them. An era is the stretch of a log written in one
-- history; a dump restored elsewhere ends it. Within an era that has ended every row is committed.
create table baton_internal.outbox_eras (
    outbox_id         int    not null references baton.outboxes on delete cascade,
    era               int    not null,
    system_identifier bigint not null,  -- the cluster that wrote it
    timeline          int    not null,  -- on which it was last at home there
    relation_id       oid    not null,  -- the table as a number: a dump carries the number along, and makes another table
    written_by        xid8   not null default pg_current_xact_id(),  -- what this transaction has written is not relied on before its end
    last_id           bigint,           -- null in the era that goes on
    primary key (outbox_id, era)
);
comment on table baton_internal.outbox_eras is 'eras of each log: stretches of ids whose rows were written in one history of transaction ids';

-- Events that were not above their outbox's mark when they came, see sql/floors.sql: ids that somebody made up, or that were drawn while a
-- reader raised the mark. They are found by this list.
create table baton_internal.stray_events (
    outbox_id int    not null references baton.outboxes on delete cascade,
    xid       xid8   not null,
    id        bigint not null,
    primary key (outbox_id, xid, id)
);
comment on table baton_internal.stray_events is 'events whose ids are lower than readers could expect';

create table baton_internal.idempotency_keys (
    outbox_id  int         not null references baton.outboxes on delete cascade,
    tenant_id  text        not null,  -- '': of an event without a tenant
    key        text        not null,
    id         bigint,
    expires_at timestamptz not null,
    primary key (outbox_id, tenant_id, key)
);
comment on table baton_internal.idempotency_keys is 'idempotency keys within their window, each with the event that used it first';
create index idempotency_keys_expiry on baton_internal.idempotency_keys (expires_at);

create table baton.audit_trail (
    entry_id bigint      generated always as identity primary key,
    at       timestamptz not null default clock_timestamp(),
    actor    text        not null,
    action   text        not null,
    object   text        not null,
    details  jsonb       not null default '{}'
);
comment on table baton.audit_trail is 'who replayed, edited, discarded, moved, forced or dropped what';

-- Name the role on whose behalf a function runs, also inside SECURITY DEFINER; null where nobody can tell. Code of a table that baton works
-- on calls as the table's owner, whoever the session belongs to. Code that the server runs as a table's owner, as ANALYZE does, must not
-- pass for the session's user, who may be a superuser or the autovacuum.
create function baton_internal.known_caller()
returns text
language sql stable
as $$
    select coalesce(baton_internal.acting_role()::text,
                    case when baton_internal.is_restricted() then null
                         when current_setting('role') = 'none' then session_user::text else current_setting('role') end)
$$;
comment on function baton_internal.known_caller() is 'the role that called a SECURITY DEFINER function; null when this is unknown';

-- Name the role on whose behalf a function runs, for a decision about its rights.
create function baton_internal.caller()
returns text
language plpgsql stable
as $$
declare
    known constant text := baton_internal.known_caller();
begin
    if known is null then
        raise exception 'baton cannot tell who calls in a security-restricted operation'
            using errcode = 'insufficient_privilege', detail = 'the server runs code of a table, such as a function of an index, within another statement',
                  hint = 'call baton from a statement of your own';
    end if;
    return known;
end
$$;
comment on function baton_internal.caller() is 'the role that called a SECURITY DEFINER function';

-- Refuse a caller who may not make tables and views in a schema, and a schema that goes with the session.
create function baton_internal.check_schema_create(schema_name text)
returns void
language plpgsql stable
as $$
begin
    if not has_schema_privilege(baton_internal.caller(), schema_name, 'create') then
        raise exception 'permission denied for schema %', schema_name
            using errcode = 'insufficient_privilege',
                  hint = format('you need CREATE on the schema: grant create on schema %I to %I', schema_name, baton_internal.caller());
    elsif schema_name ~ '^pg_(toast_)?temp_' then
        raise exception 'schema % is temporary', schema_name
            using errcode = 'invalid_schema_name', hint = 'use a schema that other sessions see, and that outlives this one';
    end if;
end
$$;
comment on function baton_internal.check_schema_create(text) is 'raises insufficient_privilege unless the caller may create in a schema';

-- Record an operator's action. A program that many people use, such as the dashboard, says for whom it acts in baton.acting_for; the role stays
-- the actor, because only the role was checked here.
create function baton_internal.record_action(action text, object text, details jsonb default '{}')
returns void
language sql
as $$
    insert into baton.audit_trail (actor, action, object, details)
    values (coalesce(baton_internal.known_caller(), 'unknown'), $1, $2,
            $3 || case when current_setting('baton.acting_for', true) <> '' then jsonb_build_object('acting_for', current_setting('baton.acting_for')) else '{}' end)
$$;
comment on function baton_internal.record_action(text, text, jsonb) is 'appends to the audit trail';

-- Record that an operator published an event by hand. Programs that publish are not recorded: their events say enough.
create function baton_internal.record_publish(outbox text, event_offset bigint, event_type text)
returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    select baton_internal.record_action('publish', outbox, jsonb_build_object('offset', event_offset, 'event_type', event_type))
$$;
comment on function baton_internal.record_publish(text, bigint, text) is 'records an event that an operator published by hand';

-- Resolve a user's name for a table by the caller's search path. Runs with the caller's rights and path, so that
-- functions which pin theirs get a table, not a name.
create function baton_internal.resolve_table(name text)
returns regclass
language plpgsql stable
as $$
declare
    relation regclass;
begin
    if name operator(pg_catalog.!~) '^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$' then  -- most names need no closer look
        perform baton_internal.parse_table_name(name, 'public');
    end if;
    relation := pg_catalog.to_regclass(name);
    if relation is null then
        raise exception 'there is no table "%"', left(name, 100)
            using errcode = 'undefined_table',
                  hint = 'create an outbox with baton.create_outbox(), or qualify the name with its schema';
    end if;
    return relation;
end
$$;
comment on function baton_internal.resolve_table(text) is 'the table that a name means to the caller; raises undefined_table when there is none';

-- The table that a name means to the caller; null where the name means none, or is no name of a table.
create function baton_internal.known_table(name text)
returns regclass
language plpgsql stable
as $$
begin
    return to_regclass(name);
exception when invalid_name or syntax_error or feature_not_supported or undefined_table or insufficient_privilege then
    return null;
end
$$;
comment on function baton_internal.known_table(text) is 'the table that a name means to the caller, or null';
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_viewer}', '{known_table}');

-- Say what to do with a table that is no outbox.
create function baton_internal.way_into(relation regclass)
returns text
language sql stable
as $$
    select case
        when exists (select from baton.inboxes i where i.relation = $1)
            then 'it is an inbox: messages come in with baton.receive()'
        when exists (select from baton.adopted_outboxes a join pg_catalog.pg_class c on c.relname = a.table_name
                       join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = a.schema_name where c.oid = $1)
            then 'it was adopted: insert into the table, and read it with the functions for adopted tables'
        when exists (select from baton_internal.outbox_partitions p where p.relation = $1)
            then 'it is a partition of one: use the name of the outbox'
        else 'make one with baton.create_outbox(), or take an existing table in with baton.adopt_outbox()'
    end
$$;
comment on function baton_internal.way_into(regclass) is 'hint for a table that is no outbox';

-- Return an outbox by its table.
create function baton_internal.find_outbox(relation regclass)
returns baton.outboxes
language plpgsql stable
as $$
declare
    found_outbox baton.outboxes;
begin
    select * into found_outbox from baton.outboxes o where o.relation = find_outbox.relation;
    if not found then
        raise exception '"%" is not an outbox', relation
            using errcode = 'undefined_object', hint = baton_internal.way_into(relation);
    end if;
    return found_outbox;
end
$$;
comment on function baton_internal.find_outbox(regclass) is 'catalog row of an outbox, or an error that says what to do';

-- Whether the caller may act on all tenants.
create function baton_internal.sees_all_tenants()
returns boolean
language sql stable
as $$
    select coalesce(bool_or(pg_has_role(baton_internal.caller(), r.oid, 'usage')), false)
      from pg_catalog.pg_roles r
     where r.rolname in ('baton_relay', 'baton_operator')
        or r.oid = (select nspowner from pg_catalog.pg_namespace where nspname = 'baton')
$$;
comment on function baton_internal.sees_all_tenants() is 'true for the relay, operators and the owner of the installation';

-- Refuse work on another tenant's group, and on a tenants' outbox without saying which tenant.
create function baton_internal.check_tenant(tenancy boolean, group_tenant text)
returns void
language plpgsql stable
as $$
declare
    session_tenant text := nullif(current_setting('baton.tenant_id', true), '');
begin
    if not tenancy or (session_tenant is not null and session_tenant = group_tenant) then
        return;
    end if;
    if session_tenant is null and baton_internal.sees_all_tenants() then
        return;
    end if;
    if group_tenant is null then
        raise exception 'the group is of all tenants'
            using errcode = 'insufficient_privilege',
                  hint = 'relays and operators work such a group, without baton.tenant_id; a tenant sets baton.tenant_id and makes a group of its own';
    end if;
    raise exception 'the group belongs to another tenant'
        using errcode = 'insufficient_privilege',
              hint = 'set baton.tenant_id to the tenant that the group was created for';
end
$$;
comment on function baton_internal.check_tenant(boolean, text) is 'raises insufficient_privilege for another tenant';

select baton_internal.declare_privileges('select', '{baton_operator,baton_viewer,baton_relay}',
                                '{outboxes,outbox_partitions,outbox_eras,stray_events}');
-- The trail keeps what was discarded or edited, of every tenant.
select baton_internal.declare_privileges('select', '{baton_operator}', '{audit_trail}');
select baton_internal.declare_privileges('execute', '{baton_operator}', '{record_publish}');
select baton_internal.declare_privileges('execute', '{baton_producer,baton_consumer,baton_relay,baton_operator,baton_viewer}',
                                '{resolve_table,parse_table_name,check_identifier}');
