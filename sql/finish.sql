-- Runs last: nothing in the schemas is open to anybody but the owner, whatever the installer's default privileges are; then the roles get what was declared.

revoke all on all functions in schema baton, baton_internal from public;
revoke all on all procedures in schema baton, baton_internal from public;
revoke all on all tables in schema baton, baton_internal from public;
select baton_internal.close_to_others('schema', quote_ident(n.nspname), n.nspowner, n.nspacl) from pg_catalog.pg_namespace n where n.nspname in ('baton', 'baton_internal');
select baton_internal.close_to_others(c.oid::regclass)
  from pg_catalog.pg_class c
 where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and c.relkind in ('r', 'p', 'v', 'm', 'S');
select baton_internal.close_to_others('routine', p.oid::regprocedure::text, p.proowner, p.proacl)
  from pg_catalog.pg_proc p where p.pronamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and p.proacl is not null;
select baton.grant_roles();
