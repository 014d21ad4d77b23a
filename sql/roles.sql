-- The five roles. They are created when the installer may create roles; where it may not, an
-- administrator creates them and runs baton.grant_roles() again.

do $$
declare
    role_name text;
    missing   text[] := '{}';
begin
    foreach role_name in array array['baton_producer', 'baton_consumer', 'baton_relay',
                                     'baton_operator', 'baton_viewer'] loop
        begin
            if to_regrole(role_name) is null then
                execute format('create role %I nologin', role_name);
            end if;
        exception
            when insufficient_privilege then
                missing := missing || role_name;
            when duplicate_object or unique_violation then
                null;  -- another database of this server is being installed at the same moment
        end;
    end loop;
    if cardinality(missing) > 0 then
        raise notice 'these roles were not created, because the installing user may not create roles: %', array_to_string(missing, ', ')
            using hint = 'let an administrator run: '
                         || (select string_agg(format('create role %I nologin;', r), ' ') from unnest(missing) r)
                         || ' then run baton init again, or select baton.grant_roles()';
    end if;
end
$$;

-- Which role may execute which function or procedure, and which table or view it may read.
create table baton_internal.role_privileges (
    role_name text not null,
    object    text not null,  -- a function's name, or a relation's, without schema
    privilege text not null check (privilege in ('execute', 'select')),
    primary key (role_name, object, privilege)
);
comment on table baton_internal.role_privileges is 'what baton.grant_roles() grants, declared next to each function';

-- Declare that the roles may use the named objects.
create function baton_internal.declare_privileges(privilege text, role_names text[], objects text[])
returns void
language sql
as $$
    insert into baton_internal.role_privileges (privilege, role_name, object)
    select $1, r, o from unnest($2) r cross join unnest($3) o
    on conflict do nothing
$$;
comment on function baton_internal.declare_privileges(text, text[], text[]) is 'declares what baton.grant_roles() will grant';

-- Take from everybody but the owner what ALTER DEFAULT PRIVILEGES has granted on a new object: `kind` is schema, table, sequence or routine. Whoever may
-- write to baton's own tables could have code run as the owner; and a partition has no row-level security. `object` is a name as the caller's search path has it.
create function baton_internal.close_to_others(kind text, object text, owner oid, acl aclitem[])
returns void
language plpgsql
as $$
declare
    grantee oid;
begin
    for grantee in select distinct a.grantee from pg_catalog.aclexplode(acl) a where a.grantee <> owner loop
        execute pg_catalog.format('revoke all on %s %s from %s cascade', kind, object, case grantee when 0 then 'public' else quote_ident(pg_catalog.pg_get_userbyid(grantee)) end);
    end loop;
end
$$;
comment on function baton_internal.close_to_others(text, text, oid, aclitem[]) is 'revokes every privilege on an object, except the owner''s';

-- The same for one table, view or sequence. What was granted on single columns goes along: to revoke a right on a table is to revoke it on each column.
create function baton_internal.close_to_others(relation regclass)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    select baton_internal.close_to_others(case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass::text, c.relowner,
               c.relacl || (select array_agg(g) from pg_attribute a cross join lateral unnest(a.attacl) g where a.attrelid = c.oid))
      from pg_class c where c.oid = relation
$$;
comment on function baton_internal.close_to_others(regclass) is 'revokes every privilege on a table and its columns, except the owner''s';

-- Grant to the five roles what was declared, skipping roles that do not exist.
create function baton.grant_roles()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    p record;
begin
    for p in
        select distinct rp.role_name
          from baton_internal.role_privileges rp
         where to_regrole(rp.role_name) is not null
    loop
        execute format('grant usage on schema baton, baton_internal to %I', p.role_name);
    end loop;
    for p in
        select rp.role_name, f.oid::regprocedure as signature
          from baton_internal.role_privileges rp
          join pg_catalog.pg_proc f on f.proname = rp.object and f.pronamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace)
         where rp.privilege = 'execute' and to_regrole(rp.role_name) is not null
    loop
        execute format('grant execute on routine %s to %I', p.signature, p.role_name);
    end loop;
    for p in
        select rp.role_name, c.oid::regclass as relation
          from baton_internal.role_privileges rp
          join pg_catalog.pg_class c on c.relname = rp.object and c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace)
         where rp.privilege = 'select' and to_regrole(rp.role_name) is not null
    loop
        execute format('grant select on %s to %I', p.relation, p.role_name);
    end loop;
end
$$;
comment on function baton.grant_roles() is 'grants the declared privileges to the baton roles that exist';
