-- Adopted outboxes: tables of the user's own making. baton keeps its notes about them here and
-- never adds a column to them. Statements on the table run as the table's owner (adopt_work.sql).

create table baton.adopted_outboxes (
    outbox_id   int         generated always as identity primary key,
    schema_name text        not null,
    table_name  text        not null,
    preset      text        not null,
    layout      jsonb       not null,
    keeps_locks boolean     not null,  -- a claim outlives its transaction
    claim_sql   text        not null,  -- the statements' parameters: see adopt_statements.sql
    ack_sql     text        not null,
    fail_sql    text        not null,
    relay_sql   text        not null,  -- a relay's claim: see adopt_relay.sql
    held_sql    text        not null,  -- rows whose later ones of their key must wait
    renew_sql   text,                  -- null without lock columns
    release_sql text,                  -- the same
    dead_sql    text        not null,
    replay_sql  text        not null,
    status_sql  text        not null,
    unlock_sql  text,                  -- null without lock columns
    expire_sql  text,                  -- null when nothing is to be deleted
    archive_sql text,                  -- null when nothing is to be archived
    read_sql    text,                  -- consumers with their own offsets: see adopt_offsets.sql
    read_all_sql text,                 -- the same with the archive
    adopted_at  timestamptz not null default now(),
    adopted_by  text        not null,
    unique (schema_name, table_name)
);
comment on table baton.adopted_outboxes is 'adopted tables: layout, and the statements made from the layout, which run as the table''s owner';

-- What an adopted table has no column for: the last error, when to try again, the attempts so far.
create table baton_internal.adopted_failures (
    outbox_id  int         not null references baton.adopted_outboxes on delete cascade,
    row_id     text        not null,
    attempts   int         not null,
    error      text,
    failed_at  timestamptz not null default now(),
    not_before timestamptz not null,
    primary key (outbox_id, row_id)
);
create index adopted_failures_not_before on baton_internal.adopted_failures (outbox_id, not_before);
comment on table baton_internal.adopted_failures is 'failures of rows whose table has no column for error, retry time or attempts';

-- A table with lock columns knows when a row was locked, not for how long its worker may hold it.
create table baton_internal.adopted_workers (
    outbox_id int      not null references baton.adopted_outboxes on delete cascade,
    worker    text     not null,
    lease     interval not null,
    primary key (outbox_id, worker)
);
comment on table baton_internal.adopted_workers is 'how long each worker may hold a lock before other workers take the rows';

-- Insert-only while events flow, so that two workers never wait for each other; maintenance sums up.
create table baton_internal.adopted_activity (
    outbox_id  int         not null references baton.adopted_outboxes on delete cascade,
    at         timestamptz not null default clock_timestamp(),
    event_type text,
    processed  bigint      not null default 0,
    failed     bigint      not null default 0,
    dead       bigint      not null default 0
);
create index adopted_activity_at on baton_internal.adopted_activity (outbox_id, at);
alter table baton_internal.adopted_activity replica identity full;
comment on table baton_internal.adopted_activity is 'processed, failed and dead events by type, since adoption';

-- One event as every adopted layout gives it.
create type baton.adopted_event as (
    id              text,
    event_id        text,
    tenant_id       text,
    aggregate_type  text,
    aggregate_id    text,
    event_type      text,
    schema_version  text,
    topic           text,
    partition_key   text,
    routing_keys    text[],
    payload         jsonb,
    headers         jsonb,
    trace_id        text,
    correlation_id  text,
    causation_id    text,
    idempotency_key text,
    occurred_at     timestamptz,
    attempt         int
);
comment on type baton.adopted_event is 'an event of an adopted outbox, whatever its table looks like';

-- Find an adopted outbox by name, qualified or through the search path.
create function baton_internal.find_adopted(name text)
returns baton.adopted_outboxes
language plpgsql stable
as $$
declare
    parts record;
    found_row baton.adopted_outboxes;
    candidate text;
begin
    select * into parts from baton_internal.parse_table_name(name);
    if pg_catalog.cardinality(parse_ident(name)) = 2 then
        select a.* into found_row from baton.adopted_outboxes a
         where a.schema_name = parts.schema_name and a.table_name = parts.table_name;
    else
        foreach candidate in array current_schemas(true) loop
            select a.* into found_row from baton.adopted_outboxes a
             where a.schema_name = candidate and a.table_name = parts.table_name;
            exit when found;
        end loop;
    end if;
    if found_row.outbox_id is null then
        raise exception 'no adopted outbox "%"', left(name, 100)
            using errcode = 'undefined_object',
                  hint = 'adopt the table with baton.adopt_outbox(), or qualify its name; see baton.adopted_status()';
    end if;
    return found_row;
end
$$;
comment on function baton_internal.find_adopted(text) is 'catalog row of an adopted outbox';

-- Find an adopted outbox whose table is there to be worked.
create function baton_internal.open_adopted(name text)
returns baton.adopted_outboxes
language plpgsql stable
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.find_adopted(name);
begin
    if to_regclass(pg_catalog.format('%I.%I', outbox.schema_name, outbox.table_name)) is null then
        raise exception 'the table of adopted outbox %.% does not exist', quote_ident(outbox.schema_name), quote_ident(outbox.table_name)
            using errcode = 'undefined_table',
                  hint = 'if it was renamed, adopt it under its new name; end this adoption with baton.unadopt_outbox()';
    end if;
    return outbox;
end
$$;
comment on function baton_internal.open_adopted(text) is 'catalog row of an adopted outbox whose table exists';

-- Remember how long a worker may hold its locks; writes only when that changes.
create function baton_internal.note_worker(outbox_id int, worker text, lease_seconds int)
returns void
language plpgsql volatile
as $$
begin
    if not exists (select from baton_internal.adopted_workers w
                    where w.outbox_id = note_worker.outbox_id and w.worker = note_worker.worker
                      and w.lease = make_interval(secs => lease_seconds)) then
        insert into baton_internal.adopted_workers (outbox_id, worker, lease)
        values (note_worker.outbox_id, note_worker.worker, make_interval(secs => lease_seconds))
        on conflict on constraint adopted_workers_pkey do update set lease = excluded.lease;
    end if;
end
$$;
comment on function baton_internal.note_worker(int, text, int) is 'records a worker''s lease time';

-- Count settled events and forget their failures.
create function baton_internal.note_settled(outbox_id int, row_ids text[], event_types text[])
returns void
language plpgsql volatile
as $$
begin
    if row_ids is null then
        return;
    end if;
    insert into baton_internal.adopted_activity (outbox_id, event_type, processed)
    select note_settled.outbox_id, e, count(*) from unnest(event_types) e group by e;
    delete from baton_internal.adopted_failures f
     where f.outbox_id = note_settled.outbox_id and f.row_id = any (row_ids);
end
$$;
comment on function baton_internal.note_settled(int, text[], text[]) is 'counts settled events';

-- Count failed events, keep what their table cannot hold, and alert for the dead ones.
create function baton_internal.note_failed(outbox_id int, failures jsonb, error text, keep boolean)
returns void
language plpgsql volatile
as $$
declare
    outbox text;
    item record;
begin
    if failures is null then
        return;
    end if;
    insert into baton_internal.adopted_activity (outbox_id, event_type, failed, dead)
    select note_failed.outbox_id, f.event_type, count(*), count(*) filter (where f.dead)
      from jsonb_to_recordset(failures) f (event_type text, dead boolean) group by f.event_type;
    if keep then
        insert into baton_internal.adopted_failures (outbox_id, row_id, attempts, error, not_before)
        select note_failed.outbox_id, f.id, f.attempts, note_failed.error, f.due
          from jsonb_to_recordset(failures) f (id text, attempts int, due timestamptz)
        on conflict on constraint adopted_failures_pkey
        do update set attempts = excluded.attempts, error = excluded.error,
                      failed_at = excluded.failed_at, not_before = excluded.not_before;
    end if;
    select format('%I.%I', a.schema_name, a.table_name) into outbox
      from baton.adopted_outboxes a where a.outbox_id = note_failed.outbox_id;
    for item in select f.* from jsonb_to_recordset(failures) f (id text, event_type text, attempts int, dead boolean)
                 where f.dead limit 10
    loop
        perform baton_internal.alert('dead_letter', outbox, jsonb_build_object('id', item.id, 'event_type', item.event_type,
                                                                      'attempts', item.attempts, 'error', left(note_failed.error, 1000)));
    end loop;
end
$$;
comment on function baton_internal.note_failed(int, jsonb, text, boolean) is
    'counts failed events, keeps error and retry time where the table cannot';

-- Forget the failures of rows that start over.
create function baton_internal.forget_failures(outbox_id int, row_ids text[])
returns void
language sql volatile
as $$
    delete from baton_internal.adopted_failures f where f.outbox_id = $1 and f.row_id = any ($2)
$$;
comment on function baton_internal.forget_failures(int, text[]) is 'clears kept failures';

-- Read text as JSON where it is JSON, and as a JSON string where it is not.
create function baton_internal.text_to_jsonb(value text)
returns jsonb
language plpgsql immutable strict
set search_path = pg_catalog, pg_temp
as $$
begin
    return value::jsonb;
exception when data_exception or program_limit_exceeded then
    return to_jsonb(value);
end
$$;
comment on function baton_internal.text_to_jsonb(text) is 'a payload of type text as jsonb: the JSON in the text, else a JSON string';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_consumer,baton_viewer}',
                                '{find_adopted,open_adopted,parse_table_name,check_identifier}');
select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer,baton_consumer}', '{adopted_outboxes}');
select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer}', '{adopted_failures,adopted_workers,adopted_activity}');
