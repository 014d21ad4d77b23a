-- What a refresh needs of its session: a state that it computes from, plans and findings that are kept (extension/stream).

-- Hold one state of the database, for everything that is refreshed from now on in this transaction. The tables are locked first: see held_state.hpp.
create function baton_internal.hold_state(tables oid[])
returns void
language c volatile strict
as 'MODULE_PATHNAME', 'baton_hold_state';
comment on function baton_internal.hold_state(oid[]) is 'locks tables against TRUNCATE and the like and takes the snapshot that refreshes compute from';

-- Let go of that state.
create function baton_internal.release_state()
returns void
language c volatile
as 'MODULE_PATHNAME', 'baton_release_state';
comment on function baton_internal.release_state() is 'ends what hold_state() began';

-- Whether a state is held: a subtransaction that is rolled back lets go of what it took.
create function baton_internal.holds_state()
returns boolean
language c volatile
as 'MODULE_PATHNAME', 'baton_holds_state';
comment on function baton_internal.holds_state() is 'true between hold_state() and release_state()';

-- Run the statement of a refresh as the owner of the stream table, on the state that is held. The plan is kept for changes of the same magnitude, null keeps none.
create function baton_internal.run_refresh(relation regclass, statement text, magnitude int, frontier pg_snapshot, frontier_xid xid8, frontier_step int, frontier_time timestamptz)
returns setof record
language c volatile
as 'MODULE_PATHNAME', 'baton_run_refresh';
comment on function baton_internal.run_refresh(regclass, text, int, pg_snapshot, xid8, int, timestamptz) is 'rows of a statement that refreshes a stream table';

-- Count what a frontier has not seen in change buffers, and say whether something was missed, in the state that is held.
create function baton_internal.unseen_changes(buffers oid[], frontier pg_snapshot, frontier_xid xid8, frontier_step int, out changes bigint, out missed boolean, out sight pg_snapshot)
language c volatile
as 'MODULE_PATHNAME', 'baton_unseen_changes';
comment on function baton_internal.unseen_changes(oid[], pg_snapshot, xid8, int) is 'how many changes are new to a frontier';

-- How many changes of tables, roles, schemas and functions the server has told this session of.
create function baton_internal.alterations()
returns bigint
language c volatile
as 'MODULE_PATHNAME', 'baton_alterations';
comment on function baton_internal.alterations() is 'number that a change of the database''s make-up changes';

-- Remember a finding about a stream table until one of the tables is altered; not when anything was since the number that alterations() gave.
create function baton_internal.keep_in_mind(stream_id int, known jsonb, tables oid[], since bigint)
returns void
language c volatile strict
as 'MODULE_PATHNAME', 'baton_keep_in_mind';
comment on function baton_internal.keep_in_mind(int, jsonb, oid[], bigint) is 'remembers what was found out about a stream table';

-- What this session remembers about a stream table; null when nothing that still holds.
create function baton_internal.recall(stream_id int)
returns jsonb
language c volatile strict
as 'MODULE_PATHNAME', 'baton_recall';
comment on function baton_internal.recall(int) is 'what this session found out about a stream table';

-- A number that changes with each commit of a change to one of the sources.
create function baton_internal.source_rings(sources oid[])
returns bigint
language c volatile strict
as 'MODULE_PATHNAME', 'baton_source_rings';
comment on function baton_internal.source_rings(oid[]) is 'number that a commit of changes to sources changes';

-- Remember that there was nothing to do for a stream table after so many rings.
create function baton_internal.note_quiet(stream_id int, sources oid[], rings bigint)
returns void
language c volatile strict
as 'MODULE_PATHNAME', 'baton_note_quiet';
comment on function baton_internal.note_quiet(int, oid[], bigint) is 'remembers that a stream table is up to date';

-- Whether this session knows that there is nothing to do for a stream table.
create function baton_internal.is_quiet(stream_id int)
returns boolean
language c volatile strict
as 'MODULE_PATHNAME', 'baton_is_quiet';
comment on function baton_internal.is_quiet(int) is 'true when nothing happened to a stream table''s sources since a look that found nothing';

-- Whether the present statement is a refresh in a writer's transaction, within the writer's statement.
create function baton_internal.is_immediate_refresh()
returns boolean
language c volatile
as 'MODULE_PATHNAME', 'baton_is_immediate_refresh';
comment on function baton_internal.is_immediate_refresh() is 'true in a refresh that a writer''s statement brings along';

-- Refresh the stream tables in mode IMMEDIATE that read one of these sources. Called when a writer's statement has been captured.
create function baton_internal.refresh_immediately(sources oid[], recompute boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    stream regclass;
begin
    for stream in select distinct on (t.level, t.stream_id) t.relation
                    from baton.stream_tables t join baton_internal.stream_sources s using (stream_id)
                   where s.source = any (sources) and s.captured is not null and t.effective_mode = 'IMMEDIATE' and t.frontier is not null and not t.paused
                   order by t.level, t.stream_id loop
        perform baton_internal.refresh_stream(stream, recompute);
    end loop;
end
$$;
comment on function baton_internal.refresh_immediately(oid[], boolean) is 'refreshes what follows sources in the writer''s transaction';
