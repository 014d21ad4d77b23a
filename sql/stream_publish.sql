-- What a refresh writes to the outbox of its stream table, in the statement that applies the refresh.

-- Raise when somebody dropped the outbox of a stream table, or the table beside it, by hand.
create function baton_internal.check_outbox_is_there(stream baton.stream_tables)
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    lost text;
begin
    select case when not exists (select from pg_class c where c.oid = o.relation) then 'outbox'
                when l.delta_rows is not null and not exists (select from pg_class c where c.oid = l.delta_rows) then 'table for large deltas' end into lost
      from baton_internal.stream_outboxes l join baton.outboxes o using (outbox_id) where l.stream_id = stream.stream_id;
    if lost is not null then
        raise exception 'the % of stream table % was dropped', lost, stream.relation
            using errcode = 'object_not_in_prerequisite_state', detail = 'changes would be published nowhere',
                  hint = format('end the outbox with baton.disable_outbox(%L, cascade => true); then baton.enable_outbox() makes a new one', stream.relation::text);
    end if;
end
$$;
comment on function baton_internal.check_outbox_is_there(baton.stream_tables) is 'raises when the outbox of a stream table is gone';

-- Whether a full refresh publishes all rows, not what changed. Where rows have keys, each event replaces the one before of its key anyway.
create function baton_internal.publishes_snapshots(link baton_internal.stream_outboxes)
returns boolean
language plpgsql stable
as $$
begin
    return link.format = 'delta' and baton.setting('outbox_full_refresh_snapshot')::boolean;
end
$$;
comment on function baton_internal.publishes_snapshots(baton_internal.stream_outboxes) is 'true when a full refresh publishes all rows of a stream table';

-- Apply a refresh, and publish nothing.
create function baton_internal.apply_silently(stream baton.stream_tables, statement text, magnitude int,
                                              out inserted bigint, out deleted bigint, out wanted bigint, out sight pg_snapshot)
language plpgsql
as $$
begin
    select r.inserted, r.deleted, r.wanted, r.sight into inserted, deleted, wanted, sight
      from baton_internal.run_refresh(stream.relation, statement, magnitude, stream.frontier, stream.frontier_xid, stream.frontier_step, stream.frontier_time)
           as r (op text, data jsonb, inserted bigint, deleted bigint, wanted bigint, sight pg_snapshot, payload jsonb);
end
$$;
comment on function baton_internal.apply_silently(baton.stream_tables, text, int) is 'runs the statement of a refresh';

-- Run the statement of a refresh and write what it gives as one event; `marks` go into its payload.
create function baton_internal.publish_delta(stream baton.stream_tables, outbox baton.outboxes, link baton_internal.stream_outboxes, statement text, mode text, magnitude int,
                                             skip_empty boolean, marks jsonb,
                                             out inserted bigint, out deleted bigint, out wanted bigint, out sight pg_snapshot, out event_id bigint)
language plpgsql
as $$
begin
    perform baton_internal.inline_limits(baton.setting('outbox_inline_threshold_rows')::bigint, baton_internal.max_payload_bytes(outbox.outbox_id) - 4096);  -- headers
    select r.* into inserted, deleted, wanted, sight, event_id
      from baton_internal.run_publishing(baton_internal.publish_delta_statement(outbox, link, marks), stream.relation, statement, baton.uuid_v7()::text, mode,
               skip_empty, stream.relation::text, magnitude, stream.frontier, stream.frontier_xid, stream.frontier_step, stream.frontier_time)
           as r (inserted bigint, deleted bigint, wanted bigint, sight pg_snapshot, event_id bigint);
end
$$;
comment on function baton_internal.publish_delta(baton.stream_tables, baton.outboxes, baton_internal.stream_outboxes, text, text, int, boolean, jsonb) is 'runs the statement of a refresh and publishes what it gives';

-- Apply a refresh and write its events in the outbox's format.
create function baton_internal.apply_and_publish(stream baton.stream_tables, link baton_internal.stream_outboxes, statement text, mode text, magnitude int,
                                                 out inserted bigint, out deleted bigint, out wanted bigint, out sight pg_snapshot, out event_id bigint)
language plpgsql
as $$
declare
    outbox constant baton.outboxes := (select o from baton.outboxes o where o.outbox_id = link.outbox_id);
    skip_empty constant boolean := baton.setting('outbox_skip_empty_delta')::boolean;
begin
    perform baton_internal.check_outbox_is_there(stream);
    perform baton_internal.payload_type_of(outbox.relation);  -- publishing may be switched off: then the refresh waits, too
    if link.format = 'rows' then
        perform baton_internal.inline_limits(-1, 0);
        execute baton_internal.publish_rows_statement(stream, outbox) into inserted, deleted, wanted, sight, event_id
          using stream.relation, statement, baton.uuid_v7()::text, mode, stream.relation::text, magnitude, stream.frontier, stream.frontier_xid, stream.frontier_step, stream.frontier_time;
    elsif mode = 'FULL' and baton_internal.publishes_snapshots(link) then
        select a.* into inserted, deleted, wanted, sight from baton_internal.apply_silently(stream, statement, magnitude) a;
        if inserted + deleted > 0 or not skip_empty then
            select p.event_id into event_id
              from baton_internal.publish_delta(stream, outbox, link, baton_internal.snapshot_statement(stream.relation), mode, null, false, '{"full_refresh": true}') p;
        end if;
    else
        select p.* into inserted, deleted, wanted, sight, event_id
          from baton_internal.publish_delta(stream, outbox, link, statement, mode, magnitude, skip_empty, '{}') p;
    end if;
end
$$;
comment on function baton_internal.apply_and_publish(baton.stream_tables, baton_internal.stream_outboxes, text, text, int) is 'runs the statement of a refresh and publishes what changed';

-- The statement that applies a refresh and writes one event, with the rows in a table beside it where the refresh gives no payload. $1 table, $2 statement, $3 refresh_id,
-- $4 mode, $5 whether a refresh without changes writes nothing, $6 the stream table's name, $7 to $11 magnitude and frontier for run_refresh().
create function baton_internal.publish_delta_statement(outbox baton.outboxes, link baton_internal.stream_outboxes, marks jsonb)
returns text
language sql stable
as $$
    select format($sql$
        with r as materialized (
            select * from rows from (baton_internal.run_refresh($1, $2, $7, $8, $9, $10, $11)
                as (op text, data jsonb, inserted bigint, deleted bigint, wanted bigint, sight pg_snapshot, payload jsonb)) with ordinality
                as r (op, data, inserted, deleted, wanted, sight, payload, place)),
        total as materialized (
            select * from r limit 1),  -- it comes first
        event as (
            insert into %1$s (event_type, aggregate_type, aggregate_id, payload, headers)
            select 'stream_table.delta', 'stream_table', $6,
                   coalesce(t.payload, jsonb_build_object('v', 1, 'claim_check', true, 'inserted_count', t.inserted, 'deleted_count', t.deleted, 'refresh_id', $3))%4$s,
                   jsonb_build_object('refresh_id', $3, 'refresh_mode', $4, 'inserted_count', t.inserted::text, 'deleted_count', t.deleted::text)
              from total t where t.inserted + t.deleted > 0 or not $5
            returning id),
        kept as (
            insert into %2$s (outbox_id, row_num, op, payload)
            select e.id, r.place - 1, r.op, r.data from event e cross join r where r.place > 1),
        noted as (
            insert into baton_internal.claim_checks (outbox_id, event_id, row_count)
            select %3$s, e.id, t.inserted + t.deleted from event e cross join total t where t.payload is null)
        select t.inserted, t.deleted, t.wanted, t.sight, (select id from event) from total t$sql$,
        outbox.relation, link.delta_rows, outbox.outbox_id, case when marks = '{}' then '' else format(' || %L::jsonb', marks) end)
$$;
comment on function baton_internal.publish_delta_statement(baton.outboxes, baton_internal.stream_outboxes, jsonb) is 'statement that applies a refresh and publishes its delta';

-- The same with an event per row; $6 to $10 magnitude and frontier. Rows that go and come under one key are one event; without a key the whole row is one, and each copy of it an event.
create function baton_internal.publish_rows_statement(stream baton.stream_tables, outbox baton.outboxes)
returns text
language sql stable
as $$
    select format($sql$
        with r as materialized (
            select * from baton_internal.run_refresh($1, $2, $6, $7, $8, $9, $10)
                as r (op text, data jsonb, inserted bigint, deleted bigint, wanted bigint, sight pg_snapshot, payload jsonb)),
        keyed as (
            select r.op, r.data, k.key, row_number() over (partition by r.op, k.key) as copy
              from r cross join lateral (select %2$s as key) k where r.op is not null),
        changes as (
            select coalesce(i.key, d.key) as key, d.data as before, i.data as after
              from (select * from keyed where op = 'I') i full join (select * from keyed where op = 'D') d on i.key = d.key and i.copy = d.copy),
        named as (
            select c.*, case when octet_length(n.name) > 2000 then md5(n.name) else n.name end as name
              from changes c cross join lateral (select %3$s as name) n),
        written as (
            insert into %1$s (event_type, aggregate_type, aggregate_id, partition_key, payload, headers)
            select case when c.after is null then 'stream_table.delete' else 'stream_table.upsert' end, $5, c.name, c.name,
                   case when c.after is not null then jsonb_build_object('v', 1, 'op', 'upsert', 'key', c.key, 'before', c.before, 'after', c.after) end,
                   jsonb_build_object('refresh_id', $3, 'refresh_mode', $4, 'op', case when c.after is null then 'delete' else 'upsert' end)
              from named c order by c.after is not null, c.name
            returning id)
        select r.inserted, r.deleted, r.wanted, r.sight, (select max(id) from written) from r where r.op is null$sql$,
        outbox.relation,
        case when key = '{}' then 'r.data'
             else format('jsonb_build_object(%s)', (select string_agg(format('%1$L, r.data -> %1$L', k), ', ') from unnest(key) k)) end,
        case when cardinality(key) = 1 then format('coalesce(c.key ->> %L, ''null'')', key[1]) else 'c.key::text' end)
      from baton_internal.stream_key(stream.relation) key
$$;
comment on function baton_internal.publish_rows_statement(baton.stream_tables, baton.outboxes) is 'statement that applies a refresh and publishes an event per row';
