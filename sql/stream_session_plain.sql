-- What a refresh needs of its session, without the extension: one statement is one state, and nobody keeps anything.

-- Lock tables that a refresh reads and writes, without waiting. Gives one that somebody else has locked, null when all are had. What baton may not lock by itself, such as a
-- table below a view, the query may wait for.
create function baton_internal.lock_tables(read oid[], written oid[])
returns regclass
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    it record;
begin
    for it in select r.id, 'access share' as mode from unnest(read) r (id) union all select w.id, 'row exclusive' from unnest(written) w (id) loop
        begin
            execute format('lock table only %s in %s mode nowait', it.id::regclass, it.mode);
        exception
            when lock_not_available then
                return it.id;
            when undefined_table or wrong_object_type or insufficient_privilege or syntax_error then
                null;
        end;
    end loop;
    return null;
end
$$;
comment on function baton_internal.lock_tables(oid[], oid[]) is 'locks tables for a refresh, or says which one is locked by somebody else';

create function baton_internal.hold_state(tables oid[])
returns void
language sql immutable
as $$ select $$;
comment on function baton_internal.hold_state(oid[]) is 'nothing: the statement of a refresh has a snapshot of its own';

create function baton_internal.release_state()
returns void
language sql immutable
as $$ select $$;
comment on function baton_internal.release_state() is 'nothing, as hold_state()';

create function baton_internal.begin_time_limit(milliseconds int)
returns void
language sql immutable
as $$ select $$;
comment on function baton_internal.begin_time_limit(int) is 'nothing: statement_timeout of whoever runs the jobs is the limit';

create function baton_internal.end_time_limit()
returns void
language sql immutable
as $$ select $$;
comment on function baton_internal.end_time_limit() is 'nothing, as begin_time_limit()';

create function baton_internal.run_refresh(relation regclass, statement text, magnitude int, frontier pg_snapshot, frontier_xid xid8, frontier_step int, frontier_time timestamptz)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform baton_internal.check_table_owners(array[relation]);
    return query execute statement;
end
$$;
comment on function baton_internal.run_refresh(regclass, text, int, pg_snapshot, xid8, int, timestamptz) is 'rows of a statement that refreshes a stream table';

create function baton_internal.run_publishing(statement text, relation regclass, refresh text, refresh_id text, mode text, skip_empty boolean, name text, magnitude int,
                                              frontier pg_snapshot, frontier_xid xid8, frontier_step int, frontier_time timestamptz)
returns setof record
language plpgsql
as $$
begin
    return query execute statement using relation, refresh, refresh_id, mode, skip_empty, name, magnitude, frontier, frontier_xid, frontier_step, frontier_time;
end
$$;
comment on function baton_internal.run_publishing(text, regclass, text, text, text, boolean, text, int, pg_snapshot, xid8, int, timestamptz) is 'rows of a statement that refreshes a stream table and writes its outbox';

create function baton_internal.holds_state()
returns boolean
language sql immutable
as $$ select true $$;
comment on function baton_internal.holds_state() is 'true: there is nothing to hold';

create function baton_internal.row_expression()
returns text
language sql immutable
as $$ select 'to_jsonb(j)' $$;
comment on function baton_internal.row_expression() is 'expression for a row as jsonb';

create function baton_internal.payload_expression(row_of text)
returns text
language sql immutable
as $$
    select format($sql$jsonb_build_object('v', 1, 'inserted', coalesce(jsonb_agg(j) filter (where n.weight > 0), '[]'),
                                      'deleted', coalesce(jsonb_agg(j) filter (where n.weight < 0), '[]')) as payload from each n cross join lateral %s j$sql$, row_of)
$$;
comment on function baton_internal.payload_expression(text) is 'expression for the payload of a delta, with what it is made from';

create function baton_internal.is_quiet(stream_id int)
returns boolean
language sql immutable
as $$ select false $$;
comment on function baton_internal.is_quiet(int) is 'false: a full refresh is the only way to find out';
