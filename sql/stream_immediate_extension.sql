-- Refreshes in the writer's transaction: mode IMMEDIATE.
--
-- A writer's statement alters nothing: neither triggers nor buffers can be made for tables that it uses, and the locks would stay until the writer commits. Where
-- something was altered the stream table is computed in full, with each statement until a refresh of its own has captured the sources again. And a writer does not
-- fail because of what somebody did to a stream table: one that cannot be refreshed any more is stopped, and says so.

-- Refresh the stream tables in mode IMMEDIATE that read one of these sources. Called when a writer's statement has been captured. First the row of the catalog is
-- locked, as by everybody, then the tables: what is known about the stream table then stays true. Who does not wait leaves out what another writer is at work on.
create function baton_internal.refresh_immediately(sources oid[], wait boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    id int;
    stream baton.stream_tables;
begin
    for id in select distinct on (t.level, t.stream_id) t.stream_id
                from baton.stream_tables t join baton_internal.stream_sources s using (stream_id)
               where s.source = any (sources) and s.captured is not null and t.effective_mode = 'IMMEDIATE' and t.frontier is not null and not t.paused and t.stopped_at is null
               order by t.level, t.stream_id loop
        continue when not wait and not exists (select from baton.stream_tables t where t.stream_id = id for no key update skip locked);
        select t.* into stream from baton.stream_tables t
         where t.stream_id = id and t.effective_mode = 'IMMEDIATE' and not t.paused and t.stopped_at is null for no key update;
        continue when not found or not baton_internal.keep_table(stream.relation);
        perform baton_internal.hold_state(baton_internal.tables_of_stream(id));
        if baton_internal.is_unaltered(stream, baton_internal.recall(id)) then
            perform baton_internal.refresh_stream(stream.relation, held => '{}');
        else
            perform baton_internal.refresh_altered(stream.relation);
        end if;
        perform baton_internal.release_state();
    end loop;
end
$$;
comment on function baton_internal.refresh_immediately(oid[], boolean) is 'refreshes what follows sources in the writer''s transaction';

-- Refresh a stream table of which this session does not know that nothing was altered. What cannot be refreshed because of what somebody did to it, to its rights or to
-- its sources is stopped; what the query cannot compute is the writer's failure.
create function baton_internal.refresh_altered(relation regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform baton_internal.refresh_stream(relation);
exception when syntax_error_or_access_rule_violation or object_not_in_prerequisite_state or feature_not_supported then  -- with all of their classes
    if sqlstate = '55P03' then  -- a lock that the writer did not want to wait for
        raise;
    end if;
    perform baton_internal.stop_stream(relation, sqlstate || ': ' || sqlerrm);
end
$$;
comment on function baton_internal.refresh_altered(regclass) is 'refreshes a stream table in the writer''s transaction, or stops it';

-- Delete captured changes that everybody has seen: each statement of a writer reads the whole buffer, so what the statements before left would make it slower and slower.
-- Who makes a stream table over the same source waits for the lock until the writer ends, and then sees what the writer did. In an old snapshot a row that
-- somebody else has deleted would be an error.
create function baton_internal.trim_for_writer(id int)
returns void
language plpgsql
as $$
declare
    it record;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    for it in select s.source, b.buffer from baton_internal.stream_sources s cross join lateral baton_internal.change_buffer(s.source) b (buffer)
               where s.stream_id = id and s.captured is not null and b.buffer is not null order by s.source loop
        begin
            execute format('lock table %s in share update exclusive mode nowait', it.buffer);
        exception when lock_not_available then
            continue;
        end;
        perform baton_internal.delete_seen(it.source, it.buffer);
    end loop;
end
$$;
comment on function baton_internal.trim_for_writer(int) is 'deletes captured changes in the writer''s transaction';

-- Leave a stream table alone until somebody mends it. The scheduler raises the alert: a transaction that sends one cannot be prepared.
create function baton_internal.stop_stream(relation regclass, problem text)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    with stopped as (
        update baton.stream_tables s
           set stopped_at = clock_timestamp(), stop_untold = true, last_error = problem, failed_in_a_row = s.failed_in_a_row + 1, source_state = null
         where s.relation = stop_stream.relation returning s.stream_id, s.effective_mode)
    insert into baton_internal.stream_refreshes (stream_id, begun_at, milliseconds, mode, error)
    select s.stream_id, clock_timestamp(), 0, s.effective_mode, problem from stopped s
$$;
comment on function baton_internal.stop_stream(regclass, text) is 'stops a stream table that cannot be refreshed in the writer''s transaction';

-- Whether this session knows that nothing was altered since the last refresh.
create function baton_internal.is_unaltered(stream baton.stream_tables, known jsonb)
returns boolean
language plpgsql immutable
as $$ begin return coalesce(known ->> 'delta' = md5(stream.delta) and known -> 'state' = stream.source_state, false); end $$;
comment on function baton_internal.is_unaltered(baton.stream_tables, jsonb) is 'whether what is known about a stream table is what was noted';

-- What a writer notes about altered sources before everything is computed: their state, where the capture is whole and the query means the same; else nothing, so
-- that a refresh of its own captures them again. Whoever switched a trigger on waited for those who wrote without it, so the state that is held then shows what they wrote.
create function baton_internal.note_alteration(stream baton.stream_tables)
returns jsonb
language plpgsql
as $$
declare
    present constant text := baton_internal.stream_query(stream);
    state constant jsonb := baton_internal.stream_state(stream);
    obstacle text;
    whole boolean;
begin
    perform baton_internal.check_stream_columns(stream), baton_internal.check_stream_guard(stream);
    select min(coalesce(baton_internal.source_obstacle(s.source, s.captured, c.relowner), baton_internal.view_obstacle(stream.query_view, s.source))), bool_and(baton_internal.is_captured(s.source, s.captured)) into obstacle, whole
      from baton_internal.stream_sources s join pg_catalog.pg_class c on c.oid = stream.relation where s.stream_id = stream.stream_id and s.captured is not null;
    if obstacle is not null then
        raise exception 'stream table % cannot be refreshed immediately: %', stream.relation, obstacle using errcode = 'feature_not_supported';
    end if;
    update baton.stream_tables s set qualified = present where s.stream_id = stream.stream_id and s.qualified <> present;
    return case when whole and present = stream.qualified and baton_internal.beyond_sources(state) = baton_internal.beyond_sources(stream.source_state) then state end;
end
$$;
comment on function baton_internal.note_alteration(baton.stream_tables) is 'what to note about altered sources in a writer''s transaction';

-- What a fingerprint says of other things than sources and the file of the table.
create function baton_internal.beyond_sources(state jsonb)
returns jsonb
language sql immutable
as $$ select jsonb_object_agg(e.key, e.value) from jsonb_each(state) e where e.key !~ '^[0-9]+$' and e.key <> 'file' $$;
comment on function baton_internal.beyond_sources(jsonb) is 'fingerprint of owner and query of a stream table';

-- Have new parts of these sources captured, and refresh what follows the sources, as after a statement that changed them; nothing waits for another writer. Within a
-- statement on a source the refresh comes when that is over.
create function baton_internal.follow_parts_of(sources oid[])
returns void
language c volatile strict
as 'MODULE_PATHNAME', 'baton_follow_parts_of';
comment on function baton_internal.follow_parts_of(oid[]) is 'captures new parts of sources and refreshes IMMEDIATE stream tables';

-- The sources with parts to which one of the tables belongs and that an IMMEDIATE stream table follows; all such sources when a captured table belongs to none any
-- more, or for null. Not those of a restore that is under way.
create function baton_internal.immediate_sources(tables oid[])
returns oid[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    with recursive above (part) as (
        select unnest(tables) union select i.inhparent from above a join pg_inherits i on i.inhrelid = a.part)
    select array_agg(distinct s.source::oid)
      from baton.stream_tables t join baton_internal.stream_sources s using (stream_id) join pg_class c on c.oid = s.source
     where t.effective_mode = 'IMMEDIATE' and s.captured is not null and c.relhassubclass
       and (tables is null or s.source::oid in (select a.part from above a)
            or exists (select from unnest(tables) n join pg_trigger g on g.tgrelid = n and g.tgfoid = 'baton_internal.capture_changes()'::regprocedure
                        where not baton_internal.has_immediate_readers(n)))
       and t.system_identifier = baton_internal.system_identifier() and t.relation_id = t.relation::oid
$$;
comment on function baton_internal.immediate_sources(oid[]) is 'sources with partitions or children that IMMEDIATE stream tables follow';

-- Capture parts of a source that are new: those without any trigger of ours that nobody else uses. Whoever adds a part has a lock on it.
create function baton_internal.capture_new_parts(source oid)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp set client_min_messages = warning
as $$
declare
    part record;
begin
    for part in select distinct t.relation::regclass as relation, t.kind from baton_internal.table_tree(source::regclass) t
                 where t.kind in ('r', 'p') and not exists (select from pg_trigger g where g.tgrelid = t.relation and g.tgfoid = 'baton_internal.capture_changes()'::regprocedure) loop
        begin
            execute format('lock table only %s in share row exclusive mode nowait', part.relation);
            perform baton_internal.make_part_triggers(part.relation, part.kind);
        exception when lock_not_available then
            null;
        end;
    end loop;
end
$$;
comment on function baton_internal.capture_new_parts(oid) is 'lets changes of new partitions and children of a source be captured';

-- Forget stream tables whose tables are being dropped: the view of the query would keep everybody from dropping what the query reads. Nobody's DROP TABLE fails because of
-- that; what cannot be done now maintenance does.
create function baton_internal.forget_dropped_streams()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp set client_min_messages = warning
as $$
declare
    dropped record;
begin
    for dropped in select s as stream, d.object_identity from pg_event_trigger_dropped_objects() d join baton.stream_tables s on s.relation = d.objid
                    where d.classid = 'pg_class'::regclass and d.objsubid = 0 loop
        perform baton_internal.forget_stream(dropped.stream), baton_internal.record_action('forget_stream_table', dropped.object_identity, jsonb_build_object('query', (dropped.stream).query));
    end loop;
exception when others then
    null;
end
$$;
comment on function baton_internal.forget_dropped_streams() is 'forgets stream tables that are dropped by DROP TABLE and the like; called by follow_parts()';

-- After partitions or children came or went: capture the new ones, and bring IMMEDIATE stream tables up to date. Nobody's statement fails or waits for long because of that:
-- what cannot be done now comes with the next statement on a source or with the schedule.
create function baton_internal.follow_parts()
returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
declare
    sources oid[];
begin
    if tg_event = 'sql_drop' and not baton_internal.is_restricted() then
        perform baton_internal.forget_dropped_streams();
    end if;
    if baton_internal.is_restricted() or not exists (select from baton.stream_tables t where t.effective_mode = 'IMMEDIATE') then
        return;  -- what baton does itself needs no following
    elsif tg_event = 'sql_drop' then
        if exists (select from pg_event_trigger_dropped_objects() d where d.object_type = 'trigger' and d.address_names[3] ~ '^~?baton_capture_') then
            sources := baton_internal.immediate_sources(null);
        end if;
    else
        sources := baton_internal.immediate_sources(array(select d.objid from pg_event_trigger_ddl_commands() d where d.classid = 'pg_class'::regclass));
    end if;
    if sources is not null then
        perform baton_internal.follow_parts_of(sources);
    end if;
exception when others then
    null;
end
$$;
comment on function baton_internal.follow_parts() is 'event trigger: captures new parts of sources and refreshes IMMEDIATE stream tables';

create event trigger baton_follow_parts on ddl_command_end when tag in ('CREATE TABLE', 'ALTER TABLE') execute function baton_internal.follow_parts();
comment on event trigger baton_follow_parts is 'new partitions of sources are captured, and IMMEDIATE stream tables follow partitions that come and go';
create event trigger baton_follow_dropped_parts on sql_drop when tag in ('DROP TABLE', 'DROP SCHEMA', 'DROP OWNED') execute function baton_internal.follow_parts();
comment on event trigger baton_follow_dropped_parts is 'IMMEDIATE stream tables follow partitions that are dropped; dropped stream tables are forgotten';
