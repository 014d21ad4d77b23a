// Consumer groups: how far behind, who works for them, moving them.

#include "operations/catalog.hpp"

namespace baton::operations {

namespace {

const Parameter group{"group", Kind::text, "name of a consumer group", true};

const Shape group_shape{
    {"group", Kind::text, "name"},
    {"outbox", Kind::text, "what it reads"},
    {"tenant_id", Kind::text, "the tenant it is for, if it is for one"},
    {"ordered", Kind::boolean, "events of one key in their order"},
    {"lag_events", Kind::integer, "events that it has not settled"},
    {"lag_seconds", Kind::number, "age of the oldest of them"},
    {"consumers", Kind::integer, "consumers that are known"},
    {"healthy_consumers", Kind::integer, "those that gave a sign of life within a minute"},
    {"owner", Kind::text, "the relay that has it"},
    {"owned_until", Kind::time, "how long the relay has it, unless it renews"},
    {"trouble", Kind::text, "what hinders that relay, in its words"},
    {"retrying", Kind::integer, "events that wait for another attempt"},
    {"blocked", Kind::integer, "events that wait behind such an event"},
    {"dead_letters", Kind::integer, "events that were given up"},
    {"max_attempts", Kind::integer, "attempts that an event has"},
    {"on_poison", Kind::text, "what happens behind an event that was given up"},
};

const std::string group_rows = R"sql(
    select g.group_name as "group", o.relation::text as outbox, g.tenant_id, g.ordered, l.lag_rows as lag_events,
           l.lag_seconds::float8 as lag_seconds, l.consumers, l.healthy_consumers,
           case when p.owned_until > clock_timestamp() then p.owner end as owner,
           case when p.owned_until > clock_timestamp() then p.owned_until end as owned_until,
           (select string_agg(t.trouble, '; ' order by t.pipeline) from baton.relay_troubles t where t.group_name = g.group_name) as trouble,
           k.retrying, k.blocked, k.dead as dead_letters, g.max_attempts, g.on_poison
      from baton.consumer_groups g
      join baton.outboxes o using (outbox_id)
      left join baton.group_lag l using (group_name)
      left join baton_internal.group_positions p using (group_id)
     cross join lateral (select count(*) filter (where q.state = 'retry') as retrying, count(*) filter (where q.state = 'blocked') as blocked,
                                count(*) filter (where q.state = 'dead') as dead
                           from baton_internal.parked q where q.group_id = g.group_id) k)sql";

}  // namespace

std::vector<Operation> group_operations() {
    return {
        by_name({.name = "list_groups",
                 .method = "GET",
                 .path = "/groups",
                 .about = "consumer groups, with their lag",
                 .shape = group_shape,
                 .sql = group_rows},
                "group"),
        {.name = "show_group",
         .method = "GET",
         .path = "/groups/{group}",
         .about = "one group",
         .parameters = {group},
         .shape = group_shape,
         .sql = group_rows + " where g.group_name = $1"},
        by_name({.name = "list_consumers",
                 .method = "GET",
                 .path = "/groups/{group}/consumers",
                 .about = "who works for a group",
                 .parameters = {group},
                 .shape = {{"consumer", Kind::text, "name"},
                           {"last_offset", Kind::integer, "the last offset that it settled"},
                           {"last_heartbeat", Kind::time, "its last sign of life"},
                           {"heartbeat_age_seconds", Kind::number, "how long ago that is"},
                           {"healthy", Kind::boolean, "gave a sign of life within a minute"},
                           {"leases", Kind::integer, "leases that it holds"}},
                 .sql = R"sql(
             select l.consumer, l.last_offset, l.last_heartbeat, l.heartbeat_age_seconds::float8 as heartbeat_age_seconds, l.healthy,
                    (select count(*) from baton.active_leases a where a.group_name = l.group_name and a.consumer_id = l.consumer) as leases
               from baton.consumer_lag($1) l where l.consumer is not null)sql"},
                "consumer"),
        {.name = "list_leases",
         .method = "GET",
         .path = "/leases",
         .about = "leases that run now: who holds which events until when",
         .parameters = {{"group", Kind::text, "only those of a group"}},
         .answer = Answer::list,
         .shape = {{"group", Kind::text, "group"},
                   {"consumer", Kind::text, "who holds it"},
                   {"kind", Kind::text, "piece, a stretch of events; or parked, one event again"},
                   {"first_offset", Kind::integer, "first event"},
                   {"last_offset", Kind::integer, "last event"},
                   {"leased_until", Kind::time, "end of the lease"}},
         .sql = R"sql(
             select a.group_name as "group", a.consumer_id as consumer, a.kind, a.first_id as first_offset, a.last_id as last_offset,
                    nullif(a.leased_until, 'infinity') as leased_until
               from baton.active_leases a where $1::text is null or a.group_name = $1::text order by 1, 4 limit 1000)sql"},
        {.name = "list_blocked_keys",
         .method = "GET",
         .path = "/groups/{group}/blocked",
         .about = "keys that wait behind an event that failed",
         .parameters = {group},
         .answer = Answer::list,
         .shape = {{"key", Kind::text, "key"},
                   {"offset", Kind::integer, "the event in front"},
                   {"state", Kind::text, "retry or dead"},
                   {"attempts", Kind::integer, "attempts so far"},
                   {"due_at", Kind::time, "when it is tried again"},
                   {"error", Kind::text, "why it failed"},
                   {"waiting", Kind::integer, "events parked behind it"}},
         .sql = R"sql(
             select p.key, p.id as offset, p.state, p.attempt as attempts, case when p.state = 'retry' then nullif(p.due_at, 'infinity') end as due_at, p.error,
                    (select count(*) from baton_internal.parked q where q.group_id = p.group_id and q.key = p.key and q.state = 'blocked') as waiting
               from baton_internal.parked p join baton.consumer_groups g using (group_id)
              where g.group_name = $1 and p.key is not null
                and (p.state = 'retry' or p.state = 'dead' and g.on_poison <> 'park')
                and not exists (select from baton_internal.parked f where f.group_id = p.group_id and f.key = p.key and f.id < p.id and f.state <> 'dead')
              order by waiting desc, p.id limit 1000)sql"},
        {.name = "seek",
         .method = "POST",
         .path = "/groups/{group}/seek",
         .right = Right::operate,
         .about = "move a group to another place of its log",
         .parameters = {group,
                        {"offset", Kind::integer, "read on behind this offset"},
                        {"time", Kind::time,
                         "read on from the first event that occurred then; -2h is two hours ago"},
                        {"place", Kind::text, "beginning or end", false, nullptr, {"beginning", "end"}}},
         .shape = {{"group", Kind::text, "group"},
                   {"lag_events", Kind::integer, "events that it has to read now"}},
         .work =
             [](postgres::Connection& db, const Arguments& given) {
                 if (given.has("offset") + given.has("time") + given.has("place") != 1)
                     throw UsageError("seek to one place",
                                      "give an offset, a time, or the place beginning or end");
                 db.query("select baton.seek_offset($1, 'operator', $2::bigint, $3::timestamptz, $4)",
                          {given.param("group"), given.param("offset"), given.param("time"),
                           given.param("place")});
                 return row_of(db,
                               "select group_name as \"group\", lag_rows as lag_events from baton.group_lag "
                               "where group_name = $1",
                               {given.param("group")});
             }},
    };
}

}  // namespace baton::operations
