-- Who may do what with a table that baton works on but does not own. Its owner hands it over by adopting it; whoever works it
-- through baton needs on the table what the work does. baton works as the owner, but gives nobody what the owner did not grant.

-- Refuse a caller who may not act as a table's owner.
create function baton_internal.check_table_owner(relation regclass, deed text)
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    owner oid := (select c.relowner from pg_class c where c.oid = relation);
begin
    if not pg_has_role(baton_internal.caller(), owner, 'usage') then
        raise exception 'only the owner of % can %', relation, deed
            using errcode = 'insufficient_privilege', hint = format('do it as a member of role %s', owner::regrole);
    end if;
end
$$;
comment on function baton_internal.check_table_owner(regclass, text) is 'raises insufficient_privilege unless the caller may act as the owner of a table';

-- Refuse a table that the caller may not hand over, or that cannot be worked as its owner.
create function baton_internal.check_table_adoptable(relation regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    class pg_class;
    late text;
begin
    select c.* into class from pg_class c where c.oid = relation;
    if class.relkind not in ('r', 'p') then
        raise exception '% is not a table but a %', relation, case class.relkind when 'f' then 'foreign table' when 'v' then 'view'
                        when 'm' then 'materialized view' when 'S' then 'sequence' else 'relation of another kind' end
            using errcode = 'wrong_object_type', hint = 'rows are claimed with row locks, which only a table of this database has';
    end if;
    if class.relpersistence = 't' or class.relnamespace::regnamespace::text in ('pg_catalog', 'information_schema', 'baton', 'baton_internal') then
        raise exception '% cannot be adopted', relation using errcode = 'wrong_object_type', hint = 'adopt a permanent table of your own';
    end if;
    perform baton_internal.check_table_owner(relation, 'adopt it');
    select t.tgname into late from pg_trigger t
     where t.tgrelid in (select relation union select p.relid from pg_partition_tree(relation) p) and t.tginitdeferred and not t.tgisinternal limit 1;
    if found then
        raise exception 'trigger "%" of % is initially deferred', late, relation using errcode = 'object_not_in_prerequisite_state',
            detail = 'it would run at the end of the transaction, as whoever commits',
            hint = 'make it initially immediate';
    end if;
    perform baton_internal.change_as_owner(relation, 'select');
end
$$;
comment on function baton_internal.check_table_adoptable(regclass) is 'raises unless the caller may adopt a table and baton can work it';

-- Refuse a caller who may not change how an adopted table is worked.
create function baton_internal.check_inbox_change(box baton.inboxes)
returns void
language plpgsql stable
as $$
begin
    if box.layout <> 'managed' then
        perform baton_internal.check_table_owner(box.relation, 'change the inbox on it');
    end if;
end
$$;
comment on function baton_internal.check_inbox_change(baton.inboxes) is 'raises insufficient_privilege unless the caller may change an inbox';

-- Refuse a caller to whom the owner of an adopted table has not granted what the work needs.
create function baton_internal.check_table_grants(relation regclass, needed text[])
returns void
language plpgsql stable
as $$
declare
    privilege text;
    worker text := baton_internal.caller();
begin
    if exists (select from pg_catalog.pg_class c join pg_catalog.pg_roles r on r.rolname = worker
                where c.oid = relation and c.relrowsecurity and not (r.rolsuper or r.rolbypassrls or pg_has_role(r.oid, c.relowner, 'usage'))) then
        raise exception 'row-level security of table % applies to %', relation, quote_ident(worker)
            using errcode = 'insufficient_privilege', detail = 'baton works the table as its owner and would show rows that policies hide',
                  hint = format('work it as a member of role %s', (select c.relowner::regrole from pg_catalog.pg_class c where c.oid = relation));
    end if;
    foreach privilege in array needed loop
        if not (case privilege when 'delete' then has_table_privilege(worker, relation, 'delete')
                               else has_any_column_privilege(worker, relation, privilege) end) then
            raise exception 'permission denied for table %', relation
                using errcode = 'insufficient_privilege', detail = format('%s has no %s privilege on it', quote_ident(worker), upper(privilege)),
                      hint = format('as its owner: grant %s on %s to %I', array_to_string(needed, ', '), relation, worker);
        end if;
    end loop;
end
$$;
comment on function baton_internal.check_table_grants(regclass, text[]) is 'raises insufficient_privilege where the caller lacks a privilege on an adopted table, or may see only some of the rows';

-- The same for an inbox; baton's own tables are worked by role alone.
create function baton_internal.check_inbox_grants(box baton.inboxes, needed text[])
returns void
language plpgsql stable
as $$
begin
    if box.layout <> 'managed' then
        perform baton_internal.check_table_grants(box.relation, needed);
    end if;
end
$$;
comment on function baton_internal.check_inbox_grants(baton.inboxes, text[]) is 'raises insufficient_privilege where the caller lacks a privilege on the table of an adopted inbox';
