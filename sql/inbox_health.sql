-- inbox_health and inbox_status: what waits, what is dead, how fast it goes. Nothing here reads older history.

-- Count an inbox's messages: pending, dead, and what the last minutes brought.
create function baton_internal.inbox_counts(box baton.inboxes, out pending bigint, out dead bigint, out oldest_sec float8,
                                   out processed_last_minute bigint, out avg_sec float8, out received_recently bigint, out unclaimable bigint)
language plpgsql stable
as $$
declare
    terms baton_internal.inbox_terms := baton_internal.inbox_terms(box);
    -- A message that was sent for later is not old before its time.
    since text := case when box.layout = 'managed' then 'case when t.retry_count = 0 then greatest(t.received_at, t.available_at) else t.received_at end'
                       else format('t.%I', box.received_at_column) end;
begin
    -- Whatever came in the last minutes is pending, dead, or was processed in them.
    select r.pending, r.oldest_sec, r.dead, r.processed_last_minute, r.avg_sec, r.pending_recently + r.processed_recently, r.unclaimable
      into pending, oldest_sec, dead, processed_last_minute, avg_sec, received_recently, unclaimable
      from baton_internal.run_as_owner(box.relation, format(
        'select p.pending, p.oldest_sec, p.recently, (select count(*) from %3$s t where %6$s), d.last_minute, d.avg_sec, d.recently, p.unclaimable'
        ' from (select count(*) as pending, greatest(extract(epoch from $1) - extract(epoch from min(%1$s)), 0)::float8 as oldest_sec,'
        ' count(*) filter (where t.%2$I > $1 - interval ''5 minutes'') as recently, count(*) filter (where octet_length(%8$s) > %9$s) as unclaimable'
        ' from %3$s t where %4$s) p,'
        ' (select count(*) filter (where t.%5$I > $1 - interval ''1 minute'') as last_minute, avg(extract(epoch from t.%5$I) - extract(epoch from t.%2$I))::float8 as avg_sec,'
        ' count(*) filter (where t.%2$I > $1 - interval ''5 minutes'') as recently from %3$s t where %7$s and t.%5$I > $1 - interval ''5 minutes'') d',
        since, box.received_at_column, box.relation, terms.pending, box.processed_at_column, terms.dead, terms.done,
        terms.id, baton_internal.longest_kept_id()), clock_timestamp())
        as r (pending bigint, oldest_sec float8, pending_recently bigint, dead bigint, processed_last_minute bigint, avg_sec float8, processed_recently bigint,
              unclaimable bigint);
end
$$;
comment on function baton_internal.inbox_counts(baton.inboxes) is 'counts of an inbox: pending, dead, age of the oldest message, and the last minutes';

-- Count what stands still in an ordered inbox: aggregates that wait for something, for how long, and messages of an aggregate that have
-- no number in an inbox that goes by numbers, and so no order.
create function baton_internal.inbox_stalls(box baton.inboxes, out stalled bigint, out oldest_sec float8, out unsequenced bigint)
language plpgsql stable
as $$
declare
    terms baton_internal.inbox_terms;
begin
    stalled := 0;
    oldest_sec := 0;
    unsequenced := 0;
    if box.order_mode is null then
        return;
    end if;
    select count(*), greatest(extract(epoch from clock_timestamp()) - extract(epoch from min(s.waiting_since)), 0) into stalled, oldest_sec
      from baton_internal.inbox_stalled_of(box) s;
    if box.order_mode = 'sequence' then
        terms := baton_internal.inbox_terms(box);
        select r.unsequenced into unsequenced from baton_internal.run_as_owner(box.relation,
            format('select count(*) from %s t where %s and (t.%I is null or t.%I is null) and t.%3$I is not null',
                   box.relation, terms.pending, box.aggregate_id_column, box.sequence_column)) as r (unsequenced bigint);
    end if;
end
$$;
comment on function baton_internal.inbox_stalls(baton.inboxes) is 'stalled aggregates and messages without a number of an ordered inbox';

-- Report an inbox's health.
create function baton.inbox_health(name text, path name[] default current_schemas(false))
returns jsonb
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    box baton.inboxes := baton_internal.need_tenant_inbox(inbox_health.name, path);
    c record;
    o record;
    duplicates bigint;
begin
    if box.layout = 'processed_events' then
        select 0::bigint as pending, 0::bigint as dead, null::float8 as oldest_sec, 0::bigint as processed_last_minute,
               null::float8 as avg_sec, 0::bigint as received_recently, 0::bigint as unclaimable into c;
        select r.last_minute, r.recently into c.processed_last_minute, c.received_recently
          from baton_internal.run_as_owner(box.relation, format('select count(*) filter (where t.processed_at > $1 - interval ''1 minute''), count(*) from %s t'
                   ' where t.processed_at > $1 - interval ''5 minutes''%s', box.relation, baton_internal.inbox_group_condition(box, 't.')),
                   clock_timestamp()) as r (last_minute bigint, recently bigint);
    else
        select i.* into c from baton_internal.inbox_counts(box) i;
    end if;
    select s.* into o from baton_internal.inbox_stalls(box) s;
    select coalesce(sum(d.duplicates), 0) into duplicates from baton_internal.inbox_duplicates d
     where d.inbox = box.id and d.at > clock_timestamp() - interval '5 minutes';
    return jsonb_build_object(
        'pending_count', c.pending, 'dead_letter_count', c.dead,
        'avg_processing_time_sec', round(c.avg_sec::numeric, 3), 'oldest_pending_age_sec', round(c.oldest_sec::numeric, 3),
        'throughput_per_sec', round(c.processed_last_minute / 60.0, 3),
        'duplicate_rate_pct', round(coalesce(100.0 * duplicates / nullif(duplicates + c.received_recently, 0), 0), 2),
        'stalled_aggregates', o.stalled, 'oldest_stall_sec', round(o.oldest_sec::numeric, 3), 'unsequenced_count', o.unsequenced,
        'unclaimable_count', c.unclaimable,
        'health_status', case when c.oldest_sec >= 120 or c.pending >= 100000 then 'critical'
                              when c.oldest_sec >= 30 or c.pending >= 10000 or c.dead > 0 or o.unsequenced > 0 or c.unclaimable > 0
                                   or o.oldest_sec >= baton.setting('inbox_gap_alert_delay_seconds')::int then 'degraded'
                              else 'healthy' end);
end
$$;
comment on function baton.inbox_health(text, name[]) is
    'pending, dead letters, stalled aggregates, averages of the last 5 minutes, throughput of the last minute, and healthy, degraded or critical';

-- List the inboxes, or one of them.
create function baton.inbox_status(name text default null, path name[] default current_schemas(false))
returns table (inbox text, table_name text, is_managed boolean, layout text, pending_count bigint, dead_letter_count bigint,
               oldest_pending_age_sec float8, max_retries int, schedule interval, retention_hours int, ordered boolean, prioritised boolean,
               last_drained_at timestamptz, last_drained_count bigint, health_status text)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    box baton.inboxes;
    health jsonb;
    wanted int := case when inbox_status.name is not null then (baton_internal.find_inbox(inbox_status.name, path)).id end;
begin
    if inbox_status.name is not null and wanted is null then
        perform baton_internal.need_inbox(inbox_status.name, path);
    end if;
    for box in select i.* from baton.inboxes i where wanted is null or i.id = wanted order by i.schema_name, i.name loop
        inbox := format('%I.%I', box.schema_name, box.name);
        is_managed := box.layout = 'managed';
        layout := box.layout;
        max_retries := box.max_retries;
        schedule := box.schedule;
        retention_hours := baton_internal.inbox_retention_hours(box);
        ordered := box.order_mode is not null;
        prioritised := box.priority_tiers is not null;
        last_drained_at := box.last_drained_at;
        last_drained_count := box.last_drained_count;
        if box.relation::text ~ '^[0-9]' then
            table_name := null;
            health := '{"health_status": "table missing"}';
        elsif box.tenancy and nullif(current_setting('baton.tenant_id', true), '') is null and not baton_internal.sees_all_tenants() then
            table_name := box.relation::text;
            health := '{}';  -- nothing that the caller may know
        else
            table_name := box.relation::text;
            health := baton.inbox_health(inbox);
        end if;
        pending_count := (health ->> 'pending_count')::bigint;
        dead_letter_count := (health ->> 'dead_letter_count')::bigint;
        oldest_pending_age_sec := (health ->> 'oldest_pending_age_sec')::float8;
        health_status := health ->> 'health_status';
        return next;
    end loop;
end
$$;
comment on function baton.inbox_status(text, name[]) is 'every inbox with its table, policies, counts and health';

-- Return how long processed messages are kept; null keeps them. An adopted table's rows go only if it was said so.
create function baton_internal.inbox_retention_hours(box baton.inboxes)
returns int
language sql stable
as $$ select case when box.layout = 'managed' then coalesce(box.retention_hours, baton.setting('inbox_processed_retention_hours')::int) else box.retention_hours end $$;
comment on function baton_internal.inbox_retention_hours(baton.inboxes) is 'hours for which processed messages are kept, null for ever';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer,baton_consumer,baton_relay}', '{inbox_health,inbox_status}');
