-- What a refresh needs of its session, without the extension: one statement is one state, and nobody keeps anything.

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

create function baton_internal.holds_state()
returns boolean
language sql immutable
as $$ select true $$;
comment on function baton_internal.holds_state() is 'true: there is nothing to hold';

create function baton_internal.is_quiet(stream_id int)
returns boolean
language sql immutable
as $$ select false $$;
comment on function baton_internal.is_quiet(int) is 'false: a full refresh is the only way to find out';
