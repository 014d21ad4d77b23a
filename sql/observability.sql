-- What operators look at. Everything here is live; nothing is kept up to date at the writers' cost.

-- Size of an outbox with its partitions and indexes.
create function baton_internal.outbox_bytes(relation regclass)
returns bigint
language sql stable
as $$ select coalesce(sum(pg_total_relation_size(t.relid)), 0)::bigint from pg_partition_tree(relation) t where t.isleaf $$;
comment on function baton_internal.outbox_bytes(regclass) is 'size of an outbox on disk';

-- Count up to a limit the rows of an outbox for which a condition holds; $1 and $2 are snapshots, $3 an id.
create function baton_internal.count_rows(outbox baton.outboxes, g baton.consumer_groups, condition text, s1 pg_snapshot, s2 pg_snapshot, id bigint,
                                 up_to int)
returns bigint
language plpgsql stable
as $$
declare
    counted bigint;
begin
    execute pg_catalog.format('select count(*) from (select from %s where %s %s limit $4) e', outbox.relation, condition,
                   case when g.tenant_id is not null then pg_catalog.format('and tenant_id = %L', g.tenant_id) end)
       into counted using s1, s2, count_rows.id, up_to;
    return counted;
end
$$;
comment on function baton_internal.count_rows(baton.outboxes, baton.consumer_groups, text, pg_snapshot, pg_snapshot, bigint, int)
    is 'counts rows of an outbox up to a limit';

-- The last id that an outbox's sequence gave, or skipped when the log went on to its next partition.
create function baton_internal.last_drawn_id(relation regclass)
returns bigint
language sql stable
as $$ select baton_internal.next_id(relation) - 1 $$;
comment on function baton_internal.last_drawn_id(regclass) is 'last id drawn by a publisher';

-- How many events a group has not settled: exact up to so many undispatched ones, then estimated from the ids drawn.
create function baton_internal.count_lag(outbox baton.outboxes, g baton.consumer_groups, exact_up_to int)
returns bigint
language plpgsql stable
as $$
declare
    at baton_internal.group_positions;
    w baton_internal.windows;
    ahead bigint;
    first_ahead bigint;
begin
    select * into at from baton_internal.group_positions p where p.group_id = g.group_id;
    if at.window_open then
        select * into w from baton_internal.windows x where x.group_id = g.group_id and x.window_number = at.window_number;
    end if;
    -- the index on xid finds what no dispatched snapshot has seen; within the open window ids do
    ahead := baton_internal.count_rows(outbox, g, 'xid >= pg_snapshot_xmax($1)', coalesce(w.sight, at.seen), null, null, exact_up_to)
           + baton_internal.count_rows(outbox, g, 'xid = any (array(select pg_snapshot_xip($1)))', coalesce(w.sight, at.seen), null, null, exact_up_to);
    if at.window_open then
        ahead := ahead
           + baton_internal.count_rows(outbox, g, 'id > $3 and pg_visible_in_snapshot(xid, $2) and not pg_visible_in_snapshot(xid, $1)', w.seen, w.sight,
                              greatest(at.after_id, w.first_id - 1), case when w.first_id is null then 0 else exact_up_to end)
           + baton_internal.count_rows(outbox, g, format('xid = any (%L::xid8[]) and id > $3 and id < %s', w.late, coalesce(w.first_id, 9223372036854775807)),
                              null, null, at.after_id, exact_up_to);
    end if;
    if ahead >= exact_up_to then
        execute format('select id from %s where id > $1 and not pg_visible_in_snapshot(xid, $2) order by id limit 1', outbox.relation)
           into first_ahead using case when at.window_open then greatest(at.after_id, w.first_id - 1) else at.late_id end, at.seen;
        select greatest(ahead, sum(least(coalesce(p.last_id, p.end_id - 1), baton_internal.last_drawn_id(outbox.relation)) - greatest(p.first_id, first_ahead) + 1))
          into ahead from baton_internal.outbox_partitions p
         where p.outbox_id = outbox.outbox_id and p.state in ('open', 'left') and p.first_id <= baton_internal.last_drawn_id(outbox.relation)
           and coalesce(p.last_id, p.end_id - 1) >= first_ahead;
    end if;
    return ahead
         + (select count(*) from baton_internal.pieces p cross join lateral baton_internal.piece_events(outbox, g, p) where p.group_id = g.group_id)
         + (select count(*) from baton_internal.parked p where p.group_id = g.group_id and p.state <> 'dead');
end
$$;
comment on function baton_internal.count_lag(baton.outboxes, baton.consumer_groups, int) is 'events that a group has not settled';

-- When the oldest event that a group has not settled occurred.
create function baton_internal.oldest_unsettled(outbox baton.outboxes, g baton.consumer_groups)
returns timestamptz
language plpgsql stable
as $$
declare
    at baton_internal.group_positions;
    w baton_internal.windows;
    first_id bigint;
    oldest timestamptz;
begin
    select * into at from baton_internal.group_positions p where p.group_id = g.group_id;
    if at.window_open then
        select * into w from baton_internal.windows x where x.group_id = g.group_id and x.window_number = at.window_number;
    end if;
    select least((select min(p.after_id) + 1 from baton_internal.pieces p where p.group_id = g.group_id),
                 (select min(p.id) from baton_internal.parked p where p.group_id = g.group_id and p.state in ('retry', 'blocked') and p.event is null),
                 case when at.window_open then at.after_id + 1 end)
      into first_id;
    if first_id is not null then
        execute format('select occurred_at from %s where id >= $1 order by id limit 1', outbox.relation) into oldest using first_id;
    else
        execute format('select min(occurred_at) from (select occurred_at from %s where xid >= pg_snapshot_xmax($1) order by xid, id limit 1) e', outbox.relation)
           into oldest using at.seen;
    end if;
    return oldest;
end
$$;
comment on function baton_internal.oldest_unsettled(baton.outboxes, baton.consumer_groups) is 'time of the oldest event that a group has not settled';

-- Whether the caller may know of a group: a tenant's group is known to that tenant, and to who looks after all of them.
create function baton_internal.may_know_group(g baton.consumer_groups, tenancy boolean)
returns boolean
language sql stable
as $$
    select not tenancy or g.tenant_id = nullif(current_setting('baton.tenant_id', true), '')
        or nullif(current_setting('baton.tenant_id', true), '') is null
           and (baton_internal.sees_all_tenants()
                or exists (select from pg_catalog.pg_roles r where r.rolname = 'baton_viewer' and pg_has_role(baton_internal.caller(), r.oid, 'usage')))
$$;
comment on function baton_internal.may_know_group(baton.consumer_groups, boolean) is 'true when the caller may see a group and its state';

-- Lag and health of groups and their consumers. A position belongs to the group, so its members show the same lag.
create function baton_internal.lag_of_consumers(name text, exact_up_to int)
returns table (group_name text, consumer text, last_offset bigint, lag_rows bigint, lag_seconds numeric, last_heartbeat timestamptz,
               heartbeat_age_seconds numeric, healthy boolean)
language plpgsql stable
set enable_bitmapscan = off set enable_seqscan = off set enable_sort = off set jit = off  -- batches are read along an index, whatever the statistics say
as $$
declare
    g baton.consumer_groups;
    outbox baton.outboxes;
    rows_behind bigint;
    oldest timestamptz;
begin
    if lag_of_consumers.name is not null then
        perform baton_internal.find_group(lag_of_consumers.name);
    end if;
    for g in select c.* from baton.consumer_groups c join baton.outboxes o using (outbox_id)
              where (lag_of_consumers.name is null and baton_internal.may_know_group(c, o.tenancy) or c.group_name = lag_of_consumers.name)
                and exists (select from pg_class r where r.oid = o.relation) order by c.group_name loop
        select * into outbox from baton.outboxes o where o.outbox_id = g.outbox_id;
        rows_behind := baton_internal.count_lag(outbox, g, exact_up_to);
        oldest := case when rows_behind > 0 then baton_internal.oldest_unsettled(outbox, g) end;
        return query
            select g.group_name, c.consumer_id, c.last_offset, rows_behind,
                   round(coalesce(extract(epoch from clock_timestamp() - case when isfinite(oldest) then oldest end), 0), 3), c.last_heartbeat_at,
                   round(extract(epoch from clock_timestamp() - c.last_heartbeat_at), 3),
                   c.last_heartbeat_at > clock_timestamp() - interval '60 seconds'
              from (select) one left join baton_internal.consumers c on c.group_id = g.group_id and c.reaped_at is null
             order by c.consumer_id;
    end loop;
end
$$;
comment on function baton_internal.lag_of_consumers(text, int) is 'lag and health of groups and their consumers; see consumer_lag()';

-- The same for people: a lag is exact up to 50,000 events. A heartbeat's age has both of the names that others give to it.
create function baton.consumer_lag(name text default null)
returns table (group_name text, consumer text, last_offset bigint, lag_rows bigint, lag_seconds numeric, last_heartbeat timestamptz,
               heartbeat_age_seconds numeric, healthy boolean, heartbeat_age_sec numeric)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$ select l.*, l.heartbeat_age_seconds from baton_internal.lag_of_consumers(name, 50000) l $$;
comment on function baton.consumer_lag(text) is 'lag and health of groups and their consumers';

-- State of one or all outboxes.
create function baton.outbox_status(name text default null)
returns table (outbox text, created_at timestamptz, payload_type text, retention interval, row_estimate bigint, last_id bigint, partitions int,
               oldest timestamptz, newest timestamptz, total_bytes bigint, groups int, dead_letters bigint, storage_status text,
               claim_check_pending_count bigint, last_drained_at timestamptz, last_drained_count bigint)
language sql
as $$ select * from baton.describe_outboxes(case when name is not null then baton_internal.resolve_table(name) end) $$;
comment on function baton.outbox_status(text) is 'state of one or all outboxes';

-- Describe outboxes.
create function baton.describe_outboxes(relation regclass)
returns table (outbox text, created_at timestamptz, payload_type text, retention interval, row_estimate bigint, last_id bigint, partitions int,
               oldest timestamptz, newest timestamptz, total_bytes bigint, groups int, dead_letters bigint, storage_status text,
               claim_check_pending_count bigint, last_drained_at timestamptz, last_drained_count bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    o baton.outboxes;
begin
    if relation is not null then
        perform baton_internal.find_outbox(relation);
    end if;
    for o in select x.* from baton.outboxes x join pg_class c on c.oid = x.relation
              where describe_outboxes.relation is null or x.relation = describe_outboxes.relation order by x.relation::text loop
        outbox := o.relation::text;
        created_at := o.created_at;
        payload_type := o.payload_type;
        retention := coalesce(o.retention, make_interval(hours => baton.setting('outbox_retention_hours')::int));
        last_id := baton_internal.last_drawn_id(o.relation);
        select count(*), coalesce(sum(least(coalesce(p.last_id, p.end_id - 1), describe_outboxes.last_id) - p.first_id + 1)
                                  filter (where p.first_id <= describe_outboxes.last_id), 0)
          into partitions, row_estimate
          from baton_internal.outbox_partitions p where p.outbox_id = o.outbox_id and p.state in ('new', 'ahead', 'open', 'left');
        execute format('select (select occurred_at from %1$s order by id limit 1), (select occurred_at from %1$s order by id desc limit 1)', o.relation)
           into oldest, newest;
        total_bytes := baton_internal.outbox_bytes(o.relation);
        select count(*) into groups from baton.consumer_groups g where g.outbox_id = o.outbox_id;
        select count(*) into dead_letters from baton_internal.parked p join baton.consumer_groups g using (group_id)
         where g.outbox_id = o.outbox_id and p.state = 'dead';
        storage_status := case when total_bytes > baton.setting('outbox_storage_critical_mb')::bigint * 1048576 then 'critical' else 'ok' end;
        select count(*) into claim_check_pending_count from baton_internal.claim_checks c where c.outbox_id = o.outbox_id and baton_internal.is_unclaimed(c);
        last_drained_at := o.last_drained_at;
        last_drained_count := o.last_drained_count;
        return next;
    end loop;
end
$$;
comment on function baton.describe_outboxes(regclass) is 'state of outboxes; called by outbox_status()';

-- Alert when an outbox has outgrown its limit: when it happens, then hourly.
create function baton_internal.watch_storage(outbox baton.outboxes)
returns void
language plpgsql
as $$
declare
    bytes constant bigint := baton_internal.outbox_bytes(outbox.relation);
begin
    if bytes <= baton.setting('outbox_storage_critical_mb')::bigint * 1048576 then
        update baton.outboxes o set storage_alert_at = null where o.outbox_id = outbox.outbox_id and o.storage_alert_at is not null;
    elsif outbox.storage_alert_at is null or outbox.storage_alert_at not between clock_timestamp() - interval '1 hour' and clock_timestamp() then
        update baton.outboxes o set storage_alert_at = clock_timestamp() where o.outbox_id = outbox.outbox_id;
        perform baton_internal.alert('outbox_storage_critical', outbox.relation::text, jsonb_build_object('total_bytes', bytes,
            'holders', (select jsonb_agg(distinct h) from baton_internal.outbox_partitions p cross join lateral baton_internal.partition_holders(p) h
                         where p.outbox_id = outbox.outbox_id and p.state = 'left')));
    end if;
end
$$;
comment on function baton_internal.watch_storage(baton.outboxes) is 'alerts with outbox_storage_critical when outboxes take too much space';

-- Alert on consumers that fell silent, reap those that are dead, forget those that are stale.
create function baton_internal.watch_consumers()
returns void
language plpgsql
as $$
declare
    c record;
begin
    for c in update baton_internal.consumers x set unhealthy_since = clock_timestamp()
              where x.unhealthy_since is null and x.reaped_at is null and x.last_heartbeat_at <= clock_timestamp() - interval '60 seconds'
             returning x.group_id, x.consumer_id, x.last_heartbeat_at loop
        perform baton_internal.alert('consumer_unhealthy', (select g.group_name from baton.consumer_groups g where g.group_id = c.group_id),
                            jsonb_build_object('consumer', c.consumer_id, 'last_heartbeat', c.last_heartbeat_at));
    end loop;
    if not baton.setting('consumer_cleanup_enabled')::boolean then
        return;
    end if;
    for c in update baton_internal.consumers x set reaped_at = clock_timestamp()
              where x.reaped_at is null
                and x.last_heartbeat_at < clock_timestamp() - make_interval(hours => baton.setting('consumer_dead_threshold_hours')::int)
             returning x.group_id, x.consumer_id, x.last_heartbeat_at loop
        -- the next poll ends what has run out, as a whole and under the group's lock
        update baton_internal.pieces p set leased_until = '-infinity' where p.group_id = c.group_id and p.consumer_id = c.consumer_id;
        update baton_internal.parked p set leased_until = '-infinity' where p.group_id = c.group_id and p.consumer_id = c.consumer_id;
        perform baton_internal.alert('consumer_reaped', (select g.group_name from baton.consumer_groups g where g.group_id = c.group_id),
                            jsonb_build_object('consumer', c.consumer_id, 'last_heartbeat', c.last_heartbeat_at));
    end loop;
    delete from baton_internal.consumers x
     where x.reaped_at is not null
       and coalesce(x.last_commit_at, x.registered_at) < clock_timestamp() - make_interval(days => baton.setting('consumer_stale_offset_threshold_days')::int);
end
$$;
comment on function baton_internal.watch_consumers() is 'alerts about silent consumers, and deletes dead ones';

-- Groups for whose sake a partition is kept that is old enough to go.
create function baton_internal.retention_holders()
returns table (outbox text, group_name text, partition text, blocked_for interval, bytes bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    o baton.outboxes;
    part baton_internal.outbox_partitions;
begin
    if baton.setting('outbox_force_retention')::boolean then
        return;
    end if;
    for o in select x.* from baton.outboxes x join pg_class c on c.oid = x.relation order by x.relation::text loop
        part := baton_internal.overdue_partition(o);
        if exists (select from pg_class c where c.oid = part.relation) then
            return query
            select o.relation::text, h, part.relation::text,
                   clock_timestamp() - part.since - coalesce(o.retention, make_interval(hours => baton.setting('outbox_retention_hours')::int)),
                   pg_total_relation_size(part.relation)
              from baton_internal.partition_holders(part) h;
        end if;
    end loop;
end
$$;
comment on function baton_internal.retention_holders() is 'groups that keep a partition; see retention_blocked';

create view baton.retention_blocked as
select h.outbox, h.group_name, h.partition, h.blocked_for, h.bytes from baton_internal.retention_holders() h;
comment on view baton.retention_blocked is 'groups that have not settled a partition that is old enough to go, and for how long it is kept for them';

create view baton.group_lag as
select group_name, max(lag_rows) as lag_rows, max(lag_seconds) as lag_seconds, count(consumer) as consumers,
       count(*) filter (where healthy) as healthy_consumers
  from baton.consumer_lag() group by 1;
comment on view baton.group_lag is 'lag of every group in rows and seconds';

create view baton.active_leases as
select g.group_name, l.consumer_id, l.lease_token, l.kind, l.first_id, l.last_id, l.leased_until
  from (select group_id, consumer_id, lease_token, 'piece' as kind, after_id + 1 as first_id, upto_id as last_id, leased_until from baton_internal.pieces
        union all
        select group_id, consumer_id, lease_token, 'parked', id, id, leased_until from baton_internal.parked) l
  join baton.consumer_groups g using (group_id)
 where l.lease_token is not null and l.leased_until > clock_timestamp();
comment on view baton.active_leases is 'leases that run now';

-- The same under the names that dashboards for consumer groups expect, with a column for a lease's end by its name there.
create view baton.consumer_status as
select l.group_name, l.consumer as consumer_id, l.last_offset, l.last_heartbeat as last_heartbeat_at, l.heartbeat_age_seconds, l.healthy, l.lag_rows,
       l.heartbeat_age_sec
  from baton.consumer_lag() l where l.consumer is not null;
comment on view baton.consumer_status is 'consumers of every group: offset, heartbeat, health and the lag of their group';

create view baton.consumer_group_lag as
select l.group_name, l.lag_rows, l.lag_seconds, l.consumers, l.healthy_consumers from baton.group_lag l;
comment on view baton.consumer_group_lag is 'lag of every group, as in group_lag';

create view baton.consumer_active_leases as
select l.group_name, l.consumer_id, l.lease_token, l.kind, l.first_id, l.last_id, l.leased_until as visibility_until from baton.active_leases l;
comment on view baton.consumer_active_leases is 'leases that run now, as in active_leases';

create view baton.failures_by_type as
select g.group_name, coalesce(p.event ->> 'event_type', 'unknown') as event_type, p.state, count(*) as events, max(p.parked_at) as latest
  from baton_internal.parked p join baton.consumer_groups g using (group_id)
 where p.state in ('retry', 'dead') group by 1, 2, 3;
comment on view baton.failures_by_type is 'failed events by group, type and state';

create view baton.dead_letter_depth as
select g.group_name, count(p.parked_id) as dead_letters, min(p.parked_at) as oldest
  from baton.consumer_groups g left join baton_internal.parked p on p.group_id = g.group_id and p.state = 'dead' group by 1;
comment on view baton.dead_letter_depth is 'dead letters of every group';

create view baton.throughput as
select o.relation::text as outbox, s.n_tup_ins as events_published, s.stats_since, round(s.n_tup_ins / nullif(extract(epoch from clock_timestamp() - s.stats_since), 0), 3) as events_per_second
  from baton.outboxes o
 cross join lateral (select coalesce(sum(t.n_tup_ins), 0) as n_tup_ins,
                            coalesce((select d.stats_reset from pg_stat_database d where d.datname = current_database()), o.created_at) as stats_since
                       from pg_partition_tree(o.relation) p join pg_stat_user_tables t on t.relid = p.relid where p.isleaf) s;
comment on view baton.throughput is 'events published since the statistics were reset';

create view baton.publishers_in_flight as
select o.relation::text as outbox, a.pid, a.usename as role, a.application_name, a.xact_start, clock_timestamp() - a.xact_start as open_for, a.state
  from baton.outboxes o
  join pg_locks l on l.locktype = 'relation' and l.relation = o.relation and l.mode = 'RowExclusiveLock' and l.granted
                 and l.database = (select oid from pg_database where datname = current_database())
  join pg_stat_activity a on a.pid = l.pid
 order by a.xact_start;
comment on view baton.publishers_in_flight is 'transactions that have published and are still open, longest first';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator,baton_viewer}', '{consumer_lag}');
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_viewer}', '{outbox_status,describe_outboxes,retention_holders}');
select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer}',
    '{group_lag,active_leases,consumer_status,consumer_group_lag,consumer_active_leases,failures_by_type,dead_letter_depth,throughput,publishers_in_flight,retention_blocked}');
