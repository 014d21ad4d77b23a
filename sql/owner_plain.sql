-- Whose rights, without the extension: a function cannot become somebody else safely, so a statement on a user's table
-- runs as baton's owner. That gives nothing away only where the table belongs to somebody who may act as baton's owner
-- anyway; other tables are refused.
--
-- A statement gets its values as $1 (a moment), $2 (ids) and $3 (whatever else, as JSON), so that both install forms have
-- the same signature.

-- Refuse tables of which a part belongs to somebody who may not act as the present user.
create function baton_internal.check_table_owners(tables regclass[])
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    stranger record;
begin
    with recursive parts (relation) as (
        select t::oid from unnest(tables) t
        union
        select i.inhrelid from parts p join pg_inherits i on i.inhparent = p.relation
    )
    select p.relation::regclass as relation, c.relowner::regrole as owner into stranger
      from parts p join pg_class c on c.oid = p.relation
     where c.relowner <> current_user::regrole and not pg_has_role(c.relowner, current_user::regrole, 'usage') limit 1;
    if found then
        raise exception 'table % belongs to %, who may not act as %, the owner of baton', stranger.relation, stranger.owner, quote_ident(current_user)
            using errcode = 'insufficient_privilege',
                  detail = 'its triggers would run with the rights of baton''s owner',
                  hint = format('install baton as %s, give the table to %I, or use the extension, which works on a table as its owner',
                                stranger.owner, current_user);
    end if;
end
$$;
comment on function baton_internal.check_table_owners(regclass[]) is 'raises insufficient_privilege for tables whose owner may not act as the current user';

-- Run a statement on a table whose owner may act as baton's, and return its rows.
create function baton_internal.run_as_owner(relation regclass, statement text, moment timestamptz default null, ids text[] default null,
                                            arguments jsonb default null, companions regclass[] default '{}')
returns setof record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform baton_internal.check_table_owners(relation || companions);
    return query execute statement using moment, ids, arguments;
end
$$;
comment on function baton_internal.run_as_owner(regclass, text, timestamptz, text[], jsonb, regclass[]) is
    'rows of a statement on a table whose owner may act as baton''s owner';

-- The same for a statement without rows; returns how many it changed.
create function baton_internal.change_as_owner(relation regclass, statement text, moment timestamptz default null, ids text[] default null,
                                               arguments jsonb default null, companions regclass[] default '{}')
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    changed bigint;
begin
    perform baton_internal.check_table_owners(relation || companions);
    execute statement using moment, ids, arguments;
    get diagnostics changed = row_count;
    return changed;
end
$$;
comment on function baton_internal.change_as_owner(regclass, text, timestamptz, text[], jsonb, regclass[]) is
    'runs a statement on a table whose owner may act as baton''s owner';

-- Name the owner as whom a statement runs right now: nobody, because none does.
create function baton_internal.acting_role()
returns name
language sql stable
as $$ select null::name $$;
comment on function baton_internal.acting_role() is 'the table owner with whose rights the current statement runs';

-- Whether the server runs somebody's code within a statement of somebody else: ANALYZE, CREATE INDEX, REFRESH MATERIALIZED VIEW and the
-- like run the code of a table as the table's owner, while the session is of whoever gave the statement. There the server refuses to close
-- a cursor; everywhere else it only misses this one.
create function baton_internal.is_restricted()
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    execute 'close "baton: a cursor that nobody has"';
    return false;
exception
    when insufficient_privilege then
        return true;
    when invalid_cursor_name then
        return false;
end
$$;
comment on function baton_internal.is_restricted() is 'true in a security-restricted operation, in which the session does not tell who calls';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_operator,baton_viewer,baton_relay}', '{acting_role,is_restricted,known_caller}');
