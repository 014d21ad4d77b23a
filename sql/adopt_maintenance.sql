-- Maintenance of adopted outboxes: stale locks, expiry, archive, partitions ahead.

-- Write the release of stale locks, or nothing for a table without lock columns.
create function baton_internal.unlock_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    key text[] := baton_internal.adopted_key(relation, baton_internal.mapped_column(layout, 'id'));
begin
    if not layout -> 'columns' ? 'locked_at' then
        return null;
    end if;
    return format('with freed as (select %s from %s t where %s and %s for update of t skip locked) update %s t set %s from freed p where %s',
                  baton_internal.column_list(key, 't'), relation,
                  baton_internal.adopted_fragments(relation, layout) ->> 'open', baton_internal.stale_sql(layout), relation,
                  concat_ws(', ', format('%I = null', layout #>> '{columns,locked_at}'),
                            baton_internal.sql_part('%I = null', layout #>> '{columns,locked_by}'),
                            baton_internal.sql_part('%I = now()', layout #>> '{columns,updated_at}'),
                            case when layout #> '{states,claimed}' is not null
                                 then format('%I = %s', layout #>> '{columns,status}', baton_internal.state_literal(layout, 'pending')) end),
                  baton_internal.key_match(key, 't', 'p'));
end
$$;
comment on function baton_internal.unlock_statement(regclass, jsonb) is 'statement that frees stale locks';

-- Write which done rows have expired, or null when none ever do.
create function baton_internal.expired_sql(layout jsonb, done text)
returns text
language sql immutable
as $$
    select format('%s and (%s)', done, nullif(concat_ws(' or ',
        baton_internal.role_column(layout, 'expires_at') || ' < now()',
        baton_internal.sql_part('%s < now() - interval %L', baton_internal.role_column(layout, 'processed_at'), layout #>> '{retention,done_after}')), ''))
     where layout -> 'columns' ? 'expires_at' or layout #>> '{retention,done_after}' is not null
$$;
comment on function baton_internal.expired_sql(jsonb, text) is 'condition of done rows that may be deleted';

-- Write the deletion of done rows that have expired, or nothing when none ever do.
create function baton_internal.expire_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    key text[] := baton_internal.adopted_key(relation, baton_internal.mapped_column(layout, 'id'));
    expired text := baton_internal.expired_sql(layout, baton_internal.adopted_fragments(relation, layout) ->> 'done');
begin
    return format('delete from %s t using (select %s from %s t where %s limit ($3 ->> ''batch'')::int for update of t skip locked) p where %s',
                  relation, baton_internal.column_list(key, 't'), relation, expired, baton_internal.key_match(key, 't', 'p'))
     where expired is not null and baton_internal.is_asked(layout, 'expire');
end
$$;
comment on function baton_internal.expire_statement(regclass, jsonb) is 'statement that deletes expired rows';

-- Write which done rows are old enough for the archive.
create function baton_internal.archivable_sql(layout jsonb, done text)
returns text
language sql immutable
as $$
    select format('%1$s and %2$s is not null and %2$s < now() - interval %3$L', done, baton_internal.role_column(layout, 'processed_at'),
                  layout #>> '{archive,after}')
$$;
comment on function baton_internal.archivable_sql(jsonb, text) is 'condition of done rows that move to the archive';

-- Write the move of done rows to the archive, or nothing without one.
create function baton_internal.archive_statement(relation regclass, layout jsonb)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    key text[] := baton_internal.adopted_key(relation, baton_internal.mapped_column(layout, 'id'));
    names text := baton_internal.column_list(baton_internal.movable_columns(relation));
begin
    return format('with moved as (delete from %s t using (select %s from %s t where %s order by %s limit ($3 ->> ''batch'')::int for update of t skip locked) p '
                  'where %s returning t.*) insert into %s (%s) overriding system value select %s from moved',
                  relation, baton_internal.column_list(key, 't'), relation,
                  baton_internal.archivable_sql(layout, baton_internal.adopted_fragments(relation, layout) ->> 'done'),
                  baton_internal.column_list(key, 't'), baton_internal.key_match(key, 't', 'p'), layout #>> '{archive,table}', names, names)
     where layout ? 'archive' and baton_internal.is_asked(layout, 'archive');
end
$$;
comment on function baton_internal.archive_statement(regclass, jsonb) is 'statement that archives rows';

-- Sum up the activity of the past, keeping the last minutes apart for the throughput.
create function baton_internal.sum_up_activity(outbox_id int)
returns void
language sql volatile
as $$
    with old as (
        delete from baton_internal.adopted_activity a where a.outbox_id = $1 and a.at < clock_timestamp() - interval '5 minutes' returning a.*
    )
    insert into baton_internal.adopted_activity (outbox_id, at, event_type, processed, failed, dead)
    select o.outbox_id, max(o.at), o.event_type, sum(o.processed), sum(o.failed), sum(o.dead) from old o group by o.outbox_id, o.event_type
$$;
comment on function baton_internal.sum_up_activity(int) is 'folds counted activity into one row per event type';

-- Run a statement as the owner of a table in steps, until a step finds less than it may take; returns the rows it changed.
create function baton_internal.run_in_steps(relation regclass, statement text, step int, companions regclass[] default '{}')
returns bigint
language plpgsql
as $$
declare
    changed bigint;
    total bigint := 0;
begin
    loop
        changed := baton_internal.change_as_owner(relation, statement, arguments => jsonb_build_object('batch', step), companions => companions);
        total := total + changed;
        exit when changed < step;
    end loop;
    return total;
end
$$;
comment on function baton_internal.run_in_steps(regclass, text, int, regclass[]) is 'runs a maintenance statement in bounded steps';

-- Move old rows to the archive, with the months they need, and drop what the archive no longer keeps.
create function baton_internal.archive_adopted(outbox baton.adopted_outboxes, step int, out months int, out archived bigint, out dropped int)
language plpgsql
as $$
declare
    relation regclass := baton_internal.adopted_table(outbox);
    archive regclass := (outbox.layout #>> '{archive,table}')::regclass;
    by_column text := baton_internal.role_column(outbox.layout, coalesce(outbox.layout #>> '{archive,by}', 'occurred_at'));
    ready text := baton_internal.archivable_sql(outbox.layout, baton_internal.adopted_fragments(relation, outbox.layout) ->> 'done');
    month timestamptz;
    highest bigint;
begin
    months := 0;
    dropped := 0;
    if baton_internal.partitioned_by_time(archive) then
        for month in
            select r.month from baton_internal.run_as_owner(relation, format('select distinct date_trunc(''month'', %s::timestamptz, ''UTC'') from %s t where %s',
                                                                             by_column, relation, ready)) as r (month timestamptz)
        loop
            months := months + baton_internal.ensure_months(archive, month, month);
        end loop;
        months := months + baton_internal.ensure_months(archive, now(), now()
                  + make_interval(months => coalesce((outbox.layout #>> '{archive,months_ahead}')::int, 2)));
    end if;
    if outbox.read_sql is not null then
        select r.highest into highest from baton_internal.run_as_owner(relation, format('select max(%s)::bigint from %s t where %s',
            baton_internal.role_column(outbox.layout, 'id'), relation, ready)) as r (highest bigint);
        perform baton_internal.note_archived(outbox.outbox_id, highest);
    end if;
    archived := baton_internal.run_in_steps(relation, outbox.archive_sql, step, baton_internal.adopted_companions(outbox));
    if baton_internal.partitioned_by_time(archive) and outbox.layout #>> '{archive,drop_after}' is not null then
        dropped := baton_internal.drop_partitions_before(archive, now() - (outbox.layout #>> '{archive,drop_after}')::interval);
    end if;
end
$$;
comment on function baton_internal.archive_adopted(baton.adopted_outboxes, int) is 'archives old rows, and drops rows that the archive need not keep any more';

-- Forget the failures of rows that are gone from an outbox and from its dead letters.
create function baton_internal.forget_gone_failures(outbox baton.adopted_outboxes)
returns void
language plpgsql
as $$
declare
    relation regclass := baton_internal.adopted_table(outbox);
    known text[] := array(select f.row_id from baton_internal.adopted_failures f where f.outbox_id = outbox.outbox_id);
begin
    perform baton_internal.forget_failures(outbox.outbox_id, array(
        select k.id from unnest(known) k (id) except
        select r.id from baton_internal.run_as_owner(relation,
            format('select t.%1$I::text from (select %1$I from %2$s union all select %1$I from %3$s) t where t.%1$I = any ($2::%4$s[])',
                   baton_internal.mapped_column(outbox.layout, 'id'), relation, coalesce(outbox.layout #>> '{dead,table}', relation::text),
                   baton_internal.role_type(relation, outbox.layout, 'id')),
            ids => known, companions => baton_internal.adopted_companions(outbox)) as r (id text)));
end
$$;
comment on function baton_internal.forget_gone_failures(baton.adopted_outboxes) is 'deletes kept failures of rows that are gone';

-- Do one adopted outbox's maintenance; returns what was done and how often.
create function baton_internal.maintain_adopted(outbox_id int)
returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
    relation regclass := baton_internal.adopted_table(outbox);
    step int := baton.setting('outbox_drain_batch_size');
    done jsonb := '{}';
    archived record;
begin
    perform baton_internal.change_as_owner(relation, 'select');  -- refuses a table that changed hands, also where nothing is to be done
    if outbox.unlock_sql is not null then
        done := done || jsonb_build_object('locks_freed', baton_internal.change_as_owner(relation, outbox.unlock_sql,
                    arguments => jsonb_build_object('leases', baton_internal.adopted_leases(outbox.outbox_id))));
    end if;
    if baton_internal.partitioned_by_time(relation) and outbox.layout #> '{partitions,months_ahead}' is not null then
        done := done || jsonb_build_object('partitions_created', baton_internal.ensure_months(relation, now(),
                    now() + make_interval(months => (outbox.layout #>> '{partitions,months_ahead}')::int)));
    end if;
    if outbox.expire_sql is not null then
        done := done || jsonb_build_object('expired', baton_internal.run_in_steps(relation, outbox.expire_sql, step));
    end if;
    if outbox.archive_sql is not null then
        select * into archived from baton_internal.archive_adopted(outbox, step);
        done := done || jsonb_build_object('archived', archived.archived, 'archive_partitions_created', archived.months,
                                           'archive_partitions_dropped', archived.dropped);
    end if;
    if baton_internal.is_asked(outbox.layout, 'processed_events') then
        done := done || jsonb_build_object('processed_events_expired', baton_internal.run_in_steps((outbox.layout #>> '{processed_events,table}')::regclass,
                    baton_internal.expired_marks_sql((outbox.layout #>> '{processed_events,table}')::regclass), step));
    end if;
    if baton_internal.keeps_failures(outbox.layout) then
        perform baton_internal.forget_gone_failures(outbox);
    end if;
    perform baton_internal.sum_up_activity(outbox.outbox_id);
    return done;
end
$$;
comment on function baton_internal.maintain_adopted(int) is 'maintenance of one adopted outbox';

-- Free stale locks, delete what has expired, archive, and create partitions ahead, for one adopted outbox or all.
create function baton.run_adopted_maintenance(name text default null)
returns table (outbox text, action text, affected bigint, problem text)
language plpgsql
as $$
declare
    a baton.adopted_outboxes;
    only_one int := case when name is not null then (baton_internal.find_adopted(name)).outbox_id end;
    result jsonb;
begin
    for a in select * from baton.adopted_outboxes o where only_one is null or o.outbox_id = only_one order by o.outbox_id loop
        continue when not pg_try_advisory_xact_lock(hashtext('baton.run_adopted_maintenance'), a.outbox_id);  -- somebody is at it
        outbox := pg_catalog.format('%I.%I', a.schema_name, a.table_name);
        begin
            result := baton_internal.maintain_adopted(a.outbox_id);
            return query select run_adopted_maintenance.outbox, r.key, r.value::text::bigint, null::text from jsonb_each(result) r;
        exception when others then  -- one table's trouble must not keep the others waiting
            raise warning 'maintenance of % failed: %', outbox, sqlerrm using errcode = sqlstate;
            return query select run_adopted_maintenance.outbox, 'failed'::text, 0::bigint, sqlerrm;
        end;
    end loop;
end
$$;
comment on function baton.run_adopted_maintenance(text) is 'stale locks, expiry, archive and partitions of adopted outboxes';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}', '{run_adopted_maintenance,maintain_adopted}');
