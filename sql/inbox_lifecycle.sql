-- create_inbox, alter_inbox, drop_inbox, and what a managed inbox is made of.

-- Remember the ids of deleted messages, however they were deleted.
create function baton_internal.remember_inbox_keys()
returns trigger
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    insert into baton_internal.inbox_keys (inbox, event_id, recorded_at)
    select tg_argv[0]::int, g.event_id, coalesce(g.processed_at, now()) from gone g
    on conflict do nothing;
    return null;
end
$$;
comment on function baton_internal.remember_inbox_keys() is 'keeps the ids of messages whose rows are deleted';

-- The same for an inbox with tenants.
create function baton_internal.remember_tenant_inbox_keys()
returns trigger
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    insert into baton_internal.inbox_keys (inbox, event_id, recorded_at)
    select tg_argv[0]::int, g.message_key, coalesce(g.processed_at, now()) from gone g
    on conflict do nothing;
    return null;
end
$$;
comment on function baton_internal.remember_tenant_inbox_keys() is 'keeps the keys of tenants'' messages whose rows are deleted';

-- Make a trigger function for an inbox. Its body is a literal, whatever the names within: a name may hold any quoting of dollars.
create function baton_internal.make_inbox_function(box baton.inboxes, part text, function_name name, description text, body text)
returns void
language plpgsql
as $$
begin
    execute format('create function baton_internal.%I() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as %L',
                   function_name, body);
    execute format('revoke all on function baton_internal.%I() from public', function_name);
    execute format('comment on function baton_internal.%I() is %L', function_name, description);
    perform baton_internal.note_inbox_object(box.id, part, 'function', 'baton_internal', function_name);
end
$$;
comment on function baton_internal.make_inbox_function(baton.inboxes, text, name, text, text) is 'creates a trigger function of an inbox and notes it';

-- Make the trigger that turns away plain inserts of messages whose row is gone already; receive() looks for itself,
-- batchwise. The function is written per inbox so that its two lookups are planned once. The first waits for a
-- deletion that is under way: without it, an insert that comes between the start and the commit of that deletion
-- would find neither row nor remembered id.
create function baton_internal.make_inbox_triggers(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    admit name := format('inbox_%s_admit', box.id);
begin
    perform baton_internal.make_inbox_function(box, 'core', admit, 'turns away messages that inbox ' || box.name || ' has had', format($body$
        begin
            perform 1 from %1$s t where t.%3$I = %4$s for key share;
            if not found then
                perform 1 from baton_internal.inbox_keys k where k.inbox = %2$s and k.event_id = %4$s;
                if found then
                    return null;
                end if;
            end if;
            return new;
        end
        $body$, box.relation, box.id, box.id_column, baton_internal.inbox_key_sql(box, 'new.')));
    execute format('create trigger baton_admit before insert on %s for each row'
                   ' when (current_setting(''baton.receiving'', true) is distinct from %L) execute function baton_internal.%I()',
                   box.relation, box.id, admit);
    execute format('create trigger baton_remember after delete on %s referencing old table as gone'
                   ' for each statement execute function baton_internal.%I(%L)', box.relation,
                   case when box.tenancy then 'remember_tenant_inbox_keys' else 'remember_inbox_keys' end, box.id);
    perform baton_internal.note_inbox_object(box.id, 'core', 'trigger', box.schema_name, 'baton_admit');
    perform baton_internal.note_inbox_object(box.id, 'core', 'trigger', box.schema_name, 'baton_remember');
end
$$;
comment on function baton_internal.make_inbox_triggers(baton.inboxes) is 'makes the dedup triggers of a managed inbox';

-- Lock an inbox's table for a change of its parts, see lock_without_queue().
create function baton_internal.lock_inbox_table(box baton.inboxes, mode text)
returns void
language plpgsql
as $$
begin
    if not baton_internal.lock_without_queue(array[box.relation], array[mode], interval '5 seconds') then
        raise exception 'inbox "%" is too busy for this change', format('%I.%I', box.schema_name, box.name)
            using errcode = 'lock_not_available', detail = format('table %s could not be locked', box.relation),
                  hint = 'long transactions on the table are in the way; try again when they have ended';
    end if;
end
$$;
comment on function baton_internal.lock_inbox_table(baton.inboxes, text) is 'locks a table; nobody else has to wait behind this lock';

-- Make an index for an inbox.
create function baton_internal.make_inbox_index(box baton.inboxes, part text, suffix text, definition text)
returns void
language plpgsql
as $$
declare
    table_name text;
    table_schema text;
    index_name name;
begin
    select c.relname, n.nspname into table_name, table_schema
      from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = box.relation;
    index_name := baton_internal.derived_name('', table_name || case when box.group_value is null then '' else '_' || box.id end, suffix);
    if to_regclass(format('%I.%I', table_schema, index_name)) is not null then
        raise exception 'relation "%" already exists in schema "%"', index_name, table_schema
            using errcode = 'duplicate_table',
                  hint = format('inbox "%s" needs this name for an index; rename the other relation', box.name);
    end if;
    execute format('create index %I on %s %s', index_name, box.relation, definition);
    perform baton_internal.note_inbox_object(box.id, part, 'index', table_schema, index_name);
end
$$;
comment on function baton_internal.make_inbox_index(baton.inboxes, text, text, text) is 'creates an index of an inbox and notes it';

-- Make the partial indexes of a managed inbox: what waits, what failed, what may be drained.
create function baton_internal.make_inbox_indexes(box baton.inboxes)
returns void
language plpgsql
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box, '');
begin
    perform baton_internal.make_inbox_index(box, 'core', '_pending', '(available_at) where ' || terms.unfinished);
    perform baton_internal.make_inbox_index(box, 'core', '_dead', '(received_at) where ' || terms.failed);
    perform baton_internal.make_inbox_index(box, 'core', '_processed', '(processed_at) where ' || terms.done);
    if box.tenancy then  -- who works for all tenants names a message by its id
        perform baton_internal.make_inbox_index(box, 'core', '_event', '(event_id)');
    end if;
end
$$;
comment on function baton_internal.make_inbox_indexes(baton.inboxes) is 'makes the partial indexes of a managed inbox';

-- Make a managed inbox's table. Room on the pages lets a lease be written beside its row without index entries.
create function baton_internal.make_inbox_table(schema_name text, table_name text)
returns regclass
language plpgsql
as $$
begin
    execute format($ddl$
        create table %1$I.%2$I (
            event_id     text        primary key check (event_id <> '' and octet_length(event_id) <= 2000),
            event_type   text        not null,
            source       text,
            aggregate_id text,
            payload      jsonb,
            received_at  timestamptz not null default clock_timestamp(),
            processed_at timestamptz,
            error        text,
            retry_count  int         not null default 0 check (retry_count >= 0),
            trace_id     text,
            headers      jsonb,
            tenant_id    text        default nullif(current_setting('baton.tenant_id', true), ''),
            sequence_num bigint,
            priority     smallint,
            payload_raw  bytea,
            available_at timestamptz not null default clock_timestamp(),
            lease_token  uuid,
            leased_by    text,
            leased_until timestamptz,
            arrival      bigint      not null generated by default as identity,
            failures     jsonb
        ) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
                autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0)$ddl$, schema_name, table_name);
    execute format('comment on table %I.%I is %L', schema_name, table_name, 'inbox made by baton.create_inbox()');
    return format('%I.%I', schema_name, table_name)::regclass;
end
$$;
comment on function baton_internal.make_inbox_table(text, text) is 'creates the table of a managed inbox';

-- Refuse a number that makes no sense as a policy.
create function baton_internal.check_inbox_policy(max_retries int, retention_hours int)
returns void
language plpgsql immutable
as $$
begin
    if max_retries is null or max_retries not between 1 and 1000000 then
        raise exception 'max_retries must be from 1 to 1000000, not %', coalesce(max_retries::text, 'null')
            using errcode = 'invalid_parameter_value';
    elsif retention_hours < 0 then
        raise exception 'retention_hours must be 0 or more, not %', retention_hours
            using errcode = 'invalid_parameter_value', hint = 'null takes the setting inbox_processed_retention_hours';
    end if;
    if retention_hours > 876000 then
        perform baton_internal.check_duration('retention_hours', make_interval(days => retention_hours / 24));
    end if;
end
$$;
comment on function baton_internal.check_inbox_policy(int, int) is 'raises invalid_parameter_value for impossible policies';

-- Create an inbox: its table, indexes and views. Returns its qualified name.
create function baton.create_inbox(name text, schema text default null, max_retries int default 3, schedule text default '1s',
                                   with_dead_letter boolean default true, with_stats boolean default true,
                                   retention_hours int default null, path name[] default current_schemas(false), tenancy boolean default false)
returns text
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    asked record := baton_internal.parse_table_name(create_inbox.name, '');
    target text := coalesce(nullif(asked.schema_name, ''), create_inbox.schema, path[1]::text);
    box baton.inboxes;
begin
    perform baton_internal.check_inbox_policy(create_inbox.max_retries, create_inbox.retention_hours);
    if target is null or (asked.schema_name <> '' and create_inbox.schema <> asked.schema_name) then
        raise exception 'which schema should hold inbox "%"?', asked.table_name
            using errcode = 'invalid_parameter_value', hint = 'give one schema, in the name or as the second argument';
    elsif to_regnamespace(quote_ident(target)) is null then
        raise exception 'schema "%" does not exist', target using errcode = 'invalid_schema_name';
    end if;
    perform baton_internal.check_schema_create(target);
    if exists (select 1 from baton.inboxes i where i.schema_name = target and i.name = asked.table_name) then
        raise exception 'inbox "%" already exists', format('%I.%I', target, asked.table_name)
            using errcode = 'duplicate_object', hint = 'change it with baton.alter_inbox() or drop it first';
    elsif to_regclass(format('%I.%I', target, asked.table_name)) is not null then
        raise exception 'relation "%" already exists', format('%I.%I', target, asked.table_name)
            using errcode = 'duplicate_table', hint = 'let baton work with an existing table by baton.adopt_inbox()';
    end if;
    insert into baton.inboxes (schema_name, name, relation, layout, id_column, processed_at_column, retry_count_column, error_column,
                               received_at_column, event_type_column, source_column, aggregate_id_column, payload_column, headers_column,
                               trace_id_column, sequence_column, priority_column, max_retries, schedule, retention_hours,
                               with_dead_letter, with_stats, tenancy)
    values (target, asked.table_name, baton_internal.make_inbox_table(target, asked.table_name), 'managed',
            case when create_inbox.tenancy then 'message_key' else 'event_id' end, 'processed_at',
            'retry_count', 'error', 'received_at', 'event_type', 'source', 'aggregate_id', 'payload', 'headers', 'trace_id',
            'sequence_num', 'priority', create_inbox.max_retries, baton_internal.parse_schedule(create_inbox.schedule),
            create_inbox.retention_hours, create_inbox.with_dead_letter, create_inbox.with_stats, create_inbox.tenancy)
    returning * into box;
    if box.tenancy then
        perform baton_internal.separate_inbox_tenants(box.relation);
    end if;
    perform baton_internal.make_inbox_triggers(box);
    perform baton_internal.make_inbox_indexes(box);
    perform baton_internal.make_inbox_views(box);
    perform baton_internal.make_inbox_calls(box);
    return format('%I.%I', box.schema_name, box.name);
end
$$;
comment on function baton.create_inbox(text, text, int, text, boolean, boolean, int, name[], boolean) is
    'creates an inbox: table, indexes, views pending_, dlq_ and stats_';

-- Let the due times of a managed inbox follow a change of the number of attempts: what has attempts again is due now, what has
-- used them up never. Rows that somebody holds are left to the next round of maintenance.
create function baton_internal.mend_inbox_due_times(box baton.inboxes)
returns bigint
language plpgsql
as $$
declare
    mended bigint;
begin
    if box.layout <> 'managed' then
        return 0;
    end if;
    execute format('with wrong as materialized (select t.%4$I as id, t.retry_count < %1$s as alive from %2$s t'
                   ' where %3$s and (t.retry_count < %1$s) = (t.available_at = ''infinity'')'
                   ' and (t.leased_until is null or t.leased_until <= $1) for no key update skip locked),'
                   ' mended as (update %2$s t set available_at = case when w.alive then $1 else ''infinity'' end'
                   ' from wrong w where t.%4$I = w.id returning 1) select count(*) from mended',
                   box.max_retries, box.relation, (baton_internal.inbox_terms(box)).failed, box.id_column) into mended using clock_timestamp();
    return mended;
end
$$;
comment on function baton_internal.mend_inbox_due_times(baton.inboxes) is 'corrects due times after the number of attempts changed';

-- Change an inbox's policies; what is null stays. Nothing is rebuilt and no lock on the table is needed.
create function baton.alter_inbox(name text, max_retries int default null, schedule text default null, retention_hours int default null,
                                  backoff_base interval default null, backoff_cap interval default null, backoff_jitter float8 default null,
                                  path name[] default current_schemas(false))
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    box baton.inboxes := baton_internal.need_inbox(alter_inbox.name, path);
begin
    perform baton_internal.check_inbox_change(box);
    perform baton_internal.check_inbox_policy(coalesce(alter_inbox.max_retries, box.max_retries), alter_inbox.retention_hours);
    perform baton_internal.check_duration('backoff_cap', alter_inbox.backoff_cap);
    begin
        update baton.inboxes i
           set max_retries = coalesce(alter_inbox.max_retries, i.max_retries),
               schedule = case when alter_inbox.schedule is null then i.schedule else baton_internal.parse_schedule(alter_inbox.schedule) end,
               retention_hours = coalesce(alter_inbox.retention_hours, i.retention_hours),
               backoff_base = coalesce(alter_inbox.backoff_base, i.backoff_base),
               backoff_cap = coalesce(alter_inbox.backoff_cap, i.backoff_cap),
               backoff_jitter = coalesce(alter_inbox.backoff_jitter, i.backoff_jitter)
         where i.id = box.id returning i.* into box;
    exception when check_violation then
        raise exception 'impossible backoff for inbox "%"', box.name
            using errcode = 'invalid_parameter_value', hint = 'base is 0 or more, cap at least the base, jitter from 0 to 1';
    end;
    if alter_inbox.max_retries is not null then
        perform baton_internal.mend_inbox_due_times(box);
    end if;
    perform baton_internal.record_action('alter_inbox', format('%I.%I', box.schema_name, box.name));
end
$$;
comment on function baton.alter_inbox(text, int, text, int, interval, interval, float8, name[]) is 'changes retries, schedule, retention and backoff of an inbox';

-- Drop an inbox: views, triggers, indexes and catalog rows always; the table only with cascade, and never an adopted one.
create function baton.drop_inbox(name text, if_exists boolean default false, cascade boolean default false,
                                 path name[] default current_schemas(false))
returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
declare
    box baton.inboxes := baton_internal.find_inbox(drop_inbox.name, path);
begin
    if box.id is null then
        if if_exists then
            return false;
        end if;
        raise exception 'inbox "%" does not exist', drop_inbox.name
            using errcode = 'undefined_object', hint = 'see select * from baton.inbox_status()';
    end if;
    perform baton_internal.check_inbox_change(box);
    if box.relation::text !~ '^[0-9]' and (box.layout = 'managed' or box.order_mode is not null) then
        perform baton_internal.lock_inbox_table(box, 'access exclusive');
    end if;
    perform baton_internal.drop_inbox_objects(box);
    if drop_inbox.cascade and box.layout = 'managed' and box.relation::text !~ '^[0-9]' then
        execute format('drop table %s', box.relation);
    end if;
    delete from baton_internal.inbox_keys k where k.inbox = box.id;
    delete from baton.inboxes i where i.id = box.id;
    perform baton_internal.record_action('drop_inbox', format('%I.%I', box.schema_name, box.name), jsonb_build_object('cascade', cascade));
    return true;
end
$$;
comment on function baton.drop_inbox(text, boolean, boolean, name[]) is 'drops an inbox; drops the table only with cascade, and only if baton made the table';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{create_inbox,alter_inbox,drop_inbox}');
