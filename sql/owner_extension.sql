-- Whose rights: a statement on a user's table runs as the table's owner. The table's triggers, defaults, policies and
-- expressions of indexes are its owner's code, and would else run with the rights of baton's owner.
--
-- A statement gets its values as $1 (a moment), $2 (ids) and $3 (whatever else, as JSON), so that both install forms have
-- the same signature. It sees pg_catalog and the table owner's tables, never baton's: what baton knows goes in as a value.

-- Run a statement as the owner of a table, in a restricted context, and return its rows.
create function baton_internal.run_as_owner(relation regclass, statement text, moment timestamptz default null, ids text[] default null,
                                            arguments jsonb default null, companions regclass[] default '{}')
returns setof record
language c volatile
as 'MODULE_PATHNAME', 'baton_run_as_owner';
comment on function baton_internal.run_as_owner(regclass, text, timestamptz, text[], jsonb, regclass[]) is
    'rows of a statement that runs with the rights of a table''s owner';

-- The same for a statement without rows; returns how many it changed.
create function baton_internal.change_as_owner(relation regclass, statement text, moment timestamptz default null, ids text[] default null,
                                               arguments jsonb default null, companions regclass[] default '{}')
returns bigint
language c volatile
as 'MODULE_PATHNAME', 'baton_change_as_owner';
comment on function baton_internal.change_as_owner(regclass, text, timestamptz, text[], jsonb, regclass[]) is
    'runs a statement with the rights of a table''s owner';

-- Name the owner as whom a statement runs right now, null outside of such statements.
create function baton_internal.acting_role()
returns name
language c stable
as 'MODULE_PATHNAME', 'baton_acting_role';
comment on function baton_internal.acting_role() is 'the table owner with whose rights the current statement runs';

-- Whether the server runs somebody's code within a statement of somebody else: ANALYZE, CREATE INDEX, REFRESH MATERIALIZED VIEW and the
-- like run the code of a table as the table's owner, while the session is of whoever gave the statement.
create function baton_internal.is_restricted()
returns boolean
language c volatile
as 'MODULE_PATHNAME', 'baton_is_restricted';
comment on function baton_internal.is_restricted() is 'true in a security-restricted operation, in which the session does not tell who calls';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_operator,baton_viewer,baton_relay}', '{acting_role,is_restricted,known_caller}');
