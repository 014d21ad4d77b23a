-- Change data capture of a plain table, without a replication slot: triggers write an event per changed row into an outbox, in the writer's transaction.
-- No copy of the table is kept, and nothing that commits is missed. Events of a key come in the order of the changes: who changes a row holds it until the commit.
--
-- The triggers run a function that belongs to the owner of the table and runs as the owner. So casts of user-defined types to JSON never run as baton's
-- owner, and a writer needs no right to the outbox. Rows become JSON as they are at that moment: columns may come, go and be renamed.
--
--   baton_captured_insert/update/delete   with transition tables, for each statement: a quarter of what a trigger per row costs for many rows
--   baton_captured_replica                per row, for sessions that act as a replica: logical replication fires no statement triggers
--   ~baton_captured_truncate              every row of the table goes; the last of the triggers, after those of users
--   baton_captured_alone                  never fires; the server lets no table with such a trigger become a partition or a child, whose changes would come by its parent unseen
--
-- What is captured stands in the triggers alone: (outbox_id, tombstones) are their arguments. So it comes with a dump and goes with the table.

-- The triggers of a captured table.
create function baton_internal.captured_triggers()
returns table (name text, enabled text, definition text)
language sql immutable
as $$
    values ('baton_captured_insert', 'enable', 'after insert on %s referencing new table as new_rows for each statement'),
           ('baton_captured_update', 'enable', 'after update on %s referencing old table as old_rows new table as new_rows for each statement'),
           ('baton_captured_delete', 'enable', 'after delete on %s referencing old table as old_rows for each statement'),
           ('baton_captured_replica', 'enable replica', 'after insert or update or delete on %s for each row'),
           ('~baton_captured_truncate', 'enable always', 'before truncate on %s for each statement'),
           ('baton_captured_alone', 'enable', 'after delete on %s referencing old table as old_rows for each row when (false)')
$$;
comment on function baton_internal.captured_triggers() is 'triggers that publish the changes of a captured table';

-- The captured tables with their outboxes, as their triggers have it.
create function baton_internal.captures()
returns table (relation regclass, outbox_id int, tombstones boolean, function_name regprocedure)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select t.tgrelid::regclass, split_part(a.arguments, E'\\000', 1)::int, split_part(a.arguments, E'\\000', 2)::boolean, t.tgfoid::regprocedure
      from pg_trigger t cross join lateral (select encode(t.tgargs, 'escape') as arguments) a
     where t.tgname = '~baton_captured_truncate' and not t.tgisinternal
$$;
comment on function baton_internal.captures() is 'captured tables, read from their triggers';

-- The columns that tell rows of a captured table apart: its primary key, else the shortest unique index without nulls; '{}' when there is none. In PL/pgSQL,
-- which keeps the plan: the triggers ask each time, because a key may be renamed.
create function baton_internal.captured_key(relation oid)
returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    return coalesce((
        select array(select a.attname::text from unnest(i.indkey) with ordinality k (number, place)
                       join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
                      where k.place <= i.indnkeyatts order by k.place)
          from pg_index i
         where i.indrelid = relation and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
           and not exists (select from pg_attribute a where a.attrelid = i.indrelid and a.attnum = any (i.indkey::int2[]) and not a.attnotnull)
         order by i.indisprimary desc, i.indnkeyatts, i.indexrelid limit 1), '{}');
end
$$;
comment on function baton_internal.captured_key(oid) is 'key columns of a captured table';

-- The key of a row of JSON, as an expression over the names of key columns. Without a key the whole row is one.
create function baton_internal.captured_key_of(row_json text, key_columns text default 'key_columns')
returns text
language sql immutable
as $$
    select format('case cardinality(%2$s) when 1 then jsonb_build_object((%2$s)[1], %1$s -> (%2$s)[1]) when 0 then %1$s'
                  ' else (select jsonb_object_agg(u, %1$s -> u) from unnest(%2$s) u) end', row_json, key_columns)
$$;
comment on function baton_internal.captured_key_of(text, text) is 'expression for the key of a captured row';

-- The statement that publishes changes: a query with the columns op, before, after, key. `names` are expressions for the table's name, for whether a
-- delete has no payload, and for the names of the key columns. OFFSET 0 keeps the planner from computing a row's JSON once for each place that names it.
create function baton_internal.captured_statement(outbox text, changes text, ordering text default '', names text[] default '{table_name,tombstones,key_columns}')
returns text
language sql immutable
as $$
    select format($sql$
        insert into %1$s (event_type, aggregate_type, aggregate_id, partition_key, payload, headers)
        select 'table.' || c.op, %4$s, n.name, n.name,
               case when c.op <> 'delete' or not %5$s then jsonb_build_object('v', 1, 'op', c.op, 'key', c.key, 'before', c.before, 'after', c.after) end,
               jsonb_build_object('op', c.op)
          from (%2$s offset 0) c (op, before, after, key)
         cross join lateral (select case when cardinality(%6$s) = 1 then coalesce(c.key ->> (%6$s)[1], 'null') else c.key::text end as text offset 0) k
         cross join lateral (select case when octet_length(k.text) > 2000 then md5(k.text) else k.text end as name) n%3$s$sql$,
        outbox, changes, ordering, names[1], names[2], names[3])
$$;
comment on function baton_internal.captured_statement(text, text, text, text[]) is 'statement that publishes changes of a captured table';

-- Rows that come or go as changes. `rows` is a query with one column, the row as JSON.
create function baton_internal.captured_rows(op text, rows text, key_columns text default 'key_columns')
returns text
language sql immutable
as $$
    select format('select %L, %s, %s from (%s offset 0) r (row)', op, case op when 'insert' then 'null::jsonb, r.row' else 'r.row, null::jsonb' end,
                  baton_internal.captured_key_of('r.row', key_columns), rows)
$$;
comment on function baton_internal.captured_rows(text, text, text) is 'inserted or deleted rows as changes';

-- What an UPDATE made of rows. A changed key is a delete and an insert; all that goes does so before anything comes, because a key may move on to another row.
create function baton_internal.captured_updates(outbox text, pairs text)
returns text
language sql immutable
as $$
    select baton_internal.captured_statement(outbox, format($sql$
            select e.* from (%s offset 0) p (before, after)
             cross join lateral (select %s as gone, %s as come offset 0) k
             cross join lateral (select 'update', p.before, p.after, k.come where k.gone = k.come
                                 union all select 'delete', p.before, null, k.gone where k.gone <> k.come
                                 union all select 'insert', null, p.after, k.come where k.gone <> k.come) e$sql$,
        pairs, baton_internal.captured_key_of('p.before'), baton_internal.captured_key_of('p.after')), ' order by c.op <> ''delete''')
$$;
comment on function baton_internal.captured_updates(text, text) is 'statement that publishes updates of a captured table';

-- The body of the function that the triggers of a captured table call. Rows of an update come in the same order in both transition tables. A TRUNCATE is told
-- by a statement for the table of that moment: $1 the table's name, $2 tombstones, $3 key columns.
create function baton_internal.captured_body(outbox text)
returns text
language sql stable
as $$
    select format($body$
declare
    table_name constant text := format('%%I.%%I', tg_table_schema, tg_table_name);
    tombstones constant boolean := tg_argv[1];
    key_columns constant text[] := baton_internal.captured_key(tg_relid);
begin
    if tg_level = 'ROW' then
        if tg_op = 'INSERT' then %s;
        elsif tg_op = 'DELETE' then %s;
        else %s;
        end if;
    elsif tg_op = 'INSERT' then %s;
    elsif tg_op = 'DELETE' then %s;
    elsif tg_op = 'UPDATE' then %s;
    else
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            raise exception 'TRUNCATE of captured table %% is refused at this isolation level', table_name
                using errcode = 'object_not_in_prerequisite_state', detail = 'rows that were committed meanwhile would go unseen',
                      hint = 'truncate the table in a transaction that is READ COMMITTED';
        end if;
        execute %L || tg_relid::regclass::text || %L using table_name, tombstones, key_columns;
    end if;
    return null;
end
$body$,
        baton_internal.captured_statement(outbox, baton_internal.captured_rows('insert', 'select to_jsonb(new)')),
        baton_internal.captured_statement(outbox, baton_internal.captured_rows('delete', 'select to_jsonb(old)')),
        baton_internal.captured_updates(outbox, 'select to_jsonb(old), to_jsonb(new)'),
        baton_internal.captured_statement(outbox, baton_internal.captured_rows('insert', 'select to_jsonb(x) from new_rows x')),
        baton_internal.captured_statement(outbox, baton_internal.captured_rows('delete', 'select to_jsonb(x) from old_rows x')),
        baton_internal.captured_updates(outbox, 'select o.row, n.row from (select row_number() over (), to_jsonb(x) from old_rows x) o (place, row)'
                                                ' join (select row_number() over (), to_jsonb(x) from new_rows x) n (place, row) using (place)'),
        split_part(w.statement, e'\x01', 1), split_part(w.statement, e'\x01', 2))
      from (select baton_internal.captured_statement(outbox, baton_internal.captured_rows('delete', e'select to_jsonb(x) from only \x01 x', '$3'), '', '{$1,$2,$3}')) w (statement)
$$;
comment on function baton_internal.captured_body(text) is 'body of the trigger function of a captured table';

-- The statements that make or mend the capture of a table, for its owner to run. Values look the same whatever session wrote them.
create function baton_internal.capture_statements(relation regclass, outbox regclass, outbox_id int, tombstones boolean)
returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array[
        format('create or replace function %s() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp set row_security = off set plan_cache_mode = force_generic_plan'
               ' set datestyle = ''ISO, MDY'' set intervalstyle = postgres set timezone = ''UTC'' set extra_float_digits = 1 set bytea_output = hex as %L',
               f.name, baton_internal.captured_body(outbox::text)),
        format('comment on function %s() is %L', f.name, format('publishes changes of %s into baton outbox %s', relation, outbox)),
        format('revoke all on function %s() from public', f.name)]
        || case when exists (select from pg_extension x where x.extname = 'baton') then array[format('alter function %s() depends on extension baton', f.name)] end
        || array(select format('create or replace trigger %I %s execute function %s(%L, %L)', t.name, format(t.definition, relation), f.name, outbox_id, tombstones)
                   from baton_internal.captured_triggers() t)
        || array(select format('alter table %s %s trigger %I', relation, t.enabled, t.name) from baton_internal.captured_triggers() t)
      from (select format('%I.%I', n.nspname, 'baton_capture_' || outbox_id) from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation) f (name)
$$;
comment on function baton_internal.capture_statements(regclass, regclass, int, boolean) is 'statements that make the capture of a table';
