-- Changing stream tables: another query, another schedule, another mode, a pause.

-- Change a stream table; what is not named stays. Another query is applied at once: the table keeps the rows that both give, and its outbox gets the
-- difference. Columns that differ are replaced, unless there is an outbox. One that is, becomes or again is IMMEDIATE is up to date then: the next writer would
-- find nothing to go on from.
create function baton.alter_stream_table(
    name         text,
    query        text    default null,
    schedule     text    default null,
    refresh_mode text    default null,
    paused       boolean default null,
    reset        text[]  default '{}')  -- {schedule}: refreshed by hand only
returns void
language plpgsql
as $$
declare
    target constant regclass := baton_internal.resolve_stream(name);
    changes constant jsonb := pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object('schedule', case when lower(btrim(schedule)) = 'live' then 'live' else schedule end, 'refresh_mode', upper(refresh_mode), 'paused', paused));
begin
    perform baton_internal.check_stream_change(target, changes, reset);
    if query is not null then
        perform baton_internal.change_query(target, query, baton_internal.session_parameters());
    end if;
    perform baton_internal.change_stream(target, changes, reset, query is not null);
    if exists (select from baton.stream_tables s where s.relation operator(pg_catalog.=) target and s.frontier is not null
                  and (alter_stream_table.query is not null or s.effective_mode operator(pg_catalog.=) 'IMMEDIATE' and not s.paused)) then
        perform baton_internal.refresh_stream(target, query is not null);
    end if;
    if query is not null or refresh_mode is not null then
        perform baton_internal.tell_full(target);
    end if;
end
$$;
comment on function baton.alter_stream_table(text, text, text, text, boolean, text[]) is 'changes query, schedule or mode of a stream table, pauses or resumes it';

-- Refuse a change before anything is changed.
create function baton_internal.check_stream_change(relation regclass, changes jsonb, reset text[])
returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform baton_internal.find_stream(relation), baton_internal.check_table_owner(relation, 'change it');
    if exists (select from unnest(reset) r where r is distinct from 'schedule') then
        raise exception 'option "%" cannot be reset', (select r from unnest(reset) r where r is distinct from 'schedule' limit 1)
            using errcode = 'invalid_parameter_value', hint = 'reset takes schedule';
    elsif changes ? 'schedule' and reset <> '{}' then
        raise exception 'the schedule cannot be both changed and reset' using errcode = 'invalid_parameter_value';
    end if;
    perform baton_internal.check_stream_schedule(changes ->> 'schedule');
    perform baton_internal.check_stream_mode(changes ->> 'refresh_mode') where changes ? 'refresh_mode';
end
$$;
comment on function baton_internal.check_stream_change(regclass, jsonb, text[]) is 'raises when a stream table cannot be changed so';

-- Give a stream table another query, with the caller's rights.
create function baton_internal.change_query(relation regclass, query text, parameters jsonb)
returns void
language plpgsql
as $$
declare
    query_view constant regclass := baton_internal.make_query_view(
        (select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid operator(pg_catalog.=) relation), query);
begin
    perform baton_internal.replace_query_view(relation, query_view, query, parameters);
    perform baton_internal.restore_columns(relation);
end
$$;
comment on function baton_internal.change_query(regclass, text, jsonb) is 'gives a stream table another query; called by alter_stream_table()';

-- Make the view of a stream table's query again where it went with something that the query reads. The table's owner does, whoever repairs: to understand a query may
-- take code of its writer's.
create function baton_internal.renew_query_view(relation regclass)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream constant baton.stream_tables := baton_internal.find_stream(relation);
    schema_name constant name := n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
    view_name constant text := format('%I.%I', schema_name, baton_internal.unused_name(schema_name, 'baton_query_' || pg_backend_pid(), ''));
begin
    perform baton_internal.check_table_owner(relation, 'repair it');
    if baton_internal.view_query(stream.query_view) is null then
        perform baton_internal.change_as_owner(relation, format('create view %s as %s', view_name, stream.qualified));
        perform baton_internal.replace_query_view(relation, view_name::regclass, stream.query, stream.parameters);
    end if;
end
$$;
comment on function baton_internal.renew_query_view(regclass) is 'makes the query of a stream table again after its sources were';

-- Give a stream table the columns of its query, as the table's owner: a domain's conditions run when a column is added. Their values come with the next refresh.
create function baton_internal.restore_columns(relation regclass)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    changes constant text := (select baton_internal.column_changes(s.relation, s.query_view) from baton.stream_tables s where s.relation = restore_columns.relation);
begin
    perform baton_internal.check_table_owner(relation, 'change it');
    if changes <> '' then
        perform baton_internal.change_as_owner(relation, format('alter table %s %s', relation, changes));
    end if;
end
$$;
comment on function baton_internal.restore_columns(regclass) is 'gives a stream table the columns of its query; called by alter_stream_table() and repair_stream_table()';

-- The number of the first column in which a table and a view differ; null when their columns are the same.
create function baton_internal.first_other_column(relation regclass, query_view regclass)
returns int
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select min(coalesce(o.number, n.number))::int
      from baton_internal.table_columns(relation) o full join baton_internal.table_columns(query_view) n on n.number = o.number
     where (o.name, o.type, o.modifier, o.collation_id) is distinct from (n.name, n.type, n.modifier, n.collation_id)
$$;
comment on function baton_internal.first_other_column(regclass, regclass) is 'where the columns of a stream table and of its query begin to differ';

-- Raise when somebody changed the columns of a stream table by hand: values would go into columns of other names.
create function baton_internal.check_stream_columns(stream baton.stream_tables)
returns void
language plpgsql stable
as $$
begin
    if baton_internal.first_other_column(stream.relation, stream.query_view) is not null then
        raise exception 'the columns of stream table % are not those of its query any more', stream.relation
            using errcode = 'object_not_in_prerequisite_state', detail = 'to be what the query gives: ' || baton_internal.column_changes(stream.relation, stream.query_view),
                  hint = 'call baton.repair_stream_table() to give the table its columns back, or drop it with baton.drop_stream_table()';
    elsif exists (select from pg_catalog.pg_class c where c.oid = stream.relation and c.relpersistence <> 'p') then
        raise exception 'stream table % is unlogged: a crash would empty it unnoticed', stream.relation
            using errcode = 'object_not_in_prerequisite_state', hint = format('alter table %s set logged', stream.relation);
    end if;
end
$$;
comment on function baton_internal.check_stream_columns(baton.stream_tables) is 'raises when a stream table has other columns than its query, or does not outlive a crash';

-- What ALTER TABLE has to do so that a table has the columns of a view in their order: those that both begin with stay. '' when nothing.
create function baton_internal.column_changes(relation regclass, query_view regclass)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    same constant int := coalesce(baton_internal.first_other_column(relation, query_view) - 1, 2000);
begin
    return concat_ws(', ',
        (select string_agg(format('drop column %I', o.name), ', ' order by o.number) from baton_internal.table_columns(relation) o where o.number > same),
        (select string_agg(format('add column %I %s%s', n.name, format_type(n.type, n.modifier),
                                  case when n.collation_id <> t.typcollation then format(' collate %I.%I', s.nspname, c.collname) else '' end), ', ' order by n.number)
           from baton_internal.table_columns(query_view) n
           join pg_type t on t.oid = n.type
           left join pg_collation c on c.oid = n.collation_id
           left join pg_namespace s on s.oid = c.collnamespace
          where n.number > same));
end
$$;
comment on function baton_internal.column_changes(regclass, regclass) is 'actions of ALTER TABLE that give a stream table the columns of a query';

-- Put another view in the place of the one that holds the query.
create function baton_internal.replace_query_view(relation regclass, query_view regclass, query text, parameters jsonb)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream baton.stream_tables := baton_internal.find_stream(relation);
    before text;
begin
    perform baton_internal.check_table_owner(relation, 'change it'), baton_internal.check_view_given(query_view);
    stream := baton_internal.open_stream(relation);
    before := baton_internal.view_query(stream.query_view);
    perform baton_internal.check_stream_cycle(stream, query_view);
    if exists (select from baton_internal.stream_outboxes o where o.stream_id = stream.stream_id) and baton_internal.column_changes(relation, query_view) <> '' then
        raise exception 'the columns of stream table % cannot change while it has an outbox', relation
            using errcode = 'object_not_in_prerequisite_state', detail = baton_internal.column_changes(relation, query_view),
                  hint = 'keep names, types and order of the columns, or end the outbox with baton.disable_outbox()';
    end if;
    if before is not null then
        execute format('drop view %s', stream.query_view);
    end if;
    perform baton_internal.take_query_view(query_view, stream);
    update baton.stream_tables s
       set query = replace_query_view.query, qualified = baton_internal.view_query(replace_query_view.query_view), query_view = replace_query_view.query_view,
           parameters = replace_query_view.parameters, source_state = null, writer = null
     where s.stream_id = stream.stream_id;
    perform baton_internal.note_stream_sources(stream.stream_id, query_view);
    perform baton_internal.record_action('alter_stream_table', relation::text, jsonb_build_object('query', query, 'before', before));
end
$$;
comment on function baton_internal.replace_query_view(regclass, regclass, text, jsonb) is 'takes in the new query of a stream table';

-- Change schedule, mode and pause. A stream table that was stopped goes on when something about it changes.
create function baton_internal.change_stream(relation regclass, changes jsonb, reset text[], requery boolean)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stream baton.stream_tables;
begin
    perform baton_internal.check_stream_change(relation, changes, reset);
    update baton.stream_tables s
       set schedule = case when reset <> '{}' then null else coalesce(changes ->> 'schedule', s.schedule) end,
           refresh_mode = coalesce(changes ->> 'refresh_mode', s.refresh_mode),
           paused = coalesce((changes ->> 'paused')::boolean, s.paused),
           failed_in_a_row = 0, stopped_at = null
     where s.relation = change_stream.relation returning s.* into stream;
    update baton.stream_tables s
       set next_due = case when changes ? 'schedule' then baton_internal.next_refresh(stream)
                           when stream.schedule is not null then least(s.next_due, baton_internal.next_refresh(stream)) end
     where s.stream_id = stream.stream_id;
    if requery or changes ? 'refresh_mode' then
        perform baton_internal.choose_stream_mode(stream);
    end if;
    perform baton_internal.record_action('alter_stream_table', relation::text, changes || case when reset <> '{}' then '{"schedule": null}'::jsonb else '{}' end);
end
$$;
comment on function baton_internal.change_stream(regclass, jsonb, text[], boolean) is 'applies alter_stream_table()';

select baton_internal.declare_privileges('execute', '{baton_operator}',
    '{alter_stream_table,check_stream_change,change_query,renew_query_view,restore_columns,first_other_column,column_changes,replace_query_view,change_stream}');
