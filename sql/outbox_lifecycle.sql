-- Making, changing and dropping outboxes.

-- Create an outbox: an append-only table of that name, partitioned by ranges of ids.
create function baton.create_outbox(
    name               text,
    schema             text     default null,
    payload_type       text     default 'jsonb',
    ordered            boolean  default true,
    tenancy            boolean  default false,
    partition_interval interval default '1 day',
    partition_bytes    bigint   default null,
    retention          interval default null,
    archive_for        interval default null,
    idempotency_window interval default '24 hours',
    if_not_exists      boolean  default false,
    max_payload_bytes  bigint   default null)
returns regclass
language plpgsql
as $$
declare
    place record := baton_internal.parse_table_name(name, schema);
begin
    return baton_internal.make_outbox(place.schema_name, place.table_name, pg_catalog.jsonb_build_object(
        'payload_type', payload_type, 'ordered', ordered, 'tenancy', tenancy,
        'partition_interval', partition_interval, 'partition_bytes', partition_bytes, 'retention', retention,
        'archive_for', archive_for, 'idempotency_window', idempotency_window, 'max_payload_bytes', max_payload_bytes), if_not_exists);
end
$$;
comment on function baton.create_outbox(text, text, text, boolean, boolean, interval, bigint, interval, interval, interval, boolean, bigint)
    is 'creates an outbox: a table to insert events into';

-- Refuse options that make no sense, whether at creation or later.
create function baton_internal.check_outbox_options(options jsonb)
returns void
language plpgsql immutable
as $$
declare
    option text;
begin
    if options ->> 'payload_type' is null or options ->> 'payload_type' not in ('jsonb', 'json', 'bytea', 'text') then
        raise exception 'payload_type cannot be "%"', coalesce(options ->> 'payload_type', 'null')
            using errcode = 'invalid_parameter_value', hint = 'use jsonb, json, bytea or text';
    end if;
    foreach option in array array['ordered', 'tenancy', 'idempotency_window'] loop
        if options ->> option is null then
            raise exception '% cannot be null', option using errcode = 'null_value_not_allowed';
        end if;
    end loop;
    foreach option in array array['partition_interval', 'retention', 'archive_for', 'idempotency_window'] loop
        if (options ->> option)::interval < interval '0' then
            raise exception '% cannot be negative', option using errcode = 'invalid_parameter_value';
        end if;
        perform baton_internal.check_duration(option, (options ->> option)::interval);
    end loop;
    if (options ->> 'partition_interval')::interval = interval '0' or (options ->> 'partition_bytes')::bigint <= 0 then
        raise exception 'a partition needs some room' using errcode = 'invalid_parameter_value',
            hint = 'give partition_interval or partition_bytes above zero, or null for no limit';
    end if;
    if octet_length(options ->> 'notify_channel') not between 1 and 63 or options ->> 'notify_channel' like 'baton\_%' then
        raise exception 'notify_channel cannot be "%"', options ->> 'notify_channel' using errcode = 'invalid_parameter_value',
            hint = 'a channel has 1 to 63 bytes; those that begin with baton_ are baton''s own';
    end if;
    if (options ->> 'max_payload_bytes')::bigint not between 65536 and 128000000 then
        raise exception 'max_payload_bytes is from 65536 to 128000000, not %', options ->> 'max_payload_bytes' using errcode = 'invalid_parameter_value',
            hint = 'or null for the setting outbox_max_payload_bytes';
    end if;
end
$$;
comment on function baton_internal.check_outbox_options(jsonb) is 'validates the options of create_outbox and alter_outbox';

-- Create the table, its first partitions and its catalog rows.
create function baton_internal.make_outbox(schema_name text, table_name text, options jsonb, if_not_exists boolean)
returns regclass
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    full_name constant text := format('%I.%I', schema_name, table_name);
    existing regclass := to_regclass(full_name);
    outbox baton.outboxes;
begin
    perform baton_internal.check_outbox_options(options);
    if to_regnamespace(quote_ident(schema_name)) is null then
        raise exception 'there is no schema "%"', schema_name
            using errcode = 'invalid_schema_name', hint = format('create it first: create schema %I', schema_name);
    end if;
    perform baton_internal.check_schema_create(schema_name);
    if existing is not null then
        if if_not_exists and exists (select from baton.outboxes o where o.relation = existing) then
            return existing;
        end if;
        raise exception 'the table % exists already', full_name
            using errcode = 'duplicate_object',
                  hint = case when exists (select from baton.outboxes o where o.relation = existing)
                              then 'it is an outbox: publish into it, or pass if_not_exists => true'
                              else 'take it in with baton.adopt_outbox(), or choose another name' end;
    end if;
    perform baton_internal.check_identifier(table_name, 12);  -- partitions and archive add a suffix
    execute format($sql$
        create table %s (
            xid             xid8        not null default pg_current_xact_id(),
            id              bigint      generated always as identity,
            event_id        uuid        not null default baton.uuid_v7(),
            tenant_id       text        %s,
            aggregate_type  text,
            aggregate_id    text,
            event_type      text        not null,
            schema_version  int         not null default 1,
            topic           text,
            partition_key   text,
            payload         %s,
            headers         jsonb,
            trace_id        text,
            correlation_id  text,
            causation_id    text,
            idempotency_key text,
            occurred_at     timestamptz not null default clock_timestamp(),
            available_at    timestamptz,
            primary key (id)
        ) partition by range (id)$sql$,
        full_name,
        case when (options ->> 'tenancy')::boolean
             then $d$not null default nullif(current_setting('baton.tenant_id', true), '')$d$ else '' end,
        options ->> 'payload_type');
    execute format('create index %I on %s (xid, id)', baton_internal.unused_name(schema_name, table_name, '_xid_idx'), full_name);
    execute format('comment on table %s is %L', full_name, 'baton outbox: insert events here, in your own transaction');
    insert into baton.outboxes (relation, payload_type, ordered, tenancy, partition_interval, partition_bytes, retention,
                                archive_for, idempotency_window, max_payload_bytes)
    select full_name::regclass, o.payload_type, o.ordered, o.tenancy, o.partition_interval, o.partition_bytes, o.retention,
           o.archive_for, o.idempotency_window, o.max_payload_bytes
      from jsonb_populate_record(null::baton.outboxes, options) o
    returning * into outbox;
    execute format('create sequence baton_internal.floor_%1$s minvalue 0 start 0', outbox.outbox_id);
    execute format('comment on sequence baton_internal.floor_%1$s is %2$L', outbox.outbox_id, 'the mark of an outbox, see baton_internal.stray_events');
    perform setval(baton_internal.floor_sequence(outbox.outbox_id), 0);
    perform baton_internal.close_to_others('sequence', c.oid::regclass::text, c.relowner, c.relacl)  -- whoever could set it back could hide events
       from pg_catalog.pg_class c where c.oid = baton_internal.floor_sequence(outbox.outbox_id);
    perform baton_internal.begin_era(outbox.outbox_id, 1, outbox.relation);
    -- before the partitions, which take over that they fire always
    perform baton_internal.guard_outbox(outbox);
    execute format('create trigger baton_origin before insert on %s for each row when (new.xid <> pg_current_xact_id())
                    execute function baton_internal.refuse_foreign_event()', full_name);
    execute format('alter table %s enable always trigger baton_origin', full_name);
    perform baton_internal.add_partition(outbox), baton_internal.add_partition(outbox);
    update baton_internal.outbox_partitions p set state = case p.first_id when 1 then 'open' else 'ahead' end where p.outbox_id = outbox.outbox_id;
    perform baton_internal.make_append_only(outbox.relation, outbox.outbox_id);
    perform baton_internal.watch_publishers(outbox.relation);
    perform baton_internal.grant_outbox(outbox);
    perform baton_internal.make_outbox_calls(outbox);
    return outbox.relation;
end
$$;
comment on function baton_internal.make_outbox(text, text, jsonb, boolean) is 'makes an outbox; called by create_outbox()';

-- Have every statement that publishes into a table of an outbox, the log itself or a partition, compare the era and ring. It does so as a replica,
-- too: what is published unseen into a log that was just restored would count as restored with it.
create function baton_internal.watch_publishers(relation regclass)
returns void
language plpgsql
as $$
begin
    execute format('create trigger baton_doorbell after insert on %s for each statement execute function baton_internal.ring_doorbell(''outbox'')', relation);
    execute format('alter table %s enable always trigger baton_doorbell', relation);
end
$$;
comment on function baton_internal.watch_publishers(regclass) is 'trigger on a table of an outbox that compares the era and rings the doorbell';

-- Add a partition after the last one. Attaching does not make writers wait.
create function baton_internal.add_partition(outbox baton.outboxes)
returns void
language plpgsql
as $$
declare
    width constant bigint := 1000000000;  -- ids per partition: readable, and no log outgrows it
    first bigint;
    place record;
    partition_name text;
begin
    select coalesce(max(p.end_id), 1) into first from baton_internal.outbox_partitions p where p.outbox_id = outbox.outbox_id;
    select n.nspname as schema_name, c.relname as table_name into place
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = outbox.relation;
    partition_name := format('%I.%I', place.schema_name, baton_internal.unused_name(place.schema_name, place.table_name, '_p' || first / width + 1));
    execute format('create table %s (like %s including all excluding identity)', partition_name, outbox.relation);
    perform baton_internal.close_to_others(partition_name::regclass);
    perform baton_internal.make_append_only(partition_name::regclass, outbox.outbox_id), baton_internal.watch_publishers(partition_name::regclass);
    execute format('alter table %s attach partition %s for values from (%s) to (%s)',
                   outbox.relation, partition_name, first, (first / width + 1) * width);
    insert into baton_internal.outbox_partitions (outbox_id, first_id, end_id, relation)
    values (outbox.outbox_id, first, (first / width + 1) * width, partition_name::regclass);
end
$$;
comment on function baton_internal.add_partition(baton.outboxes) is 'adds a partition for ids that come later';

-- Give the roles what they need on one outbox, and separate its tenants.
create function baton_internal.grant_outbox(outbox baton.outboxes)
returns void
language plpgsql
as $$
declare
    own_columns constant text := 'event_id, tenant_id, aggregate_type, aggregate_id, event_type, schema_version, topic, '
        'partition_key, payload, headers, trace_id, correlation_id, causation_id, idempotency_key, occurred_at, available_at';
    role_name text;
begin
    if to_regrole('baton_producer') is not null then
        execute format('grant insert (%s), select (id) on %s to baton_producer', own_columns, outbox.relation);
    end if;
    foreach role_name in array array['baton_relay', 'baton_operator'] loop
        if to_regrole(role_name) is not null then
            execute format('grant select on %s to %I', outbox.relation, role_name);
        end if;
    end loop;
    if outbox.tenancy then
        execute format('alter table %s enable row level security', outbox.relation);
        execute format($sql$create policy baton_tenant on %s
            using (tenant_id = nullif(current_setting('baton.tenant_id', true), ''))
            with check (tenant_id = nullif(current_setting('baton.tenant_id', true), ''))$sql$, outbox.relation);
        foreach role_name in array array['baton_relay', 'baton_operator'] loop
            if to_regrole(role_name) is not null then
                execute format('create policy %I on %s for select to %I using (true)', role_name, outbox.relation, role_name);
            end if;
        end loop;
    end if;
end
$$;
comment on function baton_internal.grant_outbox(baton.outboxes) is 'grants and row-level security of one outbox';

-- Change options of an outbox; those not named stay.
create function baton.alter_outbox(
    name               text,
    retention          interval default null,
    archive_for        interval default null,
    partition_interval interval default null,
    partition_bytes    bigint   default null,
    idempotency_window interval default null,
    ordered            boolean  default null,
    reset              text[]   default '{}',  -- options to set to null
    max_payload_bytes  bigint   default null,
    notify_channel     text     default null)
returns void
language sql
as $$
    select baton_internal.change_outbox(baton_internal.resolve_table(name), jsonb_strip_nulls(pg_catalog.jsonb_build_object(
        'retention', retention, 'archive_for', archive_for, 'partition_interval', partition_interval,
        'partition_bytes', partition_bytes, 'idempotency_window', idempotency_window, 'ordered', ordered,
        'max_payload_bytes', max_payload_bytes, 'notify_channel', notify_channel)), reset)
$$;
comment on function baton.alter_outbox(text, interval, interval, interval, bigint, interval, boolean, text[], bigint, text)
    is 'changes options of an outbox';

-- Apply changed options.
create function baton_internal.change_outbox(relation regclass, changes jsonb, reset text[])
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.outboxes := baton_internal.find_outbox(relation);
    options jsonb;
    name text;
begin
    foreach name in array reset loop
        if name not in ('retention', 'archive_for', 'partition_interval', 'partition_bytes', 'max_payload_bytes', 'notify_channel') then
            raise exception 'option "%" cannot be reset', name using errcode = 'invalid_parameter_value',
                hint = 'reset takes retention, archive_for, partition_interval, partition_bytes, max_payload_bytes and notify_channel';
        end if;
        changes := changes || jsonb_build_object(name, null);
    end loop;
    options := to_jsonb(outbox) || changes;
    perform baton_internal.check_outbox_options(options);
    update baton.outboxes o
       set retention = n.retention, archive_for = n.archive_for, partition_interval = n.partition_interval,
           partition_bytes = n.partition_bytes, idempotency_window = n.idempotency_window, ordered = n.ordered,
           max_payload_bytes = n.max_payload_bytes, notify_channel = n.notify_channel
      from jsonb_populate_record(null::baton.outboxes, options) n
     where o.outbox_id = outbox.outbox_id;
    if changes ? 'notify_channel' then
        perform baton_internal.announce_on_channel(relation, changes ->> 'notify_channel');
    end if;
    perform baton_internal.make_outbox_calls(outbox);
    perform baton_internal.record_action('alter_outbox', relation::text, changes);
end
$$;
comment on function baton_internal.change_outbox(regclass, jsonb, text[]) is 'changes options of an outbox; called by alter_outbox()';

-- Tell whoever listens that there are new events; the payload is the outbox's name. The server sends the same words of one transaction once.
create function baton_internal.notify_listeners()
returns trigger
language plpgsql
as $$
begin
    perform pg_catalog.pg_notify(tg_argv[0], pg_catalog.format('%I.%I', tg_table_schema, tg_table_name));
    return null;
end
$$;
comment on function baton_internal.notify_listeners() is 'statement trigger of an outbox with a notify_channel';

-- Notify on a channel with each commit of events, or not any more. Without a channel there is no trigger, and nothing to pay.
create function baton_internal.announce_on_channel(relation regclass, channel text)
returns void
language plpgsql
as $$
declare
    has_trigger constant boolean := exists (select from pg_trigger t where t.tgrelid = relation and t.tgname = 'baton_notify');
begin
    if has_trigger or channel is not null then  -- publishers do not wait behind the lock
        perform baton_internal.need_lock(relation, baton_internal.lock_without_queue(array[relation],
                    array[case when has_trigger then 'access exclusive' else 'share row exclusive' end], baton_internal.lock_patience('5 seconds')));
    end if;
    if has_trigger then
        execute format('drop trigger baton_notify on %s', relation);
    end if;
    if channel is null then
        return;
    end if;
    execute format('create trigger baton_notify after insert on %s for each statement execute function baton_internal.notify_listeners(%L)', relation, channel);
    if current_setting('max_prepared_transactions') <> '0' then
        raise warning 'transactions that publish into % cannot be prepared for a two-phase commit any more', relation
            using hint = 'NOTIFY and PREPARE TRANSACTION exclude each other';
    end if;
end
$$;
comment on function baton_internal.announce_on_channel(regclass, text) is 'begins or ends notifications about an outbox';

-- Drop an outbox and its events. With groups on it only when asked to cascade.
create function baton.drop_outbox(name text, if_exists boolean default false, cascade boolean default false)
returns boolean
language plpgsql
as $$
begin
    if if_exists and to_regclass(name) is null then
        return false;
    end if;
    return baton_internal.remove_outbox(baton_internal.resolve_table(name), cascade);
end
$$;
comment on function baton.drop_outbox(text, boolean, boolean) is 'drops an outbox with all its events';

-- Drop the tables and catalog rows of an outbox.
create function baton_internal.remove_outbox(relation regclass, cascade boolean)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.outboxes := baton_internal.find_outbox(relation);
    groups text;
    -- What hangs on the log goes with it: the archive, and partitions that have left the log and are not dropped yet.
    apart constant regclass[] := array(
        select p.relation from baton_internal.outbox_partitions p join pg_class c on c.oid = p.relation
         where p.outbox_id = outbox.outbox_id and p.state = 'detached'
        union all
        select baton_internal.archive_of(outbox) where baton_internal.archive_of(outbox) is not null);
    part regclass;
begin
    select string_agg(quote_ident(g.group_name), ', ' order by g.group_name) into groups
      from baton.consumer_groups g where g.outbox_id = outbox.outbox_id;
    if groups is not null and not cascade then
        raise exception 'cannot drop outbox %: it has consumer groups', relation
            using errcode = 'dependent_objects_still_exist', detail = 'groups: ' || groups,
                  hint = 'drop them with baton.drop_consumer_group(), or pass cascade => true';
    end if;
    perform baton_internal.drop_outbox_companions(outbox.outbox_id), baton_internal.drop_outbox_calls(outbox.outbox_id);
    perform baton_internal.record_action('drop_outbox', relation::text, jsonb_build_object('groups', groups));
    delete from baton.outboxes o where o.outbox_id = outbox.outbox_id;
    foreach part in array apart loop
        execute format('drop table %s', part);
    end loop;
    if exists (select from pg_class c where c.oid = relation) then  -- else somebody dropped it by hand
        execute format('drop table %s', relation);
    end if;
    execute format('drop sequence if exists baton_internal.floor_%s', outbox.outbox_id);
    return true;
end
$$;
comment on function baton_internal.remove_outbox(regclass, boolean) is 'drops an outbox; called by drop_outbox()';

-- The archive table of an outbox, null when it has none.
create function baton_internal.archive_of(outbox baton.outboxes)
returns regclass
language sql stable
as $$
    select a.relation from baton_internal.outbox_archives a join pg_catalog.pg_class c on c.oid = a.relation
     where a.outbox_id = outbox.outbox_id
$$;
comment on function baton_internal.archive_of(baton.outboxes) is 'archive table of an outbox';

select baton_internal.declare_privileges('execute', '{baton_operator}',
    '{create_outbox,make_outbox,alter_outbox,change_outbox,drop_outbox,remove_outbox}');
