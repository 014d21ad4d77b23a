-- What a refresh needs of its session: a state that it computes from, plans and findings that are kept (extension/stream).

-- Lock tables that a refresh reads and writes, without waiting. Gives one that somebody else has locked, null when all are had.
create function baton_internal.lock_tables(read oid[], written oid[])
returns regclass
language c volatile strict
as 'MODULE_PATHNAME', 'baton_lock_tables';
comment on function baton_internal.lock_tables(oid[], oid[]) is 'locks tables for a refresh, or says which one is locked by somebody else';

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

-- Cancel what runs from now on in this transaction when so much time is over, until end_time_limit(). 0: no limit.
create function baton_internal.begin_time_limit(milliseconds int)
returns void
language c volatile strict
as 'MODULE_PATHNAME', 'baton_begin_time_limit';
comment on function baton_internal.begin_time_limit(int) is 'lets what follows take so long and no longer';

-- End the limit.
create function baton_internal.end_time_limit()
returns void
language c volatile
as 'MODULE_PATHNAME', 'baton_end_time_limit';
comment on function baton_internal.end_time_limit() is 'ends what begin_time_limit() began';

-- Run the statement that applies a refresh and publishes it, with the other arguments as its parameters. The plan is kept.
create function baton_internal.run_publishing(statement text, relation regclass, refresh text, refresh_id text, mode text, skip_empty boolean, name text, magnitude int,
                                              frontier pg_snapshot, frontier_xid xid8, frontier_step int, frontier_time timestamptz)
returns setof record
language c volatile
as 'MODULE_PATHNAME', 'baton_run_publishing';
comment on function baton_internal.run_publishing(text, regclass, text, text, text, boolean, text, int, pg_snapshot, xid8, int, timestamptz) is 'rows of a statement that refreshes a stream table and writes its outbox';

-- Expressions of the statement of a refresh: a row j as jsonb, and the payload of an event for all rows of net (see outcome_rows()).
create function baton_internal.row_expression()
returns text
language sql immutable
as $$ select 'baton_internal.row_json(j)' $$;
comment on function baton_internal.row_expression() is 'expression for a row as jsonb';

create function baton_internal.payload_expression(row_of text)
returns text
language sql immutable
as $$
    select format('baton_internal.delta_json(n.weight::bigint, j, pg_catalog.current_setting(''baton_session.inline_bytes'')::bigint) as payload from net n cross join lateral %s j', row_of)
$$;
comment on function baton_internal.payload_expression(text) is 'expression for the payload of a delta, with what it is made from';

-- Count what a frontier has not seen in change buffers and what it has, and say whether something was missed, in the state that is held.
create function baton_internal.unseen_changes(buffers oid[], frontier pg_snapshot, frontier_xid xid8, frontier_step int, out changes bigint, out missed boolean, out sight pg_snapshot, out seen bigint)
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

-- Remember that there was nothing to do for a stream table after so many rings, for so many milliseconds.
create function baton_internal.note_quiet(stream_id int, sources oid[], rings bigint, longest int)
returns void
language c volatile strict
as 'MODULE_PATHNAME', 'baton_note_quiet';
comment on function baton_internal.note_quiet(int, oid[], bigint, int) is 'remembers that a stream table is up to date';

-- Whether this session knows that there is nothing to do for a stream table.
create function baton_internal.is_quiet(stream_id int)
returns boolean
language c volatile strict
as 'MODULE_PATHNAME', 'baton_is_quiet';
comment on function baton_internal.is_quiet(int) is 'true when nothing happened to a stream table''s sources since a look that found nothing';

-- Remember for which changes of sources and for how many refreshes captured changes were tidied up, and whether they were for these.
create function baton_internal.note_tidied(rings bigint, refreshes bigint)
returns void
language c volatile strict
as 'MODULE_PATHNAME', 'baton_note_tidied';
comment on function baton_internal.note_tidied(bigint, bigint) is 'remembers that captured changes were tidied up';
create function baton_internal.is_tidied(rings bigint, refreshes bigint)
returns boolean
language c volatile strict
as 'MODULE_PATHNAME', 'baton_is_tidied';
comment on function baton_internal.is_tidied(bigint, bigint) is 'true when nothing has happened since captured changes were tidied up';

-- Keep a table from being dropped or altered until the transaction ends; false when it is gone. Waits for whoever is dropping it.
create function baton_internal.keep_table(relation oid)
returns boolean
language c volatile strict
as 'MODULE_PATHNAME', 'baton_keep_table';
comment on function baton_internal.keep_table(oid) is 'locks a table that a refresh is going to write to; false when it was dropped';

-- Find a table that a statement of this session uses which is not over, and that this transaction writes to; null when there is none.
create function baton_internal.table_being_written(tables oid[])
returns regclass
language c volatile strict
as 'MODULE_PATHNAME', 'baton_table_being_written';
comment on function baton_internal.table_being_written(oid[]) is 'table that a running statement of this session may have changed';

-- Whether the present statement is a refresh in a writer's transaction, within the writer's statement.
create function baton_internal.is_immediate_refresh()
returns boolean
language c volatile
as 'MODULE_PATHNAME', 'baton_is_immediate_refresh';
comment on function baton_internal.is_immediate_refresh() is 'true in a refresh that a writer''s statement brings along';
