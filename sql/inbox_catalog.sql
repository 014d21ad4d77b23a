-- Inboxes: what baton knows about each, and how one is found by name.

create table baton.inboxes (
    id                   int generated always as identity primary key,
    schema_name          name        not null,
    name                 text        not null,
    relation             regclass    not null,
    layout               text        not null check (layout in ('managed', 'mapped', 'omni_box', 'processed_events')),
    tenancy              boolean     not null default false,
    -- Which column of the table is what. The managed layout has all of them.
    id_column            name        not null,
    processed_at_column  name        not null,
    retry_count_column   name,
    error_column         name,
    received_at_column   name,
    event_type_column    name,
    source_column        name,
    aggregate_id_column  name,
    payload_column       name,
    headers_column       name,
    trace_id_column      name,
    sequence_column      name,
    priority_column      name,
    -- An adopted table may hold several consumer groups' messages: an inbox is one of them.
    group_column         name,
    group_value          text,
    -- The unique key by which the table itself refuses a second row; null where it cannot.
    conflict_columns     name[],
    max_retries          int         not null default 3 check (max_retries > 0),
    schedule             interval    not null default '1 second' check (schedule > interval '0'),
    retention_hours      int         check (retention_hours >= 0),
    with_dead_letter     boolean     not null default true,
    with_stats           boolean     not null default true,
    backoff_base         interval    not null default '1 second' check (backoff_base >= interval '0'),
    backoff_cap          interval    not null default '5 minutes' check (backoff_cap >= backoff_base),
    backoff_jitter       float8      not null default 0.5 check (backoff_jitter between 0 and 1),
    -- A lock that somebody else's worker took on an adopted table is stale after this.
    foreign_lock_timeout interval    not null default '5 minutes',
    -- How the messages of an aggregate are ordered: by gapless numbers, or as they came; null for not at all.
    order_mode           text        check (order_mode in ('sequence', 'arrival')),
    priority_tiers       jsonb,
    created_at           timestamptz not null default now(),
    last_drained_at      timestamptz,
    last_drained_count   bigint,
    unique (name, schema_name),
    check (order_mode is null or priority_tiers is null),
    check ((group_column is null) = (group_value is null))
);
comment on table baton.inboxes is 'every inbox: its table, its column mapping and its policies';

-- Views, indexes, triggers and functions that baton made for an inbox, so that it drops these and no others.
create table baton_internal.inbox_objects (
    inbox       int  not null references baton.inboxes on delete cascade,
    part        text not null check (part in ('core', 'ordering', 'priority')),
    object_kind text not null check (object_kind in ('view', 'index', 'trigger', 'function')),
    schema_name name not null,
    object_name name not null,
    primary key (inbox, object_kind, schema_name, object_name)
);
comment on table baton_internal.inbox_objects is 'objects that were made for each inbox, and are dropped with the inbox';

-- Ids of messages whose rows are gone. A managed inbox recognises a duplicate by its table's key while the row
-- lives and by this table afterwards, so receiving a new message writes no second key.
create table baton_internal.inbox_keys (
    inbox       int         not null,
    event_id    text        not null,
    recorded_at timestamptz not null default now(),
    primary key (inbox, event_id)
);
create index inbox_keys_recorded_at on baton_internal.inbox_keys using brin (recorded_at) with (autosummarize = on);
comment on table baton_internal.inbox_keys is 'ids of messages that were received and whose rows are gone';

-- Leases and due times of adopted tables, which have no columns for them.
create table baton_internal.inbox_work (
    inbox        int         not null references baton.inboxes on delete cascade,
    event_id     text        not null,
    available_at timestamptz,
    lease_token  uuid,
    leased_by    text,
    leased_until timestamptz,
    lapsed       boolean     not null default false,
    primary key (inbox, event_id)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
comment on table baton_internal.inbox_work is 'leases and due times of messages in adopted tables';

-- One row per call that met duplicates: appended, never updated, so that receivers do not queue on a counter.
create table baton_internal.inbox_duplicates (
    inbox       int         not null references baton.inboxes on delete cascade,
    at          timestamptz not null default clock_timestamp(),
    duplicates  int         not null
);
create index inbox_duplicates_inbox_at on baton_internal.inbox_duplicates (inbox, at);
alter table baton_internal.inbox_duplicates replica identity full;
comment on table baton_internal.inbox_duplicates is 'how many duplicates were turned away, and when';

-- Find an inbox by its name: qualified, by search path, or the only one of that name.
create function baton_internal.find_inbox(inbox text, path name[])
returns baton.inboxes
language plpgsql stable
as $$
declare
    asked_schema text := '';
    asked_name text := inbox;
    found_one baton.inboxes;
    schemas text;
begin
    if inbox is null or inbox !~ '^[a-z_][a-z0-9_]{0,62}$' then  -- a plain name need not be parsed
        select p.schema_name, p.table_name into asked_schema, asked_name from baton_internal.parse_table_name(inbox, '') p;
    end if;
    select i.* into found_one from baton.inboxes i
     where i.name = asked_name and (i.schema_name = asked_schema or (asked_schema = '' and i.schema_name = any (path)))
     order by array_position(path, i.schema_name) limit 1;
    if found_one.id is null and asked_schema = '' then
        select string_agg(quote_ident(i.schema_name), ', ' order by i.schema_name) into schemas
          from baton.inboxes i where i.name = asked_name having count(*) > 1;
        if schemas is not null then
            raise exception 'inbox name "%" is ambiguous', asked_name
                using errcode = 'ambiguous_alias', hint = format('qualify it; it exists in: %s', schemas);
        end if;
        select i.* into found_one from baton.inboxes i where i.name = asked_name;
    end if;
    return found_one;
end
$$;
comment on function baton_internal.find_inbox(text, name[]) is 'the inbox with a name, or null';

-- Return an inbox that can be worked with, or say why there is none.
create function baton_internal.need_inbox(inbox text, path name[])
returns baton.inboxes
language plpgsql stable
as $$
declare
    box baton.inboxes := baton_internal.find_inbox(inbox, path);
begin
    if box.id is null then
        raise exception 'inbox "%" does not exist', inbox
            using errcode = 'undefined_object', hint = 'see select * from baton.inbox_status(); make one with baton.create_inbox()';
    elsif box.relation::text ~ '^[0-9]' then  -- a regclass whose table is gone shows as a number
        raise exception 'the table of inbox "%" is gone', inbox
            using errcode = 'undefined_table',
                  detail = 'it was dropped without baton',
                  hint = format('clean up with select baton.drop_inbox(%L)', format('%I.%I', box.schema_name, box.name));
    end if;
    return box;
end
$$;
comment on function baton_internal.need_inbox(text, name[]) is 'the inbox with a name; raises when the inbox or its table is missing';

-- Refuse work that needs rows with a state on an inbox that only remembers ids.
create function baton_internal.check_inbox_is_queue(box baton.inboxes)
returns void
language plpgsql immutable
as $$
begin
    if box.layout = 'processed_events' then
        raise exception 'inbox "%" keeps ids only, it is not a queue', box.name
            using errcode = 'BT004', hint = 'call baton.receive() in the handler''s transaction and skip what it reports as duplicate';
    end if;
end
$$;
comment on function baton_internal.check_inbox_is_queue(baton.inboxes) is 'raises BT004 for an inbox without message state';

-- How long an id may be that baton keeps beside an adopted table, with the inbox's number in one index. The table's own index takes a little more;
-- an id of that kind is not claimed, and inbox_health() counts it.
create function baton_internal.longest_kept_id()
returns int
language sql immutable
as $$ select 2600 $$;
comment on function baton_internal.longest_kept_id() is 'bytes of the longest id that baton keeps beside an adopted table';

-- Read a schedule such as '1s' or '5 minutes'.
create function baton_internal.parse_schedule(schedule text)
returns interval
language plpgsql immutable
as $$
declare
    parsed interval;
begin
    begin
        parsed := schedule::interval;
    exception when invalid_datetime_format or datetime_field_overflow or interval_field_overflow then
        parsed := null;
    end;
    if parsed is null or parsed <= interval '0' then
        raise exception 'invalid schedule: "%"', left(schedule, 40)
            using errcode = 'invalid_parameter_value', hint = 'give a positive time such as ''1s'' or ''5 minutes''';
    end if;
    perform baton_internal.check_duration('schedule', parsed);
    return parsed;
end
$$;
comment on function baton_internal.parse_schedule(text) is 'a positive interval, or invalid_parameter_value';

-- Note an object made for an inbox.
create function baton_internal.note_inbox_object(inbox int, part text, object_kind text, schema_name name, object_name name)
returns void
language sql
as $$
    insert into baton_internal.inbox_objects (inbox, part, object_kind, schema_name, object_name) values ($1, $2, $3, $4, $5)
    on conflict do nothing
$$;
comment on function baton_internal.note_inbox_object(int, text, text, name, name) is 'notes an object that baton must drop with the inbox';

-- Drop what was made for a part of an inbox; null drops every part. What the user dropped already is skipped.
create function baton_internal.drop_inbox_objects(box baton.inboxes, only_part text default null, only_kind text default null)
returns void
language plpgsql
set client_min_messages = warning
as $$
declare
    o baton_internal.inbox_objects;
    table_exists boolean := box.relation::text !~ '^[0-9]';
begin
    for o in
        select io.* from baton_internal.inbox_objects io
         where io.inbox = box.id and (only_part is null or io.part = only_part)
           and (only_kind is null or io.object_kind = only_kind)
         order by array_position('{view,trigger,function,index}'::text[], io.object_kind)
    loop
        if o.object_kind = 'trigger' then
            if table_exists then
                execute format('drop trigger if exists %I on %s', o.object_name, box.relation);
            end if;
        elsif o.object_kind = 'function' then
            execute format('drop function if exists %I.%I', o.schema_name, o.object_name);
        elsif to_regnamespace(quote_ident(o.schema_name)) is not null then
            execute format('drop %s if exists %I.%I', o.object_kind, o.schema_name, o.object_name);
        end if;
        delete from baton_internal.inbox_objects io
         where io.inbox = o.inbox and io.object_kind = o.object_kind
           and io.schema_name = o.schema_name and io.object_name = o.object_name;
    end loop;
end
$$;
comment on function baton_internal.drop_inbox_objects(baton.inboxes, text, text) is 'drops the views, triggers, functions and indexes made for an inbox';

select baton_internal.declare_privileges('select', '{baton_operator,baton_viewer,baton_relay}', '{inboxes,inbox_objects}');
