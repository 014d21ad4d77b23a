-- Only a refresh writes to a stream table. The door is a column of the catalog, which nobody but baton's functions can write: a parameter of
-- the session could be set by anybody.

-- Refuse a statement on a stream table that is not part of a refresh, which a statement of the owner's own triggers is not.
create function baton_internal.refuse_stream_write()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from baton.stream_tables s
                    where s.stream_id = tg_argv[0]::int and s.writer = pg_current_xact_id_if_assigned() and s.writer_depth = pg_trigger_depth() - 1) then
        raise exception '% of stream table %.% is refused: only a refresh writes to it', tg_op, quote_ident(tg_table_schema), quote_ident(tg_table_name)
            using errcode = 'object_not_in_prerequisite_state', detail = 'the table shows what its query gives',
                  hint = 'change the tables that the query reads, or the query with baton.alter_stream_table()';
    end if;
    return null;
end
$$;
comment on function baton_internal.refuse_stream_write() is 'statement trigger of a stream table: refuses what is no refresh';

-- Put the guard on a stream table, once. It fires always: a replica's apply is no refresh either. The second trigger never fires, since a refresh updates nothing. With
-- it the server does not let the table become a partition or a child of another one, through which a statement would get past the first trigger.
create function baton_internal.guard_stream(stream baton.stream_tables)
returns void
language plpgsql
as $$
begin
    execute format('create or replace trigger baton_stream before insert or update or delete or truncate on %s for each statement'
                   ' execute function baton_internal.refuse_stream_write(%L)', stream.relation, stream.stream_id);
    execute format('create or replace trigger baton_stream_whole after update on %s referencing old table as old_rows for each row when (false)'
                   ' execute function baton_internal.refuse_stream_write(%L)', stream.relation, stream.stream_id);
    execute format('alter table %1$s enable always trigger baton_stream, enable trigger baton_stream_whole', stream.relation);
    perform baton_internal.identify_rows(stream.relation);
end
$$;
comment on function baton_internal.guard_stream(baton.stream_tables) is 'keeps everybody but a refresh from writing to a stream table';

-- Fingerprint the guard of a stream table: another one where it was away for a while.
create function baton_internal.guard_state(relation regclass)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select string_agg(concat_ws(' ', g.oid, g.xmin, g.ctid, g.tgenabled), ';' order by g.oid)
              from pg_trigger g where g.tgrelid = relation and g.tgfoid = 'baton_internal.refuse_stream_write()'::regprocedure);
end
$$;
comment on function baton_internal.guard_state(regclass) is 'fingerprint of what keeps others from writing to a stream table';

-- Say what of a stream table's own make-up would let a refresh write something else, or others write; null when nothing does.
create function baton_internal.stream_weakness(relation regclass)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return coalesce(
        (select format('%s inherits from stream table %s', i.inhrelid::regclass, relation) from pg_inherits i where i.inhparent = relation limit 1),
        (select format('trigger %I of stream table %s can change what a refresh writes', t.tgname, relation) from pg_trigger t
          where t.tgrelid = relation and not t.tgisinternal and t.tgenabled <> 'D' and t.tgtype & 3 = 3 and t.tgtype & 12 <> 0 order by t.tgname limit 1),
        (select format('rule %I of stream table %s can change what a refresh writes', r.rulename, relation) from pg_rewrite r where r.ev_class = relation and r.ev_enabled <> 'D' limit 1),
        (select format('row-level security of stream table %s hides rows from its owner', relation) from pg_class c join pg_roles o on o.oid = c.relowner
          where c.oid = relation and c.relrowsecurity and c.relforcerowsecurity and not (o.rolsuper or o.rolbypassrls)));
end
$$;
comment on function baton_internal.stream_weakness(regclass) is 'what would make a refresh of a stream table wrong, null when nothing';

-- Refuse to refresh a stream table that others can write to, or whose owner has something between a refresh and the table.
create function baton_internal.check_stream_guard(stream baton.stream_tables)
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    weakness constant text := baton_internal.stream_weakness(stream.relation);
begin
    if (select count(*) from pg_trigger g where g.tgrelid = stream.relation and g.tgfoid = 'baton_internal.refuse_stream_write()'::regprocedure
           and (g.tgname, g.tgenabled) in (('baton_stream', 'A'), ('baton_stream_whole', 'O'))) <> 2 then
        raise exception 'stream table % has lost its guard', stream.relation
            using errcode = 'object_not_in_prerequisite_state', detail = 'the triggers baton_stream and baton_stream_whole keep others from writing to it',
                  hint = 'call baton.repair_stream_table() to put them back';
    elsif weakness is not null then
        raise exception '%', weakness
            using errcode = 'object_not_in_prerequisite_state', detail = 'the table would not show what its query gives', hint = 'take it off the stream table; triggers AFTER and policies for others may stay';
    end if;
end
$$;
comment on function baton_internal.check_stream_guard(baton.stream_tables) is 'raises when a refresh could not be relied on to be the only one who writes to a stream table';

-- Let the owner of a stream table call what the statements of a refresh call.
create function baton_internal.equip_stream_owner(stream baton.stream_tables)
returns void
language plpgsql
as $$
declare
    owner constant regrole := (select c.relowner::regrole from pg_catalog.pg_class c where c.oid = stream.relation);
    tool regprocedure;
begin
    if not has_schema_privilege(owner, 'baton_internal', 'usage') then
        execute format('grant usage on schema baton_internal to %s', owner);
    end if;
    foreach tool in array array(select p.oid::regprocedure from pg_catalog.pg_proc p
                                 where p.pronamespace = 'baton_internal'::regnamespace
                                   and p.proname in ('image', 'row_hash', 'one_of', 'keep_first', 'compile_stream_query', 'is_unseen', 'frontier_time', 'row_json', 'delta_json')) loop
        if not has_function_privilege(owner, tool, 'execute') then
            execute format('grant execute on routine %s to %s', tool, owner);
        end if;
    end loop;
end
$$;
comment on function baton_internal.equip_stream_owner(baton.stream_tables) is 'grants to the owner of a stream table what a refresh calls as the owner';
