-- What a relay asks for /metrics, a function for each kind of thing. Every number is computed where people look at it, too. A group is told by the
-- relay that owns the group; the rest, and groups without an owner, are told by one relay: the leader for the duty `metrics`. So a sum over all
-- relays is right. The relay limits the time of each question.

-- Groups that a relay tells of. A lag is exact up to 1,000 events: a thousand groups may all be far behind.
create function baton_internal.tell_groups(relay text, leads boolean)
returns table (group_name text, lag_seconds float8, lag_events float8, dead_letters float8, parked_events float8, most_attempts float8, leases float8,
               consumers float8, unhealthy_consumers float8)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    with told as materialized (
        select g.group_id, g.group_name
          from baton.consumer_groups g
          join baton.outboxes o using (outbox_id)
          join pg_class c on c.oid = o.relation
         cross join lateral baton_internal.position_of(g.group_id) at
         where case when at.owned_until > clock_timestamp() then at.owner = relay else leads end),
    parked as materialized (
        select p.group_id, count(*) filter (where p.state = 'dead') as dead, count(*) filter (where p.state <> 'dead') as waiting,
               max(p.attempt) filter (where p.state = 'retry') as most_attempts
          from baton_internal.parked p join told using (group_id) group by 1),
    leases as materialized (select l.group_name, count(*) as running from baton.active_leases l group by 1)
    select t.group_name, l.lag_seconds, l.lag_rows, coalesce(p.dead, 0), coalesce(p.waiting, 0), coalesce(p.most_attempts, 0), coalesce(r.running, 0),
           l.consumers, l.consumers - l.healthy
      from told t
     cross join lateral (select max(c.lag_seconds) as lag_seconds, max(c.lag_rows) as lag_rows, count(c.consumer) as consumers,
                                count(*) filter (where c.healthy) as healthy from baton_internal.lag_of_consumers(t.group_name, 1000) c) l
      left join parked p on p.group_id = t.group_id
      left join leases r on r.group_name = t.group_name
     where l.lag_rows is not null
$$;
comment on function baton_internal.tell_groups(text, boolean) is 'what the metrics of a relay say of groups';

-- How many partitions of an outbox are there for the ids to come. The catalog alone would not do: it learns where the log is, and what somebody has
-- dropped, when maintenance runs, and this is asked because it may not.
create function baton_internal.partitions_ahead(outbox_id int)
returns bigint
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select count(*)
      from baton_internal.outbox_partitions p
      join baton.outboxes o using (outbox_id)
      join pg_class c on c.oid = p.relation
     where p.outbox_id = $1 and p.state in ('new', 'ahead')
       and p.first_id > coalesce(pg_sequence_last_value(pg_get_serial_sequence(o.relation::text, 'id')::regclass), 0)
$$;
comment on function baton_internal.partitions_ahead(int) is 'partitions that are ready for the events to come';

-- Outboxes. Ids that publishers drew count as published, those of transactions that were rolled back as well.
create function baton_internal.tell_outboxes()
returns table (outbox text, published float8, bytes float8, partitions float8, partitions_ahead float8, retention_overdue float8, maintenance_failing float8,
               storage_critical float8, publishers float8, oldest_publisher float8)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select d.outbox, o.events_retired + d.row_estimate, d.total_bytes, d.partitions,
           baton_internal.partitions_ahead(o.outbox_id),
           coalesce(extract(epoch from clock_timestamp() - (baton_internal.overdue_partition(o)).since - d.retention), 0),
           (o.maintenance_error is not null)::int, (d.storage_status = 'critical')::int, a.open, coalesce(a.seconds, 0)
      from baton.describe_outboxes(null) d
      join baton.outboxes o on o.relation::text = d.outbox
     cross join lateral (select count(*) as open, extract(epoch from max(f.open_for)) as seconds from baton.publishers_in_flight f where f.outbox = d.outbox) a
$$;
comment on function baton_internal.tell_outboxes() is 'what the metrics say of outboxes';

-- Inboxes. One whose table cannot be read does not hide the others.
create function baton_internal.tell_inboxes()
returns table (inbox text, readable float8, pending float8, oldest_pending float8, dead_letters float8, gaps float8, oldest_gap float8, stalled float8, oldest_stall float8,
               unhandled float8)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    box baton.inboxes;
    health jsonb;
begin
    for box in select i.* from baton.inboxes i order by i.schema_name, i.name loop
        inbox := format('%I.%I', box.schema_name, box.name);
        select null, null, null, null, null, null, null, null into pending, oldest_pending, dead_letters, gaps, oldest_gap, stalled, oldest_stall, unhandled;
        begin
            health := baton.inbox_health(inbox);
            pending := health ->> 'pending_count';
            oldest_pending := coalesce(health ->> 'oldest_pending_age_sec', '0');
            dead_letters := health ->> 'dead_letter_count';
            stalled := health ->> 'stalled_aggregates';
            oldest_stall := coalesce(health ->> 'oldest_stall_sec', '0');
            unhandled := (health ->> 'unsequenced_count')::float8 + (health ->> 'unclaimable_count')::float8;
            gaps := 0;
            oldest_gap := 0;
            if box.order_mode = 'sequence' then
                select count(*), coalesce(max(g.gap_age_sec), 0) into gaps, oldest_gap from baton_internal.inbox_gaps_of(box) g;
            end if;
            readable := 1;
        exception when others then
            readable := 0;
        end;
        return next;
    end loop;
end
$$;
comment on function baton_internal.tell_inboxes() is 'what the metrics say of inboxes';

-- Since when a refresh of a stream table has been due; null when there is nothing to do. The session that refreshes stream tables remembers which
-- of them rest, and leaves their next time in the past: other sessions look for changes themselves.
create function baton_internal.overdue_since(stream baton.stream_tables)
returns timestamptz
language plpgsql volatile
as $$
declare
    buffers oid[];
begin
    if stream.schedule is null or stream.paused or stream.stopped_at is not null or stream.next_due >= baton_internal.clock() then
        return null;
    elsif stream.effective_mode = 'DIFFERENTIAL' and stream.frontier is not null and strpos(stream.delta, 'baton_internal.frontier_time()') = 0 then
        select array_agg(baton_internal.change_buffer(r.source)::oid) into buffers
          from baton_internal.stream_sources r where r.stream_id = stream.stream_id and r.captured is not null;
        if array_position(buffers, null) is null
           and (baton_internal.unseen_changes(buffers, stream.frontier, stream.frontier_xid, stream.frontier_step)).changes = 0 then
            return null;
        end if;
    end if;
    return stream.next_due;
end
$$;
comment on function baton_internal.overdue_since(baton.stream_tables) is 'since when a stream table that has something to do is due';

-- Stream tables. One that nobody refreshes by itself is never overdue.
create function baton_internal.tell_streams()
returns table (stream_table text, overdue float8, refreshed_at float8, refreshes float8, failed_in_a_row float8, stopped float8, paused float8, last_seconds float8)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    select d.stream_table, coalesce(extract(epoch from baton_internal.clock() - baton_internal.overdue_since(s)), 0), extract(epoch from d.refreshed_at), d.refreshes,
           d.failed_in_a_row, (d.state in ('stopped', 'broken'))::int, (d.state = 'paused')::int, d.last_milliseconds / 1000
      from baton_internal.describe_streams(null) d
      join baton.stream_tables s on s.relation::text = d.stream_table
$$;
comment on function baton_internal.tell_streams() is 'what the metrics say of stream tables';

-- When a job has something to do, as any session sees it.
create function baton_internal.backlog_since(job baton.jobs)
returns timestamptz
language sql volatile
as $$
    select case when job.work = 'baton_internal.stream_work' and job.resume is null
                then (select min(baton_internal.overdue_since(s)) from baton.stream_tables s) else baton_internal.work_begins(job) end
$$;
comment on function baton_internal.backlog_since(baton.jobs) is 'when a job has something to do; null when it has nothing';

-- Jobs that are switched on. One that never ran is overdue since baton came.
create function baton_internal.tell_jobs()
returns table (job text, last_success float8, runs float8, failures float8, failed_in_a_row float8, overdue float8, running float8)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    select j.name, extract(epoch from j.last_success), j.runs, j.failures, j.failed_in_a_row,
           case when j.next_due < 'infinity' and b.since < 'infinity'
                then greatest(extract(epoch from baton_internal.clock() - coalesce(nullif(greatest(j.next_due, b.since), '-infinity'), j.last_run, i.installed_at)), 0)
                else 0 end,
           coalesce(extract(epoch from clock_timestamp() - j.begun_at), 0)
      from baton.jobs j cross join baton.installation i cross join lateral baton_internal.backlog_since(j) b (since) where j.enabled
$$;
comment on function baton_internal.tell_jobs() is 'what the metrics say of jobs';

-- The longest transaction of this database that holds something up, prepared ones too: one that sees a state or has written. Who may not see the sessions of others does not see theirs.
create function baton_internal.tell_transactions()
returns table (oldest float8)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(extract(epoch from clock_timestamp() - min(t.began)), 0)
      from (select a.xact_start as began from pg_stat_activity a where a.datname = current_database() and a.pid <> pg_backend_pid()
                   and (a.backend_xid is not null or a.backend_xmin is not null)
            union all select p.prepared from pg_prepared_xacts p where p.database = current_database()) t
$$;
comment on function baton_internal.tell_transactions() is 'what the metrics say of transactions';

select baton_internal.declare_privileges('execute', '{baton_relay}', '{tell_groups,tell_outboxes,tell_inboxes,tell_streams,tell_jobs,tell_transactions}');
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_viewer}', '{partitions_ahead}');
