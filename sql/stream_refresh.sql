-- Refreshing a stream table. The row of the catalog is locked first and the snapshot taken then, so that of two refreshes at once the second
-- sees what the first did. Everything is one transaction: the table, its outbox and what is noted are changed together, or not at all.

-- Run the statement of a refresh as the owner of the stream table, and write what changed to its outbox.
create function baton_internal.apply_refresh(stream baton.stream_tables, statement text, mode text, magnitude int,
                                             out inserted bigint, out deleted bigint, out wanted bigint, out sight pg_snapshot, out event_id bigint)
language plpgsql
as $$
declare
    link baton_internal.stream_outboxes;
begin
    select o.* into link from baton_internal.stream_outboxes o where o.stream_id = stream.stream_id;
    if found then
        select o.* into inserted, deleted, wanted, sight, event_id from baton_internal.apply_and_publish(stream, link, statement, mode, magnitude) o;
    else
        select a.* into inserted, deleted, wanted, sight from baton_internal.apply_silently(stream, statement, magnitude) a;
    end if;
end
$$;
comment on function baton_internal.apply_refresh(baton.stream_tables, text, text, int) is 'runs the statement of a refresh and writes the outbox';

-- The query of a stream table as it is to be run now.
create function baton_internal.stream_query(stream baton.stream_tables)
returns text
language plpgsql stable
as $$
declare
    present constant text := baton_internal.view_query(stream.query_view);
begin
    if present is null then
        raise exception 'what the query of stream table % reads was dropped', stream.relation
            using errcode = 'object_not_in_prerequisite_state', detail = left(stream.query, 1000),
                  hint = 'make it again and call baton.repair_stream_table(), give another query to baton.alter_stream_table(), or drop the stream table';
    end if;
    return present;
end
$$;
comment on function baton_internal.stream_query(baton.stream_tables) is 'query of a stream table with every name qualified';

-- Take in what the query is called now, where something that it reads was renamed.
create function baton_internal.follow_renames(stream baton.stream_tables)
returns baton.stream_tables
language plpgsql
as $$
declare
    present constant text := baton_internal.stream_query(stream);
begin
    if present <> stream.qualified then
        update baton.stream_tables s set qualified = present where s.stream_id = stream.stream_id returning s.* into stream;
        perform baton_internal.choose_stream_mode(stream);
        select s.* into stream from baton.stream_tables s where s.stream_id = stream.stream_id;
    end if;
    return stream;
end
$$;
comment on function baton_internal.follow_renames(baton.stream_tables) is 'a stream table whose query has the present names of what it reads';

-- Lock a stream table's row and open the table for this transaction. Waits for whoever refreshes or changes it.
create function baton_internal.open_stream(relation regclass)
returns baton.stream_tables
language plpgsql
as $$
declare
    stream baton.stream_tables;
begin
    update baton.stream_tables s set writer = pg_current_xact_id(), writer_depth = pg_trigger_depth() where s.relation = open_stream.relation returning s.* into stream;
    if not found then
        stream := baton_internal.find_stream(relation);
    end if;
    return stream;
end
$$;
comment on function baton_internal.open_stream(regclass) is 'locks a stream table and lets this transaction write to it';

-- Whether the last refresh has seen all that a snapshot shows, while the snapshot does not show that refresh. By no clock: clocks are set back, and a standby has another one. A
-- snapshot does not list its own transaction, which may have changed sources after its refresh.
create function baton_internal.has_seen(stream baton.stream_tables, sight pg_snapshot)
returns boolean
language plpgsql stable
as $$
begin
    return pg_snapshot_xmax(stream.frontier) >= pg_snapshot_xmax(sight) and not pg_visible_in_snapshot(stream.frontier_xid, sight)
       and pg_snapshot_xmax(stream.frontier) <= pg_snapshot_xmax(pg_current_snapshot())  -- else it is of another history
       and stream.system_identifier = baton_internal.system_identifier() and stream.relation_id = stream.relation::oid
       and not exists (select from pg_snapshot_xip(stream.frontier) x where pg_visible_in_snapshot(x, sight));
end
$$;
comment on function baton_internal.has_seen(baton.stream_tables, pg_snapshot) is 'whether the last refresh of a stream table saw what a snapshot shows';

-- The tables that the query of a stream table reads, with all their parts.
create function baton_internal.tables_of_stream(id int)
returns oid[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        with recursive tree (relation) as (
            select s.source::oid from baton_internal.stream_sources s where s.stream_id = id
            union
            select i.inhrelid from tree t join pg_inherits i on i.inhparent = t.relation)
        select t.relation from tree t order by t.relation);
end
$$;
comment on function baton_internal.tables_of_stream(int) is 'tables that a stream table reads, with partitions and children';

-- Refuse a refresh in the midst of a statement that writes to a source: rows are visible that are not captured yet, and would be counted twice.
create function baton_internal.check_moment(stream baton.stream_tables)
returns void
language plpgsql
as $$
declare
    source regclass;
begin
    if pg_trigger_depth() > 0 then
        raise exception 'stream table % cannot be refreshed by a trigger', stream.relation
            using errcode = 'object_in_use', detail = 'the statement that fired the trigger may have changed rows that are not captured yet',
                  hint = 'use refresh_mode IMMEDIATE, or a schedule';
    end if;
    source := baton_internal.table_being_written(baton_internal.tables_of_stream(stream.stream_id));
    if source is not null then
        raise exception 'stream table % cannot be refreshed while a statement of this session uses %', stream.relation, source
            using errcode = 'object_in_use', detail = 'this transaction writes to that table, and the statement may have changed rows that are not captured yet',
                  hint = 'refresh in a statement of its own, with no cursor open on the table';
    end if;
end
$$;
comment on function baton_internal.check_moment(baton.stream_tables) is 'raises when rows of a source may be visible that are not captured yet';

-- Refresh a stream table, in the parameters of its maker's session. `recompute` computes everything whatever the mode; `held`: the caller holds the
-- state, and has in it what prepare_stream() gave.
create function baton_internal.refresh_stream(relation regclass, recompute boolean default false, held jsonb default null,
                                              out mode text, out inserted bigint, out deleted bigint, out milliseconds numeric)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    asked constant pg_snapshot := pg_current_snapshot();
    wrote_before constant boolean := pg_current_xact_id_if_assigned() is not null;
    stream baton.stream_tables := baton_internal.find_stream(relation);
    begun timestamptz := clock_timestamp();
    outcome record;
begin
    if stream.effective_mode <> 'FULL' then
        perform baton_internal.check_moment(stream) where not baton_internal.is_immediate_refresh();
        if not recompute and not baton_internal.is_immediate_refresh() and baton_internal.is_current(stream) then
            select 'DIFFERENTIAL', 0, 0, round(extract(epoch from clock_timestamp() - begun)::numeric * 1000, 3) into mode, inserted, deleted, milliseconds;
            return;
        end if;
    end if;
    stream := baton_internal.open_stream(relation);
    begun := clock_timestamp();
    if not (wrote_before or recompute) and baton_internal.has_seen(stream, asked) then  -- while this call waited, somebody else did the work
        update baton.stream_tables s set writer = null where s.stream_id = stream.stream_id;
        select 'NONE', 0, 0, 0 into mode, inserted, deleted, milliseconds;
        return;
    end if;
    perform baton_internal.use_maker_parameters(stream);
    outcome := baton_internal.compute_refresh(stream, recompute, held);
    mode := outcome.mode;
    inserted := outcome.inserted;
    deleted := outcome.deleted;
    milliseconds := round(extract(epoch from clock_timestamp() - begun)::numeric * 1000, 3);
    update baton.stream_tables s
       set writer = null, frontier = outcome.sight, frontier_xid = pg_current_xact_id(), frontier_step = outcome.step, frontier_time = now(),
           system_identifier = baton_internal.system_identifier(), relation_id = stream.relation::oid, source_state = outcome.source_state,
           begun_at = begun, refreshed_at = clock_timestamp(), last_mode = outcome.mode, last_inserted = outcome.inserted, last_deleted = outcome.deleted,
           refreshes = s.refreshes + 1, failed_in_a_row = 0, last_error = null, stopped_at = null, held_up_since = null, costs = outcome.costs, begins_anew = null,
           next_due = baton_internal.next_refresh(s)
     where s.stream_id = stream.stream_id;
    if inserted > 0 or deleted > 0 or stream.frontier is null or outcome.event_id is not null then
        insert into baton_internal.stream_refreshes (stream_id, begun_at, milliseconds, mode, inserted, deleted, event_id)
        values (stream.stream_id, begun, refresh_stream.milliseconds, outcome.mode, outcome.inserted, outcome.deleted, outcome.event_id);
    end if;
    if held is null then
        perform baton_internal.release_state();
    end if;
end
$$;
comment on function baton_internal.refresh_stream(regclass, boolean, jsonb) is 'brings a stream table up to date';

-- Record that somebody had a stream table refreshed or compared. Only who acts for a person is recorded: schedules and programs refresh often, and the
-- history of refreshes has them.
create function baton_internal.record_stream_call(action text, relation regclass, details jsonb)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(current_setting('baton.acting_for', true), '') <> '' and current_setting('transaction_read_only') = 'off' then
        perform baton_internal.record_action(action, (baton_internal.find_stream(relation)).relation::text, details);
    end if;
end
$$;
comment on function baton_internal.record_stream_call(text, regclass, jsonb) is 'records that somebody had a stream table refreshed or compared';

-- Bring a stream table up to date now. Says how, how many rows came and went, and how long it took; mode NONE: somebody else has just done it.
create function baton.refresh_stream_table(name text, out mode text, out inserted bigint, out deleted bigint, out milliseconds numeric)
language plpgsql
as $$
declare
    relation constant regclass := baton_internal.resolve_stream(name);
begin
    select r.* into mode, inserted, deleted, milliseconds from baton_internal.refresh_stream(relation) r;
    perform baton_internal.record_stream_call('refresh_stream_table', relation, pg_catalog.jsonb_build_object('mode', mode, 'inserted', inserted, 'deleted', deleted));
end
$$;
comment on function baton.refresh_stream_table(text) is 'brings a stream table up to date';

-- Mend a stream table: columns, guard, rights and mode are made anew, failures are forgotten, and everything is computed again. Its outbox gets the difference.
create function baton.repair_stream_table(name text, out mode text, out inserted bigint, out deleted bigint, out milliseconds numeric)
language plpgsql
as $$
declare
    relation constant regclass := baton_internal.resolve_stream(name);
begin
    perform baton_internal.renew_query_view(relation);
    perform baton_internal.restore_columns(relation);
    perform baton_internal.mend_stream(relation);
    select r.* into mode, inserted, deleted, milliseconds from baton_internal.refresh_stream(relation, recompute => true) r;
end
$$;
comment on function baton.repair_stream_table(text) is 'makes a stream table whole again after failures, hand-made damage or a restore';

-- Make anew what belongs to a stream table.
create function baton_internal.mend_stream(relation regclass)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream baton.stream_tables := baton_internal.find_stream(relation);
begin
    perform baton_internal.check_table_owner(relation, 'repair it');
    update baton.stream_tables s set failed_in_a_row = 0, last_error = null, stopped_at = null where s.stream_id = stream.stream_id;
    perform baton_internal.guard_stream(stream), baton_internal.equip_stream_owner(stream);
    if baton_internal.view_query(stream.query_view) is not null then
        perform baton_internal.note_stream_sources(stream.stream_id, stream.query_view);
        perform baton_internal.choose_stream_mode(stream);
    end if;
    perform baton_internal.record_action('repair_stream_table', relation::text);
end
$$;
comment on function baton_internal.mend_stream(regclass) is 'makes guard, rights, sources and mode of a stream table anew';

-- Compare a stream table with what its query gives now, in one snapshot. Rows that changed since the last refresh count, too.
create function baton.verify_stream_table(name text, out missing bigint, out surplus bigint)
language plpgsql
as $$
declare
    relation constant regclass := baton_internal.resolve_stream(name);
begin
    select v.* into missing, surplus from baton_internal.verify_stream(relation) v;
    perform baton_internal.record_stream_call('verify_stream_table', relation, pg_catalog.jsonb_build_object('missing', missing, 'surplus', surplus));
end
$$;
comment on function baton.verify_stream_table(text) is 'how many rows a stream table lacks and has too many, compared with its query';

-- Count how a stream table differs from its query.
create function baton_internal.verify_stream(relation regclass, out missing bigint, out surplus bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream constant baton.stream_tables := baton_internal.find_stream(relation);
begin
    perform baton_internal.use_maker_parameters(stream);
    perform baton_internal.check_stream_columns(stream);
    select r.missing, r.surplus into missing, surplus
      from baton_internal.run_as_owner(relation, baton_internal.verify_statement(relation, baton_internal.stream_query(stream)))
           as r (missing bigint, surplus bigint);
end
$$;
comment on function baton_internal.verify_stream(regclass) is 'counts missing and surplus rows of a stream table';

select baton_internal.pin_parameters('baton_internal.refresh_stream(regclass, boolean, jsonb)'), baton_internal.pin_parameters('baton_internal.verify_stream(regclass)');

select baton_internal.declare_privileges('execute', '{baton_operator}',
    '{record_stream_call,refresh_stream_table,refresh_stream,repair_stream_table,mend_stream,verify_stream_table,verify_stream}');
