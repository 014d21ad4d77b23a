-- What a dump must carry: every row that users made. Rows of the install script itself come with the extension.

do $$
declare
    filled_by_script constant text[] := array['installation', 'setting_defaults', 'role_privileges', 'adoption_presets', 'adoption_keys'];
    relation record;
begin
    for relation in
        select c.oid, c.relname from pg_class c
         where c.relnamespace in ('baton'::regnamespace, 'baton_internal'::regnamespace) and c.relkind in ('r', 'S') and c.relpersistence = 'p'
           and c.relname <> all (filled_by_script)
    loop
        perform pg_catalog.pg_extension_config_dump(relation.oid,
                    case relation.relname when 'jobs' then 'where not built_in' else '' end);
    end loop;
end
$$;
