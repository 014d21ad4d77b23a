-- Publications, such as Debezium's FOR ALL TABLES: the server refuses to update or delete rows of a published table that has no replica identity. So every table
-- of baton's from which rows go has one: its primary key, or all columns.

-- Whether the server lets rows of a table be deleted while a publication publishes deletes.
create function baton_internal.has_row_identity(relation regclass)
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case c.relreplident when 'f' then true
                               when 'd' then exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and i.indisvalid and i.indimmediate)
                               when 'i' then exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident and i.indisvalid)
                               else false end
      from pg_class c where c.oid = relation
$$;
comment on function baton_internal.has_row_identity(regclass) is 'whether rows of a table can be deleted while it is published';

-- Let rows of a table be deleted while it is published. Nothing happens where they can be.
create function baton_internal.identify_rows(relation regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not baton_internal.has_row_identity(relation) then
        execute format('alter table %s replica identity full', relation);
    end if;
end
$$;
comment on function baton_internal.identify_rows(regclass) is 'lets rows of a table be deleted while a publication has the table';

-- The same for several; a table that somebody uses is left for the next time.
create function baton_internal.identify_idle_rows(relations regclass[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    relation regclass;
begin
    for relation in select r from unnest(relations) r where not baton_internal.has_row_identity(r) loop
        begin
            execute format('lock table only %s in access exclusive mode nowait', relation);
            perform baton_internal.identify_rows(relation);
        exception when lock_not_available or undefined_table then
            null;
        end;
    end loop;
end
$$;
comment on function baton_internal.identify_idle_rows(regclass[]) is 'lets rows of tables be deleted while a publication has them, where nobody uses them now';
