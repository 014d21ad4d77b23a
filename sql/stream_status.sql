-- What people look at: the state of stream tables, what they did, what they read and how they are computed.

-- State of one or all stream tables.
create function baton.stream_table_status(name text default null)
returns table (stream_table text, state text, refresh_mode text, effective_mode text, reason text, schedule text, next_due timestamptz, refreshed_at timestamptz,
               last_mode text, last_inserted bigint, last_deleted bigint, last_milliseconds numeric, refreshes bigint, failed_in_a_row int, last_error text,
               outbox text, outbox_format text)
language sql
as $$ select * from baton_internal.describe_streams(case when name is not null then baton_internal.resolve_stream(name) end) $$;
comment on function baton.stream_table_status(text) is 'state of one or all stream tables';

-- Describe stream tables. The state is
--   new      not refreshed yet
--   active   refreshed by its schedule
--   manual   refreshed by hand
--   paused   somebody paused it
--   failing  the last refreshes failed, the next is tried with back-off; or publishing is switched off, and they wait
--   stopped  too many failed: repair_stream_table() or alter_stream_table() let it go on
--   broken   what the query reads was dropped
create function baton_internal.describe_streams(relation regclass)
returns table (stream_table text, state text, refresh_mode text, effective_mode text, reason text, schedule text, next_due timestamptz, refreshed_at timestamptz,
               last_mode text, last_inserted bigint, last_deleted bigint, last_milliseconds numeric, refreshes bigint, failed_in_a_row int, last_error text,
               outbox text, outbox_format text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if relation is not null then
        perform baton_internal.find_stream(relation);
    end if;
    return query
    select s.relation::text,
           case when v.oid is null then 'broken' when s.stopped_at is not null then 'stopped' when s.paused then 'paused' when s.failed_in_a_row > 0 or s.last_error like 'BT005:%' then 'failing'
                when s.frontier is null then 'new' when s.schedule is null then 'manual' else 'active' end,
           s.refresh_mode, s.effective_mode, coalesce(s.reason, s.begins_anew), s.schedule, s.next_due, s.refreshed_at, s.last_mode, s.last_inserted, s.last_deleted,
           round(extract(epoch from s.refreshed_at - s.begun_at)::numeric * 1000, 3), s.refreshes, s.failed_in_a_row, s.last_error,
           case when o.relation is not null and not exists (select from pg_class t where t.oid = o.relation) then 'dropped' else o.relation::text end, l.format
      from baton.stream_tables s
      join pg_class c on c.oid = s.relation
      left join pg_class v on v.oid = s.query_view and v.relkind = 'v'
      left join baton_internal.stream_outboxes l on l.stream_id = s.stream_id
      left join baton.outboxes o on o.outbox_id = l.outbox_id
     where describe_streams.relation is null or s.relation = describe_streams.relation
     order by s.relation::text;
end
$$;
comment on function baton_internal.describe_streams(regclass) is 'state of stream tables; called by stream_table_status()';

-- Refreshes that changed something or failed, newest first.
create function baton.stream_table_history(name text default null, most int default 100)
returns table (stream_table text, begun_at timestamptz, mode text, inserted bigint, deleted bigint, milliseconds numeric, outbox_id bigint, error text)
language sql
as $$ select * from baton_internal.stream_history(case when name is not null then baton_internal.resolve_stream(name) end, most) $$;
comment on function baton.stream_table_history(text, int) is 'refreshes that changed something or failed, newest first';

-- Read the history of stream tables.
create function baton_internal.stream_history(relation regclass, most int)
returns table (stream_table text, begun_at timestamptz, mode text, inserted bigint, deleted bigint, milliseconds numeric, outbox_id bigint, error text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if relation is not null then
        perform baton_internal.find_stream(relation);
    end if;
    return query
    select s.relation::text, r.begun_at, r.mode, r.inserted, r.deleted, r.milliseconds, r.event_id, r.error
      from baton_internal.stream_refreshes r join baton.stream_tables s using (stream_id)
     where stream_history.relation is null or s.relation = stream_history.relation
     order by r.begun_at desc, r.entry_id desc limit most;
end
$$;
comment on function baton_internal.stream_history(regclass, int) is 'history of stream tables; called by stream_table_history()';

-- What stream tables read, and the columns of each.
create function baton.stream_table_dependencies(name text default null)
returns table (stream_table text, source text, source_kind text, columns text[], level int)
language sql
as $$ select * from baton_internal.stream_dependencies(case when name is not null then baton_internal.resolve_stream(name) end) $$;
comment on function baton.stream_table_dependencies(text) is 'tables and stream tables that stream tables read';

-- Read what stream tables depend on.
create function baton_internal.stream_dependencies(relation regclass)
returns table (stream_table text, source text, source_kind text, columns text[], level int)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if relation is not null then
        perform baton_internal.find_stream(relation);
    end if;
    return query
    select s.relation::text, r.source::text,
           case when exists (select from baton.stream_tables u where u.relation = r.source) then 'stream table'
                else case c.relkind when 'r' then 'table' when 'p' then 'partitioned table' when 'f' then 'foreign table' when 'm' then 'materialized view' else 'gone' end end,
           array(select a.attname::text from pg_attribute a where a.attrelid = r.source and a.attnum = any (r.columns) order by a.attnum), s.level
      from baton_internal.stream_sources r
      join baton.stream_tables s using (stream_id)
      left join pg_class c on c.oid = r.source
     where stream_dependencies.relation is null or s.relation = stream_dependencies.relation
     order by s.level, s.relation::text, r.source::text;
end
$$;
comment on function baton_internal.stream_dependencies(regclass) is 'sources of stream tables; called by stream_table_dependencies()';

-- Explain how a stream table is computed: mode and reason, what it reads, its operators and the statement.
create function baton.explain_stream_table(name text)
returns setof text
language sql
as $$ select * from baton_internal.explain_stream(baton_internal.resolve_stream(name)) $$;
comment on function baton.explain_stream_table(text) is 'how a stream table is computed, and why it is not differential where it is not';

-- Write the explanation of a stream table.
create function baton_internal.explain_stream(relation regclass)
returns setof text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream constant baton.stream_tables := baton_internal.find_stream(relation);
begin
    return next format('%s: %s', stream.effective_mode, case stream.effective_mode when 'FULL' then 'the query is computed anew and the difference applied'
                                                            else 'the changes of the tables that the query reads are turned into changes of the result' end);
    if stream.reason is not null then
        return next 'not differential: ' || stream.reason;
    end if;
    if stream.begins_anew is not null then
        return next 'the next refresh computes everything: ' || stream.begins_anew;
    end if;
    return query select format('reads %s %s (%s)', d.source_kind, d.source, array_to_string(d.columns, ', ')) from baton_internal.stream_dependencies(relation) d;
    if stream.tree is not null then
        return next 'operators:';
        return query select '  ' || l from regexp_split_to_table(stream.tree, E'\n') l;
    end if;
    return next case stream.effective_mode when 'FULL' then 'query:' else 'changes:' end;
    return query select '  ' || l from regexp_split_to_table(coalesce(stream.delta, baton_internal.stream_query(stream)), E'\n') l;
end
$$;
comment on function baton_internal.explain_stream(regclass) is 'explanation of a stream table; called by explain_stream_table()';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_viewer}',
    '{stream_table_status,describe_streams,stream_table_history,stream_history,stream_table_dependencies,stream_dependencies,explain_stream_table,explain_stream}');
