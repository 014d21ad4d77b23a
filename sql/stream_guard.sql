-- Only a refresh writes to a stream table. The door is a column of the catalog, which nobody but baton's functions can write: a parameter of
-- the session could be set by anybody.

-- Refuse a statement on a stream table, or on the rows of its deltas, that is not part of a refresh.
create function baton_internal.refuse_stream_write()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from baton.stream_tables s where s.stream_id = tg_argv[0]::int and s.writer = pg_current_xact_id_if_assigned()) then
        raise exception '% of stream table %.% is refused: only a refresh writes to it', tg_op, quote_ident(tg_table_schema), quote_ident(tg_table_name)
            using errcode = 'object_not_in_prerequisite_state', detail = 'the table shows what its query gives',
                  hint = 'change the tables that the query reads, or the query with baton.alter_stream_table()';
    end if;
    return null;
end
$$;
comment on function baton_internal.refuse_stream_write() is 'statement trigger of a stream table: refuses what is no refresh';

-- Put the guard on a stream table, once. It fires always: a replica's apply is no refresh either.
create function baton_internal.guard_stream(stream baton.stream_tables)
returns void
language plpgsql
as $$
begin
    execute format('create or replace trigger baton_stream before insert or update or delete or truncate on %s for each statement'
                   ' execute function baton_internal.refuse_stream_write(%L)', stream.relation, stream.stream_id);
    execute format('alter table %s enable always trigger baton_stream', stream.relation);
end
$$;
comment on function baton_internal.guard_stream(baton.stream_tables) is 'keeps everybody but a refresh from writing to a stream table';

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
                                   and p.proname in ('image', 'row_hash', 'one_of', 'keep_first', 'compile_stream_query', 'is_unseen', 'frontier_time')) loop
        if not has_function_privilege(owner, tool, 'execute') then
            execute format('grant execute on routine %s to %s', tool, owner);
        end if;
    end loop;
end
$$;
comment on function baton_internal.equip_stream_owner(baton.stream_tables) is 'grants to the owner of a stream table what a refresh calls as the owner';
