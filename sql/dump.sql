-- What a dump must carry: every row that users made. Rows of the install script itself come with the extension.

do $$
declare
    filled_by_script constant text[] := array['installation', 'setting_defaults', 'role_privileges', 'adoption_presets', 'adoption_keys',
                                              'adoption_refusals'];
    of_this_server constant text[] := array['clock_marks'];  -- the worker may write there before the dump is loaded
    relation record;
begin
    for relation in
        select c.oid, c.relname from pg_class c
         where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and c.relkind in ('r', 'S') and c.relpersistence = 'p'
           and c.relname <> all (filled_by_script || of_this_server)
    loop
        perform pg_catalog.pg_extension_config_dump(relation.oid,
                    case relation.relname when 'jobs' then 'where not built_in' else '' end);
    end loop;
end
$$;

-- Several jobs of pg_restore load these tables in any order, while their foreign keys are there already: what comes before its parent would
-- be refused. So a row's parent is not looked for; a parent's end still takes its rows along.
do $$
declare
    look record;
begin
    for look in
        select t.tgrelid::regclass as relation, t.tgname
          from pg_trigger t
          join pg_constraint c on c.oid = t.tgconstraint and c.contype = 'f'
          join pg_extension x on x.extname = 'baton' and c.conrelid = any (x.extconfig) and c.confrelid = any (x.extconfig)
         where t.tgfoid in ('pg_catalog."RI_FKey_check_ins"'::regproc, 'pg_catalog."RI_FKey_check_upd"'::regproc)
    loop
        execute format('alter table %s disable trigger %I', look.relation, look.tgname);
    end loop;
end
$$;
