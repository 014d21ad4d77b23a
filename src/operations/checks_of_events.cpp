// What may be wrong with what baton carries: letters, groups, pipelines, inboxes, stream tables, jobs,
// partitions.

#include "operations/checks.hpp"

namespace baton::operations {

namespace {

const Check dead_letters{"dead letters", true, R"sql(
    select 'error' as severity, x.object, x.what, 'baton dead replay --in ' || baton_internal.shell_word(x.object) as fix,
           'see why first: baton dead list --in ' || baton_internal.shell_word(x.object) as note
      from (select d.group_name as object, format('%s dead %s, the oldest since %s', d.dead_letters, case d.dead_letters when 1 then 'letter' else 'letters' end,
                                                  to_char(d.oldest, 'YYYY-MM-DD HH24:MI')) as what
              from baton.dead_letter_depth d where d.dead_letters > 0
            union all
            select s.inbox, format('%s dead %s', s.dead_letter_count, case s.dead_letter_count when 1 then 'message' else 'messages' end)
              from baton.inbox_status() s where s.dead_letter_count > 0
            union all
            select a.outbox, format('%s dead %s', a.dlq_depth, case a.dlq_depth when 1 then 'letter' else 'letters' end)
              from baton.adopted_status() a where a.dlq_depth > 0) x)sql"};

const Check unserved_groups{"groups that nobody serves", true, R"sql(
    select case when x.served then 'warning' else 'error' end as severity, x.group_name as object,
           format(case when x.served then '%s %s behind, the oldest for %s' when x.lag_rows = 1 then '%s %s waits and nobody reads it, for %s' else '%s %s wait and nobody reads them, the oldest for %s' end,
                  x.lag_rows, case x.lag_rows when 1 then 'event' else 'events' end, make_interval(secs => round(x.lag_seconds))) as what,
           format(case when x.served then 'baton groups %s' else 'baton groups %s --consumers' end, baton_internal.shell_word(x.group_name)) as fix,
           case when x.served then 'more consumers, or a faster destination, let it catch up'
                else format('start its relay or its consumers; if nobody needs the group any more: select baton.drop_consumer_group(%L);', x.group_name) end as note
      from (select l.*, l.healthy_consumers > 0 or coalesce(p.owned_until, '-infinity') >= clock_timestamp() as served
              from baton.group_lag l join baton.consumer_groups g using (group_name) left join baton_internal.group_positions p using (group_id)) x
     where x.lag_rows > 0 and x.lag_seconds > case when x.served then 300 else 60 end)sql"};

// A pipeline of a relay's file is not in the catalog: its group says what there is to say.
const Check hindered_pipelines{"pipelines in trouble", true, R"sql(
    select 'error' as severity, coalesce(t.pipeline, 'relay ' || t.relay) as object,
           format('%s: %s (since %s)', case t.state when 'running' then 'no event gets through' when 'not reloaded' then 'the configuration was not reloaded' else t.state end,
                  t.trouble, to_char(t.since, 'YYYY-MM-DD HH24:MI:SS')) as what,
           case when exists (select from baton.pipelines p where p.name = t.pipeline) then 'baton pipelines show ' || baton_internal.shell_word(t.pipeline)
                when exists (select from baton.consumer_groups g where g.group_name = t.group_name) then 'baton groups ' || baton_internal.shell_word(t.group_name)
                else 'baton pipelines list' end as fix,
           case t.state when 'not reloaded' then 'correct the configuration (baton pipelines lint FILE names the line); ' else 'mend the cause; ' end
             || 'relay ' || t.relay || ' goes on by itself' as note
      from baton.relay_troubles t order by 2)sql"};

const Check pipelines_without_relay{"pipelines without a relay", true, R"sql(
    select 'error' as severity, p.name as object, 'no relay runs this pipeline' as what, 'baton relay' as fix,
           'if it is not wanted: baton pipelines disable ' || baton_internal.shell_word(p.name) as note
      from baton.list_pipelines() p where p.enabled and p.outbox is not null and coalesce(p.owned_until, '-infinity') < clock_timestamp()
       and p.updated_at < clock_timestamp() - interval '1 minute')sql"};

const Check inboxes{"inboxes", true, R"sql(
    select case when s.health_status = 'degraded' then 'warning' else 'error' end as severity, s.inbox as object,
           case when s.table_name is null then 'its table was dropped without baton'
                when s.pending_count = 0 then s.health_status
                else format(case s.pending_count when 1 then '%s: %s message waits, for %s' else '%s: %s messages wait, the oldest for %s' end, s.health_status, s.pending_count, make_interval(secs => round(s.oldest_pending_age_sec))) end as what,
           case when s.table_name is null then format('select baton.drop_inbox(%L);', s.inbox)
                else format('baton inboxes %s --%s', baton_internal.shell_word(s.inbox), case when s.ordered then 'gaps' else 'messages' end) end as fix,
           case when s.table_name is null then null
                when s.ordered then format('start its workers; a message that will never come is passed by with baton skip %s AGGREGATE --to NUMBER', baton_internal.shell_word(s.inbox))
                else 'start its workers, or more of them' end as note
      from baton.inbox_status() s where s.health_status not in ('healthy', 'ok') and (s.dead_letter_count is not distinct from 0 or s.health_status <> 'degraded'))sql"};

const Check stream_tables{"stream tables", true, R"sql(
    select case when s.state = 'failing' then 'warning' else 'error' end as severity, s.stream_table as object, s.state || coalesce(': ' || s.last_error, '') as what,
           format(case s.state when 'broken' then 'select baton.drop_stream_table(%L, cascade => true);' when 'stopped' then 'select baton.repair_stream_table(%L);'
                               else 'select baton.refresh_stream_table(%L);' end, s.stream_table) as fix,
           case when s.state = 'broken' then 'what its query reads was dropped: make it anew from what is there' else 'mend the cause first' end as note
      from baton.stream_table_status() s where s.state in ('broken', 'stopped', 'failing'))sql"};

const Check jobs{"jobs", true, R"sql(
    select 'error' as severity, j.name as object, format('failed %s in a row: %s', case j.failed_in_a_row when 1 then 'once' else j.failed_in_a_row || ' times' end, j.last_error) as what,
           'baton jobs' as fix, 'mend the cause; the job goes on by itself at ' || to_char(j.next_due, 'HH24:MI:SS') as note
      from baton.jobs j where j.enabled and j.failed_in_a_row > 0
    union all
    select 'error', 'jobs', format('nobody runs them: %s is due since %s', j.name, to_char(j.next_due, 'YYYY-MM-DD HH24:MI:SS')),
           'call baton.run_due_jobs();', 'that runs them once; a preloaded extension or a relay does it always, or cron every minute'
      from (select j.* from baton.jobs j where j.enabled and isfinite(j.next_due) and j.next_due < clock_timestamp() - greatest(interval '5 minutes', 2 * j.every) and j.begun_at is null
               and (j.routine not like '%stream%' or exists (select from baton.stream_tables)) order by j.next_due limit 1) j)sql"};

const Check storage{"storage", true, R"sql(
    select 'warning' as severity, s.outbox as object, format('%s on disk, above outbox_storage_critical_mb', pg_size_pretty(s.total_bytes)) as what,
           format('baton outboxes %s --partitions', baton_internal.shell_word(s.outbox)) as fix,
           format('keep events for a shorter time: select baton.alter_outbox(%L, retention => ''1 day''); or allow more: baton set outbox_storage_critical_mb %s',
                  s.outbox, ceil(s.total_bytes / 524288.0)) as note
      from baton.outbox_status() s where s.storage_status <> 'ok')sql"};

const Check retention{"retention held back", true, R"sql(
    select 'warning' as severity, r.outbox as object,
           format('%s cannot go for %s: group %s has not settled it', pg_size_pretty(r.bytes), justify_interval(date_trunc('minute', r.blocked_for)), r.group_name) as what,
           'baton groups ' || baton_internal.shell_word(r.group_name) as fix,
           format('start what serves it; if nobody needs the group any more: select baton.drop_consumer_group(%L);', r.group_name) as note
      from baton.retention_blocked r where r.blocked_for > interval '1 hour')sql"};

const Check partitions{"partitions ahead", false, R"sql(
    select 'error' as severity, n.name as object, 'there is no partition ahead of the events' as what, format('call baton.run_maintenance(%L);', n.name) as fix,
           'when the next partition is missing, publishers fail' as note
      from baton.outboxes o join pg_class c on c.oid = o.relation cross join lateral format('%s.%I', c.relnamespace::regnamespace, c.relname) n (name)
     where o.created_at < clock_timestamp() - interval '5 minutes'
       and baton_internal.partitions_ahead(o.outbox_id) = 0)sql"};

const Check maintenance{"maintenance of outboxes", false, R"sql(
    select 'error' as severity, n.name as object, 'maintenance failed: ' || o.maintenance_error as what, format('call baton.run_maintenance(%L);', n.name) as fix,
           'mend the cause first; maintenance goes on by itself' as note
      from baton.outboxes o join pg_class c on c.oid = o.relation cross join lateral format('%s.%I', c.relnamespace::regnamespace, c.relname) n (name) where o.maintenance_error is not null
    union all
    select 'error', format('outbox %s', o.outbox_id), 'its table was dropped without baton', format('select baton_internal.remove_outbox(%L, cascade => true);', o.relation::oid::text),
           (select 'its groups go along: ' || string_agg(g.group_name, ', ' order by g.group_name) from baton.consumer_groups g where g.outbox_id = o.outbox_id)
      from baton.outboxes o where not exists (select from pg_class c where c.oid = o.relation)
    union all
    select 'error', a.outbox, a.problem,
           case when to_regclass(a.outbox) is null then format('select baton.unadopt_outbox(%L);', a.outbox) else format('grant select, update on %s to %I;', a.outbox, current_user) end,
           case when to_regclass(a.outbox) is null then null else 'as the table''s owner' end
      from baton.adopted_status() a where a.problem is not null)sql"};

}  // namespace

std::vector<Check> checks_of_events() {
    return {dead_letters,
            unserved_groups,
            hindered_pipelines,
            pipelines_without_relay,
            inboxes,
            stream_tables,
            jobs,
            storage,
            retention,
            partitions,
            maintenance};
}

}  // namespace baton::operations
