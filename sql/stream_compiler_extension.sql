-- The compiler of stream tables, see extension/stream/compiler.

-- Make of a query the statement that computes how its result changed since a frontier, or say why there is none. Names are looked up
-- by the caller's search path, with the caller's rights. In `delta` stand :frontier, :frontier_xid, :frontier_step and :table.
create function baton_internal.compile_stream_query(query text, out qualified text, out sources jsonb, out delta text, out reason text, out tree text)
returns record
language c volatile strict
as 'MODULE_PATHNAME', 'baton_compile_stream_query';
comment on function baton_internal.compile_stream_query(text) is 'statement that computes the change of a query''s result';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{compile_stream_query}');
