-- Change buffers: what the sources of stream tables went through, written by triggers in the writer's transaction.
--
-- baton_internal.changes_<number of the source>: xid (the writer's top transaction), step (of how many captured statements of the transaction this is one),
-- weight (+1: the row is there now, -1: no more, 0: something was missed, so nobody may rely on the buffer up to here), and a column c<attnum> for each column
-- that somebody wants. The sum of weights of a row is by how many the row has become more. An UPDATE that changes none of the columns leaves nothing. A row that fills a page has no
-- room beside these, and is missed.
--
-- A buffer is a source's by its dependency on the source: it goes with the source, and a buffer out of a dump, whose number may be another table's now, is nobody's.

-- Write the changes that a trigger tells of into the change buffer of its table, or of the table of which this one is a part. Does nothing without a buffer.
create function baton_internal.capture_changes()
returns trigger
language c volatile
as 'MODULE_PATHNAME', 'baton_capture_changes';
comment on function baton_internal.capture_changes() is 'trigger: writes changes of a source into its change buffer';

-- Tell how many statements of the present transaction were captured so far. What is captured later has a higher step.
create function baton_internal.current_step()
returns int
language c volatile parallel restricted
as 'MODULE_PATHNAME', 'baton_current_step';
comment on function baton_internal.current_step() is 'number of the last captured statement of this transaction, 0 before the first';

-- Let a change buffer go with its source.
create function baton_internal.tie_buffer(buffer regclass, source regclass)
returns void
language c volatile strict
as 'MODULE_PATHNAME', 'baton_tie_buffer';
comment on function baton_internal.tie_buffer(regclass, regclass) is 'makes a table the change buffer of a source';

-- Find the change buffer of a source; null when there is none. In PL/pgSQL, which keeps the plans: every refresh asks.
create function baton_internal.change_buffer(source regclass)
returns regclass
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select c.oid::regclass
              from pg_class c
              join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.refclassid = 'pg_class'::regclass and d.refobjid = source and d.deptype = 'a'
             where c.relname = 'changes_' || source::oid and c.relnamespace = 'baton_internal'::regnamespace);
end
$$;
comment on function baton_internal.change_buffer(regclass) is 'change buffer of a source, null when there is none';

-- List a table and all partitions and children below it. `tied` tells one attachment from the next.
create function baton_internal.table_tree(source regclass)
returns table (relation oid, parent oid, tied text, kind "char", persistence "char")
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with recursive tree (part, above, since) as (
            select source::oid, null::oid, null::text
            union
            select i.inhrelid, i.inhparent, concat_ws(' ', i.xmin, i.ctid, i.inhdetachpending) from tree t join pg_inherits i on i.inhparent = t.part
        )
        select t.part, t.above, t.since, c.relkind, c.relpersistence from tree t join pg_class c on c.oid = t.part;
end
$$;
comment on function baton_internal.table_tree(regclass) is 'a table with its partitions and children';

-- Say why the changes of a table's columns cannot be captured; null when they can.
create function baton_internal.capture_refusal(source regclass, columns int2[])
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (select case when c.relkind in ('v', 'm', 'f', 'S', 'c', 'i', 'I', 't')
                     then format('%s is a %s', source, case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' else 'relation without triggers' end)
                     when c.oid < 16384 then format('%s is a table of the server', source) end
           from pg_class c where c.oid = source),
        (select format('%s is a part of %s: a statement there fires no triggers here', source, i.inhparent::regclass) from pg_inherits i where i.inhrelid = source limit 1),
        (select format('%s is %s', t.relation::regclass, case t.persistence when 't' then 'temporary' else 'unlogged: a crash empties it' end)
           from baton_internal.table_tree(source) t where t.persistence <> 'p' limit 1),
        (select format('%s is a foreign table', t.relation::regclass) from baton_internal.table_tree(source) t where t.kind = 'f' limit 1),
        (select format('%s is a part of %s, too', i.inhrelid::regclass, i.inhparent::regclass)
           from pg_inherits i
          where i.inhrelid in (select t.relation from baton_internal.table_tree(source) t)
            and i.inhparent not in (select t.relation from baton_internal.table_tree(source) t) limit 1),
        (select format('%s columns of %s are more than a change buffer takes: 1590', w.count, source)
           from pg_class c, lateral (select count(*) from baton_internal.buffer_columns(source, baton_internal.change_buffer(source), columns) b where b.type is not null) w
          where c.oid = source and c.relnatts > 1590 and w.count > 1590),
        (select format('system column %s of %s is no column that triggers see', coalesce(a.attname::text, '*'), source)
           from unnest(columns) n left join pg_attribute a on a.attrelid = source and a.attnum = n where n <= 0 limit 1),
        (select format('column %I of %s is computed when it is read', a.attname, source)
           from pg_attribute a where a.attrelid = source and a.attnum = any (columns) and a.attgenerated = 'v' limit 1))
$$;
comment on function baton_internal.capture_refusal(regclass, int2[]) is 'why changes of a table cannot be captured, null when they can';

-- Whether somebody may apply changes of another server here. Logical replication fires row triggers only, which cost every writer something; so they are
-- there from the first replication origin of the server on. Their coming and going changes the fingerprint of every source.
create function baton_internal.is_replicated()
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select exists (select from pg_replication_origin) $$;
comment on function baton_internal.is_replicated() is 'whether logical replication may apply changes on this server';

-- List the triggers that a table of this kind has for its capture, as the catalog writes them. Statement triggers see what sessions do. Where changes are
-- replicated they leave sessions that act as a replica to a row trigger, which fires nowhere else; where somebody is refreshed in the writer's transaction they fire there,
-- too, and the row trigger is for rows without a statement. BEFORE TRUNCATE ours is the last, after triggers of users
-- which change rows.
create function baton_internal.capture_triggers(kind "char", replicated boolean, immediate boolean)
returns table (name text, type int2, enabled "char", definition text)
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select v.name, v.type, case when v.type in (4, 8, 16, 30) and (immediate or not replicated) then 'A' else v.enabled end, v.definition
      from (values ('~baton_capture_begin', 30::int2, 'O'::"char", 'before insert or update or delete on %s for each statement'),
                   ('baton_capture_insert', 4::int2, 'O'::"char", 'after insert on %s referencing new table as new_rows for each statement'),
                   ('baton_capture_update', 16::int2, 'O'::"char", 'after update on %s referencing old table as old_rows new table as new_rows for each statement'),
                   ('baton_capture_delete', 8::int2, 'O'::"char", 'after delete on %s referencing old table as old_rows for each statement'),
                   ('baton_capture_replica', 29::int2, 'R'::"char", 'after insert or update or delete on %s for each row'),
                   ('~baton_capture_truncate', 34::int2, 'A'::"char", 'before truncate on %s for each statement'),
                   ('baton_capture_truncated', 32::int2, 'A'::"char", 'after truncate on %s for each statement')) v (name, type, enabled, definition)
     where case v.type when 29 then kind = 'r' and replicated when 34 then kind = 'r' when 30 then immediate when 32 then kind = 'r' else true end
$$;
comment on function baton_internal.capture_triggers("char", boolean, boolean) is 'triggers that capture the changes of a table';

-- Whether a stream table reads a table, or one of which the table is a part, and is refreshed in the writer's transaction.
create function baton_internal.has_immediate_readers(relation oid)
returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (
        with recursive above (part) as (
            select has_immediate_readers.relation union select i.inhparent from above a join pg_inherits i on i.inhrelid = a.part)
        select from above a join baton_internal.stream_sources s on s.source = a.part join baton.stream_tables t using (stream_id)
         where t.refresh_mode = 'IMMEDIATE');
end
$$;
comment on function baton_internal.has_immediate_readers(oid) is 'whether an IMMEDIATE stream table follows a table';

-- Whether a table has all triggers of its capture, as they must be, and no other ones.
create function baton_internal.has_capture_triggers(relation oid, kind "char")
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select (select array_agg(row(t.tgtype, t.tgenabled) order by t.tgtype)
              from pg_trigger t where t.tgrelid = relation and t.tgfoid = 'baton_internal.capture_changes()'::regprocedure)
           is not distinct from (select array_agg(row(c.type, c.enabled) order by c.type)
                                   from baton_internal.capture_triggers(kind, baton_internal.is_replicated(), baton_internal.has_immediate_readers(relation)) c)
$$;
comment on function baton_internal.has_capture_triggers(oid, "char") is 'whether every change of a table is captured';

-- Drop all triggers of the capture of a table.
create function baton_internal.drop_capture_triggers(relation regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    trigger_name name;
begin
    for trigger_name in select t.tgname from pg_trigger t where t.tgrelid = relation and t.tgfoid = 'baton_internal.capture_changes()'::regprocedure loop
        execute format('drop trigger %I on %s', trigger_name, relation);
    end loop;
end
$$;
comment on function baton_internal.drop_capture_triggers(regclass) is 'ends the capture of a table';

-- Make the triggers of a table.
create function baton_internal.make_part_triggers(relation regclass, kind "char")
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    made record;
begin
    for made in select * from baton_internal.capture_triggers(kind, baton_internal.is_replicated(), baton_internal.has_immediate_readers(relation)) loop
        execute format('create trigger %I ' || made.definition || ' execute function baton_internal.capture_changes()', made.name, relation);
        if made.enabled <> 'O' then
            execute format('alter table %s enable %s trigger %I', relation, case made.enabled when 'A' then 'always' else 'replica' end, made.name);
        end if;
    end loop;
end
$$;
comment on function baton_internal.make_part_triggers(regclass, "char") is 'makes the triggers that capture the changes of a table';

-- Give each table of a tree the triggers it must have.
create function baton_internal.make_capture_triggers(source regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    part record;
begin
    for part in select distinct t.relation::regclass as relation, t.kind from baton_internal.table_tree(source) t loop
        continue when baton_internal.has_capture_triggers(part.relation, part.kind);
        perform baton_internal.drop_capture_triggers(part.relation);
        perform baton_internal.make_part_triggers(part.relation, part.kind);
    end loop;
end
$$;
comment on function baton_internal.make_capture_triggers(regclass) is 'lets every change of a table and its parts be captured';

-- List the columns of a buffer as they should be: those that it has and those that are wanted. `type` is null for a column that the source has no more;
-- `fits` is false for one that the buffer lacks or has with another type.
create function baton_internal.buffer_columns(source regclass, buffer regclass, columns int2[])
returns table (number int2, type text, fits boolean, present boolean, wanted boolean)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select n.number,
           format_type(a.atttypid, a.atttypmod) || case when a.attcollation <> t.typcollation then format(' collate %I.%I', s.nspname, l.collname) else '' end,
           (a.atttypid, a.atttypmod, a.attcollation) is not distinct from (b.atttypid, b.atttypmod, b.attcollation), b.attnum is not null, n.number = any (columns)
      from (select substr(h.attname, 2)::int2 from pg_attribute h where h.attrelid = buffer and h.attname ~ '^c[0-9]+$' and not h.attisdropped
            union select unnest(columns)) n (number)
      left join pg_attribute a on a.attrelid = source and a.attnum = n.number and not a.attisdropped
      left join pg_attribute b on b.attrelid = buffer and b.attname = 'c' || n.number and not b.attisdropped
      left join pg_type t on t.oid = a.atttypid
      left join pg_collation l on l.oid = a.attcollation
      left join pg_namespace s on s.oid = l.collnamespace
$$;
comment on function baton_internal.buffer_columns(regclass, regclass, int2[]) is 'columns that a change buffer has and should have';

-- Whether all is there for the capture of a source's columns.
create function baton_internal.is_captured(source regclass, columns int2[])
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select b.buffer is not null and not exists (select from baton_internal.buffer_columns(source, b.buffer, columns) c where not c.fits)
           and not exists (select from baton_internal.table_tree(source) t where not baton_internal.has_capture_triggers(t.relation, t.kind))
      from baton_internal.change_buffer(source) b (buffer)
$$;
comment on function baton_internal.is_captured(regclass, int2[]) is 'whether changes of these columns are captured, wherever they are made';

-- Drop buffers that are nobody's: those which a dump brought.
create function baton_internal.drop_stray_buffers()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    stray regclass;
begin
    for stray in
        select c.oid from pg_class c
         where c.relnamespace = 'baton_internal'::regnamespace and c.relkind = 'r' and c.relname ~ '^changes_[0-9]+$'
           and baton_internal.change_buffer(substr(c.relname, 9)::oid::regclass) is distinct from c.oid::regclass
    loop
        execute format('drop table %s', stray);
    end loop;
end
$$;
comment on function baton_internal.drop_stray_buffers() is 'drops change buffers that belong to no source';

-- Whether ANALYZE calls a function of a user for the values of a type: the difference of two bounds of a range. It would run as the owner of the buffer.
create function baton_internal.is_measured_by_users(type oid)
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    with recursive base (oid, typtype, typbasetype) as (
        select t.oid, t.typtype, t.typbasetype from pg_type t where t.oid = type
        union all
        select t.oid, t.typtype, t.typbasetype from base b join pg_type t on t.oid = b.typbasetype where b.typtype = 'd')
    select exists (select from base b join pg_range r on b.oid in (r.rngtypid, r.rngmultitypid) where r.rngsubdiff::oid >= 16384)
$$;
comment on function baton_internal.is_measured_by_users(oid) is 'whether ANALYZE calls a function of a user for values of a type';

-- Keep ANALYZE away from the columns of a buffer for which it would call functions of users.
create function baton_internal.leave_unmeasured(buffer regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    changes constant text := (select string_agg(format('alter column %I set statistics 0', a.attname), ', ') from pg_attribute a
                               where a.attrelid = buffer and a.attnum > 0 and not a.attisdropped and baton_internal.is_measured_by_users(a.atttypid));
begin
    if changes is not null then
        execute format('alter table %s %s', buffer, changes);
    end if;
end
$$;
comment on function baton_internal.leave_unmeasured(regclass) is 'lets no function of a user run for the statistics of a change buffer';

-- Make the buffer of a source with its columns.
create function baton_internal.make_buffer(source regclass, columns int2[])
returns regclass
language plpgsql
set search_path = pg_catalog, pg_temp set default_tablespace = ''
as $$
declare
    name text := 'changes_' || source::oid;
begin
    perform baton_internal.drop_stray_buffers();
    execute format('create table baton_internal.%I (%s) using heap', name,
                   concat_ws(', ', 'xid xid8 not null, step int4 not null, weight int2 not null',
                             (select string_agg(format('%I %s', 'c' || c.number, c.type), ', ' order by c.number) from baton_internal.buffer_columns(source, null, columns) c)));
    execute format('comment on table baton_internal.%I is %L', name, 'changes of a source of stream tables');
    perform baton_internal.leave_unmeasured(format('baton_internal.%I', name)::regclass), baton_internal.identify_rows(format('baton_internal.%I', name)::regclass);
    perform baton_internal.close_to_others(format('baton_internal.%I', name)::regclass);
    perform baton_internal.tie_buffer(format('baton_internal.%I', name)::regclass, source);
    return format('baton_internal.%I', name)::regclass;
end
$$;
comment on function baton_internal.make_buffer(regclass, int2[]) is 'makes the change buffer of a source';

-- Give a buffer the columns that are wanted. A column whose type has changed is made anew: what is in it nobody reads, since whoever wants it sees that the
-- source is not as it was; unless somebody wants it, it goes.
--
-- A column of a domain takes a new buffer, with which all who read the old one begin anew: to add one to a table, even to an empty one, the server looks at the domain's
-- conditions, and so runs code of the domain's owner as the owner of the buffer. To create a table it does not.
create function baton_internal.shape_buffer(source regclass, buffer regclass, columns int2[])
returns regclass
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    changes constant text := (
        select string_agg(concat_ws(', ', case when c.present then format('drop column %I', 'c' || c.number) end,
                                    case when c.wanted then format('add column %I %s', 'c' || c.number, c.type) end), ', ' order by c.number)
          from baton_internal.buffer_columns(source, buffer, columns) c where not c.fits and (c.present or c.wanted));
begin
    if exists (select from baton_internal.buffer_columns(source, buffer, columns) c
                 join pg_attribute a on a.attrelid = source and a.attnum = c.number join pg_type t on t.oid = a.atttypid
                where c.wanted and not c.fits and t.typtype = 'd') then
        columns := columns || array(select c.number from baton_internal.buffer_columns(source, buffer, columns) c where c.present and c.fits and not c.wanted);
        execute format('drop table %s', buffer);
        return baton_internal.make_buffer(source, columns);
    elsif changes is not null then
        execute format('alter table %s %s', buffer, changes);
        perform baton_internal.leave_unmeasured(buffer);
    end if;
    return buffer;
end
$$;
comment on function baton_internal.shape_buffer(regclass, regclass, int2[]) is 'gives a change buffer its columns, or makes another one with them';

-- Lock a source, and its buffer where that has to be altered, so that the capture can be made or ended; false when somebody uses them for long. Nobody waits behind
-- these locks. A trigger that has to go takes the strongest lock of all: asked for later, readers would wait for it.
create function baton_internal.lock_source(source regclass, columns int2[], patience interval)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    buffer constant regclass := baton_internal.change_buffer(source);
    is_misfit constant boolean := exists (select from baton_internal.table_tree(source) t join pg_trigger g on g.tgrelid = t.relation
                                           where g.tgfoid = 'baton_internal.capture_changes()'::regprocedure
                                             and (columns is null or not baton_internal.has_capture_triggers(t.relation, t.kind)));
    is_reshaped constant boolean := buffer is not null and (columns is null or exists (select from baton_internal.buffer_columns(source, buffer, columns) c where not c.fits));
begin
    return baton_internal.lock_without_queue(array[source] || case when is_reshaped then array[buffer] else '{}' end,
                                             array[case when is_misfit then 'access exclusive' else 'share row exclusive' end, 'access exclusive'], patience);
end
$$;
comment on function baton_internal.lock_source(regclass, int2[], interval) is 'locks a source for a change of its capture; columns null: the capture ends';

-- Have the changes of a source's columns captured, and return the buffer. Waits for transactions that write to the source now, no longer than lock_timeout and 5 seconds;
-- no effect where all is there already. Whoever wants the changes needs the right to make triggers on the source.
create function baton_internal.capture_source(source regclass, columns int2[], on_behalf_of text default null)
returns regclass
language plpgsql
set search_path = pg_catalog, pg_temp set client_min_messages = warning
as $$
declare
    buffer regclass;
    refusal text := baton_internal.capture_refusal(source, columns);
    missing int2 := (select n from unnest(columns) n where n > 0 and not exists (
                       select from pg_attribute a where a.attrelid = source and a.attnum = n and not a.attisdropped) limit 1);
begin
    if not exists (select from pg_class c where c.oid = source) then
        raise exception 'table % does not exist', source using errcode = 'undefined_table';
    elsif not has_table_privilege(coalesce(on_behalf_of, baton_internal.caller()), source, 'trigger') then
        raise exception 'permission denied for table %', source
            using errcode = 'insufficient_privilege', detail = 'changes are captured by triggers',
                  hint = format('grant trigger on %s to %I', source, coalesce(on_behalf_of, baton_internal.caller()));
    elsif refusal is not null then
        raise exception 'changes of table % cannot be captured', source using errcode = 'feature_not_supported', detail = refusal;
    elsif missing is not null then
        raise exception 'table % has no column with number %', source, missing using errcode = 'undefined_column';
    elsif baton_internal.is_captured(source, columns) then
        return baton_internal.change_buffer(source);
    end if;
    perform baton_internal.need_lock(source, baton_internal.lock_source(source, columns, baton_internal.lock_patience('5 seconds')));
    buffer := baton_internal.change_buffer(source);
    if buffer is null then
        buffer := baton_internal.make_buffer(source, columns);
    else
        buffer := baton_internal.shape_buffer(source, buffer, columns);
    end if;
    perform baton_internal.make_capture_triggers(source);
    return buffer;
end
$$;
comment on function baton_internal.capture_source(regclass, int2[], text) is 'captures the changes of some columns of a table into its change buffer';

-- End the capture of a source. Partitions that were detached meanwhile lose their triggers with the next source that is released.
create function baton_internal.release_source(source regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' set client_min_messages = warning
as $$
declare
    buffer regclass := baton_internal.change_buffer(source);
    part regclass;
begin
    if exists (select from pg_class c where c.oid = source) then
        perform baton_internal.need_lock(source, baton_internal.lock_source(source, null, '1 second'));
    end if;
    delete from baton_internal.unlogged_sources u where not exists (select from pg_class c where c.oid = u.relation);
    if buffer is not null then
        execute format('drop table %s', buffer);
    end if;
    for part in
        select distinct t.tgrelid from pg_trigger t where t.tgfoid = 'baton_internal.capture_changes()'::regprocedure
           and not exists (with recursive above (relation) as (
                               select t.tgrelid union select i.inhparent from above a join pg_inherits i on i.inhrelid = a.relation)
                           select from above a where baton_internal.change_buffer(a.relation) is not null)
    loop
        perform baton_internal.drop_capture_triggers(part);
    end loop;
end
$$;
comment on function baton_internal.release_source(regclass) is 'ends the capture of a table and drops its change buffer';

-- The files of the catalogs whose rows are told apart by their places. VACUUM FULL of a catalog makes another file.
create function baton_internal.catalog_files()
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return concat_ws(' ', pg_relation_filenode('pg_trigger'), pg_relation_filenode('pg_inherits'), pg_relation_filenode('pg_attribute'), pg_relation_filenode('pg_proc'));
end
$$;
comment on function baton_internal.catalog_files() is 'files of the catalogs that fingerprints look at';

-- Fingerprint what statement triggers cannot see: which partitions and children there are and since when, the triggers of the capture and since when they are as they
-- are, the used columns and when they were last altered, the buffer, how often a table became unlogged or logged, whether changes are replicated. As long as it stays, the buffer tells of every change. Null when the source is gone. In
-- PL/pgSQL, which keeps the plans: every refresh asks.
--
-- A row of a catalog that was altered has another xmin, or, where one transaction alters it again, another ctid: the place of a version is not given to
-- another one before that transaction has ended. Only a catalog that is written anew as a whole gives places anew, see catalog_files().
create function baton_internal.source_state(source regclass, columns int2[])
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    has_parts boolean := (select c.relhassubclass from pg_class c where c.oid = source);
    parts text;
    used text := (select string_agg(concat_ws(' ', a.attnum, a.xmin, a.ctid, a.atttypid, a.atttypmod, a.attcollation, a.attisdropped), ';' order by a.attnum)
                    from pg_attribute a where a.attrelid = source and a.attnum = any (columns));
    above text := (select string_agg(i.inhparent::text, ' ' order by i.inhparent) from pg_inherits i where i.inhrelid = source);
begin
    if has_parts is null then
        return null;
    elsif has_parts then
        parts := (select string_agg(concat_ws(' ', t.relation, t.parent, t.tied), ';' order by t.relation, t.parent) from baton_internal.table_tree(source) t);
    end if;
    return md5(concat_ws('|', parts,
        (select string_agg(concat_ws(' ', c.oid, c.relkind, c.relpersistence, (select count(*) from baton_internal.unlogged_sources u where u.relation = c.oid),
                                     (select string_agg(concat_ws(' ', g.oid, g.xmin, g.ctid, g.tgtype, g.tgenabled), ',' order by g.oid)
                                        from pg_trigger g where g.tgrelid = c.oid and g.tgfoid = 'baton_internal.capture_changes()'::regprocedure)), ';' order by c.oid)
           from pg_class c where c.oid = any (case when has_parts then array(select t.relation from baton_internal.table_tree(source) t) else array[source::oid] end)),
        used, above, 'buffer ' || baton_internal.change_buffer(source)::oid, exists (select from pg_replication_origin)));
end
$$;
comment on function baton_internal.source_state(regclass, int2[]) is 'fingerprint of a source and its capture: while it stays, no change was missed';
