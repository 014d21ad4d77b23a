-- The compiler of stream tables, see extension/stream/compiler.

-- Whether a frontier has not seen a row of a change buffer: the transaction was not visible in its snapshot. Of the transaction that
-- refreshed, only the steps up to its own are seen.
create function baton_internal.is_unseen_support(internal)
returns internal
language c strict
as 'MODULE_PATHNAME', 'baton_is_unseen_support';
comment on function baton_internal.is_unseen_support(internal) is 'tells the planner how many rows of a change buffer are unseen';

create function baton_internal.is_unseen(xid xid8, step int, frontier pg_snapshot, frontier_xid xid8, frontier_step int)
returns boolean
language c immutable parallel safe
support baton_internal.is_unseen_support
as 'MODULE_PATHNAME', 'baton_is_unseen';
comment on function baton_internal.is_unseen(xid8, int, pg_snapshot, xid8, int) is 'whether a row of a change buffer is news to a frontier';

-- The same for the frontier of the refresh that runs now: the statement of a refresh names none, so its plan can be kept.
create function baton_internal.is_unseen(xid xid8, step int)
returns boolean
language c stable strict parallel restricted
support baton_internal.is_unseen_support
as 'MODULE_PATHNAME', 'baton_is_unseen_now';
comment on function baton_internal.is_unseen(xid8, int) is 'whether a row of a change buffer is news to the refresh that runs now';

-- The time of the last refresh, for the refresh that runs now.
create function baton_internal.frontier_time()
returns timestamptz
language c stable parallel restricted
as 'MODULE_PATHNAME', 'baton_frontier_time';
comment on function baton_internal.frontier_time() is 'what now() was at the last refresh of the stream table that is refreshed now';

-- Make of a query the statement that computes how its result changed since a frontier, or say why there is none. Names are looked up
-- by the caller's search path, with the caller's rights. In `delta` :table stands for the stream table.
create function baton_internal.compile_stream_query(query text, out qualified text, out sources jsonb, out delta text, out reason text, out tree text)
returns record
language c volatile strict
set quote_all_identifiers = off
as 'MODULE_PATHNAME', 'baton_compile_stream_query';
comment on function baton_internal.compile_stream_query(text) is 'statement that computes the change of a query''s result';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{compile_stream_query}');
select baton_internal.declare_privileges('execute', '{baton_producer,baton_consumer,baton_operator}', '{is_unseen,frontier_time}');
