-- Adoption: lay a mapping over a preset, hold it against the table, and keep the statements.

-- Adopt an existing table as an outbox; it keeps its columns, its state machine and its rules. Nothing is deleted unless the mapping asks.
create function baton.adopt_outbox(table_name text, preset text default null, mapping jsonb default '{}', dry_run boolean default false)
returns text
language sql
as $$
    select case when dry_run then baton_internal.rehearse_adoption(baton_internal.table_to_adopt(table_name), preset, mapping)
                else baton_internal.adopt_table(baton_internal.table_to_adopt(table_name), preset, mapping) end
$$;
comment on function baton.adopt_outbox(text, text, jsonb, boolean) is
    'adopts a table by a preset (found by the table''s columns) or a mapping; returns the qualified name of the table, or as a dry run a JSON report';

-- Adopt a table for its owner. Runs with baton's rights, and what the table carries is evaluated with the owner's.
create function baton_internal.adopt_table(relation regclass, preset text, mapping jsonb)
returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    chosen text := preset;
    layout jsonb := '{}';
    refusal baton_internal.adoption_refusals;
begin
    perform baton_internal.check_adoptable(relation);
    perform baton_internal.check_mapping(mapping);
    chosen := coalesce(chosen, baton_internal.detect_preset(relation), case when mapping #> '{columns,id}' is not null then 'custom' end);
    if chosen is null then
        refusal := baton_internal.find_refusal(relation);
        if refusal.layout is not null then
            raise exception '% looks like %, which cannot be adopted safely', relation, refusal.layout
                using errcode = 'feature_not_supported', detail = refusal.why, hint = refusal.hint;
        end if;
        raise exception 'the layout of % is none of the presets', relation using errcode = 'invalid_parameter_value',
            hint = format('name one (%s) and map the columns that differ, or map them all: {"columns": {"id": ..., "payload": ...}}',
                          (select string_agg(p.preset, ', ' order by p.preset) from baton.adoption_presets p));
    end if;
    if chosen <> 'custom' then
        select p.layout into layout from baton.adoption_presets p where p.preset = chosen;
        if not found then
            raise exception 'unknown preset "%"', chosen using errcode = 'undefined_object',
                hint = format('there are: %s, custom', (select string_agg(p.preset, ', ' order by p.preset) from baton.adoption_presets p));
        end if;
    end if;
    layout := baton_internal.ask_for_cleanup(baton_internal.complete_layout(baton_internal.merge_layout(layout, mapping)), mapping);
    perform baton_internal.check_done_is_said(relation, chosen, layout);
    perform baton_internal.check_states(layout);
    perform baton_internal.check_columns(relation, layout);
    perform baton_internal.adopted_key(relation, baton_internal.mapped_column(layout, 'id'));
    perform baton_internal.check_state_values(relation, layout);
    perform baton_internal.check_idempotency(relation, layout);
    layout := baton_internal.resolve_companions(relation, layout);
    return baton_internal.save_adopted(relation, chosen, layout);
end
$$;
comment on function baton_internal.adopt_table(regclass, text, jsonb) is 'adopts a table; called by adopt_outbox()';

-- Write down which clean-up was asked for: a preset knows the rules of its layout, but rows are deleted or moved to an archive only where the
-- mapping says so, in its section cleanup or by naming the rule itself.
create function baton_internal.ask_for_cleanup(layout jsonb, mapping jsonb)
returns jsonb
language sql immutable
as $$
    select layout || jsonb_build_object('cleanup', jsonb_build_object(
        'expire', coalesce((mapping #>> '{cleanup,expire}')::boolean, mapping ? 'retention' or coalesce(mapping -> 'columns' ? 'expires_at', false)),
        'archive', coalesce((mapping #>> '{cleanup,archive}')::boolean, mapping ? 'archive'),
        'processed_events', coalesce((mapping #>> '{cleanup,processed_events}')::boolean, mapping ? 'processed_events')))
$$;
comment on function baton_internal.ask_for_cleanup(jsonb, jsonb) is 'a layout with the clean-up that the user asked for';

-- Say whether a clean-up was asked for and has a rule.
create function baton_internal.is_asked(layout jsonb, task text)
returns boolean
language sql immutable
as $$ select coalesce((layout #>> array['cleanup', task])::boolean, false) and (task = 'expire' or layout #>> array[task, 'table'] is not null) $$;
comment on function baton_internal.is_asked(jsonb, text) is 'true when a layout asks for that clean-up';

-- Fill in what a mapping leaves open.
create function baton_internal.complete_layout(layout jsonb)
returns jsonb
language plpgsql stable
as $$
declare
    columns jsonb := coalesce(layout -> 'columns', '{}');
begin
    if not layout ? 'order' then
        layout := layout || jsonb_build_object('order', (
            select jsonb_build_array(r) from unnest('{available_at,created_at,occurred_at,id}'::text[]) with ordinality o (r, n)
             where columns ? r order by n limit 1));
    end if;
    if not layout ? 'backoff' then
        layout := layout || '{"backoff": {"kind": "exponential", "base_seconds": 5, "factor": 2, "max_seconds": 900, "jitter": 0.1}}';
    end if;
    if layout #>> '{dead,as}' is null and coalesce(layout #>> '{dead,table}', layout #>> '{states,dead}') is not null then
        layout := baton_internal.merge_layout(layout, jsonb_build_object('dead', jsonb_build_object(
            'as', case when layout #>> '{dead,table}' is not null then 'move' else 'status' end)));
    elsif layout #>> '{dead,as}' is null and columns ? 'attempts' and (columns ? 'max_attempts' or layout #> '{attempts,limit}' is not null) then
        layout := layout || '{"dead": {"as": "attempts"}}';
    end if;
    return layout;
end
$$;
comment on function baton_internal.complete_layout(jsonb) is 'a layout with its defaults';

-- Say where an idempotency key is not guarded by the table itself.
create function baton_internal.check_idempotency(relation regclass, layout jsonb)
returns void
language plpgsql stable
as $$
declare
    key_column text := baton_internal.mapped_column(layout, 'idempotency_key');
    others text;
begin
    if key_column is null then
        return;
    end if;
    select string_agg(a.attname, ', ') filter (where a.attname <> key_column) into others
      from pg_catalog.pg_index i
      join pg_catalog.pg_attribute a on a.attrelid = relation and a.attnum = any (i.indkey::smallint[])
     where i.indrelid = relation and i.indisunique
     group by i.indexrelid having bool_or(a.attname = key_column)
     order by count(*) limit 1;
    if not found then
        raise notice 'column "%" of % has no unique index: a repeated key is published twice', key_column, relation;
    elsif others is not null then
        raise notice 'column "%" of % is unique only together with %: a repeated key is recognised only where those are equal too',
                     key_column, relation, others;
    end if;
end
$$;
comment on function baton_internal.check_idempotency(regclass, jsonb) is 'notices an idempotency key that the table does not keep unique';

-- Find the companion tables of an outbox in its own schema, making those that it cannot work without.
create function baton_internal.resolve_companions(relation regclass, layout jsonb)
returns jsonb
language plpgsql
as $$
declare
    home name;
    base name;
    part text;
    given text;
    companion regclass;
    names record;
begin
    select n.nspname, c.relname into home, base
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
    foreach part in array '{dead,archive,offsets,processed_events}'::text[] loop
        given := layout #>> array[part, 'table'];
        continue when given is null;
        select * into names from baton_internal.parse_table_name(case when given like '{table}%'
            then quote_ident(baton_internal.derived_name('', base, substr(given, 8))) else given end, home);
        companion := to_regclass(format('%I.%I', names.schema_name, names.table_name));
        if companion is null and (part = 'dead' or part = 'archive' and baton_internal.is_asked(layout, 'archive')) then
            companion := baton_internal.make_companion(relation, names.schema_name, names.table_name,
                                              case part when 'archive' then baton_internal.mapped_column(layout,
                                                  coalesce(layout #>> '{archive,by}', 'occurred_at')) end);
        end if;
        if companion is null then
            layout := layout - part;  -- read on, and cleaned up, only where it exists
        else
            if part in ('dead', 'archive') then
                perform baton_internal.check_companion(relation, companion);
            elsif part = 'processed_events' and baton_internal.is_asked(layout, part) then
                perform baton_internal.check_table_owner(companion, 'let baton clean it up');
            end if;
            layout := jsonb_set(layout, array[part, 'table'], to_jsonb(format('%I.%I', names.schema_name, names.table_name)));
        end if;
    end loop;
    return layout;
end
$$;
comment on function baton_internal.resolve_companions(regclass, jsonb) is 'a layout with its companion tables qualified, created where needed';

-- Make a table that takes an outbox's rows, with a notice; partitioned by month where a column is given.
create function baton_internal.make_companion(relation regclass, schema_name text, table_name text, partition_column text)
returns regclass
language plpgsql
as $$
begin
    perform baton_internal.change_as_owner(relation, format('create table %I.%I (like %s including defaults including constraints)%s', schema_name, table_name,
                relation, coalesce(baton_internal.sql_part(' partition by range (%I)', partition_column), '')));
    if partition_column is null then
        perform baton_internal.change_as_owner(relation, format('alter table %I.%I replica identity full', schema_name, table_name));
    end if;
    raise notice 'created table %.%, like %', quote_ident(schema_name), quote_ident(table_name), relation;
    return format('%I.%I', schema_name, table_name)::regclass;
end
$$;
comment on function baton_internal.make_companion(regclass, text, text, text) is 'creates a dead-letter or archive table like its outbox';

-- Write the catalog row.
create function baton_internal.save_adopted(relation regclass, preset text, layout jsonb)
returns text
language plpgsql
as $$
declare
    known baton.adopted_outboxes;
    home name;
    base name;
begin
    select n.nspname, c.relname into home, base from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
    select a.* into known from baton.adopted_outboxes a where a.schema_name = home and a.table_name = base for update;
    if known.outbox_id is not null and (known.layout, known.preset) is distinct from (save_adopted.layout, save_adopted.preset) then
        raise exception '%.% is already adopted in another way', quote_ident(home), quote_ident(base) using errcode = 'duplicate_object',
            hint = 'run baton.unadopt_outbox() first; it does not touch the table';
    end if;
    if known.outbox_id is null then
        insert into baton.adopted_outboxes (schema_name, table_name, preset, layout, keeps_locks, claim_sql, ack_sql, fail_sql,
                                            dead_sql, replay_sql, status_sql, relay_sql, held_sql, adopted_by)
        values (home, base, save_adopted.preset, save_adopted.layout, save_adopted.layout -> 'columns' ? 'locked_at',
                '', '', '', '', '', '', '', '', baton_internal.caller())
        returning * into known;
        insert into baton_internal.adopted_horizons (outbox_id) values (known.outbox_id);
    end if;
    update baton.adopted_outboxes a
       set claim_sql = baton_internal.claim_statement(relation, a.layout), ack_sql = baton_internal.ack_statement(relation, a.layout),
           fail_sql = baton_internal.fail_statement(relation, a.layout), dead_sql = baton_internal.dead_statement(relation, a.layout),
           replay_sql = baton_internal.replay_statement(relation, a.layout), status_sql = baton_internal.status_statement(relation, a.layout),
           unlock_sql = baton_internal.unlock_statement(relation, a.layout), expire_sql = baton_internal.expire_statement(relation, a.layout),
           archive_sql = baton_internal.archive_statement(relation, a.layout),
           relay_sql = baton_internal.claim_statement(relation, a.layout, true), held_sql = baton_internal.held_statement(relation, a.layout),
           renew_sql = baton_internal.renew_statement(relation, a.layout), release_sql = baton_internal.release_statement(relation, a.layout),
           read_sql = baton_internal.read_statement(relation, a.layout, false),
           read_all_sql = baton_internal.read_statement(relation, a.layout, true)
     where a.outbox_id = known.outbox_id;
    select a.* into known from baton.adopted_outboxes a where a.outbox_id = known.outbox_id;
    perform baton_internal.change_as_owner(relation, 'select', companions => baton_internal.adopted_companions(known));  -- refuses companions of others
    return format('%I.%I', home, base);
end
$$;
comment on function baton_internal.save_adopted(regclass, text, jsonb) is 'keeps a layout and the statements made from it; used by baton.adopt_outbox()';

-- Forget an adopted outbox; the table, its rows and its companions stay as they are.
create function baton.unadopt_outbox(name text)
returns void
language plpgsql
as $$
begin
    perform baton_internal.drop_adopted((baton_internal.find_adopted(name)).outbox_id);
end
$$;
comment on function baton.unadopt_outbox(text) is 'ends an adoption without touching the table';

-- Delete the catalog row, for the table's owner or where the table is gone.
create function baton_internal.drop_adopted(outbox_id int)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from baton.adopted_outboxes a
     where a.outbox_id = drop_adopted.outbox_id
       and not exists (select from pg_class c where c.oid = to_regclass(format('%I.%I', a.schema_name, a.table_name))
                          and not pg_has_role(baton_internal.caller(), c.relowner, 'usage'));
    if not found then
        raise exception 'only the owner of the table can end its adoption' using errcode = 'insufficient_privilege';
    end if;
end
$$;
comment on function baton_internal.drop_adopted(int) is 'deletes an adoption; used by baton.unadopt_outbox()';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{adopt_outbox,adopt_table,unadopt_outbox,drop_adopted}');
