// Outboxes: what they hold, where it lies, and publishing into them.

#include "operations/catalog.hpp"

namespace baton::operations {

namespace {

const Parameter outbox{"outbox", Kind::text, "name of an outbox", true};

const Shape outbox_shape{
    {"outbox", Kind::text, "name"},
    {"kind", Kind::text, "managed, or adopted: a table that was there before"},
    {"payload_type", Kind::text, "type of the payloads"},
    {"events", Kind::integer, "rows, as the server estimates"},
    {"last_offset", Kind::integer, "the last offset given to an event"},
    {"bytes", Kind::integer, "size on disk with indexes"},
    {"partitions", Kind::integer, "partitions there are"},
    {"retention_seconds", Kind::number, "how long settled events are kept"},
    {"oldest", Kind::time, "when the oldest event occurred"},
    {"newest", Kind::time, "when the newest event occurred"},
    {"published", Kind::integer, "events published since the statistics were reset"},
    {"groups", Kind::integer, "groups that read it"},
    {"dead_letters", Kind::integer, "events that its groups gave up"},
    {"claim_checks", Kind::integer, "large deltas whose rows are not read by all groups"},
    {"storage", Kind::text, "ok, or what is wrong with its storage"},
    {"problem", Kind::text, "what maintenance failed with, if it did"},
};

// The outboxes of a name; of all names when `name` is null.
std::string rows(const std::string& name) {
    return R"sql(
    select s.outbox, 'managed' as kind, s.payload_type, s.row_estimate as events, s.last_id as last_offset,
           s.total_bytes as bytes, s.partitions, extract(epoch from s.retention)::float8 as retention_seconds,
           s.oldest, s.newest, t.events_published::bigint as published, s.groups, s.dead_letters,
           s.claim_check_pending_count as claim_checks, s.storage_status as storage, o.maintenance_error as problem
      from baton.outbox_status()sql" +
           (name == "null::text" ? name
                                 : "(select o.relation::text from baton.outboxes o where o.relation = "
                                   "baton_internal.known_table(" +
                                       name + "))") +
           R"sql() s
      left join baton.outboxes o on o.relation = to_regclass(s.outbox)
      left join baton.throughput t on to_regclass(t.outbox) = o.relation
     where )sql" +
           name + R"sql( is null or o.relation = baton_internal.known_table()sql" + name + R"sql()
    union all
    select a.outbox, 'adopted: ' || a.preset, 'jsonb', coalesce(a.pending, 0) + coalesce(a.claimed, 0), null, null, null, null, null, null,
           a.processed, null, a.dlq_depth, null, null, a.problem
      from baton.adopted_status() a where )sql" +
           name + R"sql( is null or baton_internal.known_table()sql" + name +
           R"sql() = to_regclass(a.outbox))sql";
}

// An operator's event stands in the audit trail. Whoever may only publish does so without it.
std::string publish(postgres::Connection& db, const Arguments& given) {
    postgres::Params params;
    for (const char* name : {"outbox", "event_type", "payload", "aggregate_type", "aggregate_id", "topic",
                             "partition_key", "headers", "tenant_id", "trace_id", "idempotency_key"})
        params.push_back(given.param(name));
    const std::string offset = db.value(
        "select baton.publish($1, $2, $3::jsonb, $4, $5::text, $6, $7, $8::jsonb, $9, $10, null, null, $11)",
        params);
    if (offset.empty()) return R"({"offset": null})";
    const char* const may =
        "select coalesce(has_function_privilege(to_regprocedure("
        "'baton_internal.record_publish(text,bigint,text)'), 'execute'), false)";
    if (db.value(may) == "t")
        db.query("select baton_internal.record_publish($1, $2::bigint, $3)",
                 {given.param("outbox"), offset, given.param("event_type")});
    return "{\"offset\": " + offset + "}";
}

}  // namespace

std::vector<Operation> outbox_operations() {
    return {
        by_name({.name = "list_outboxes",
                 .method = "GET",
                 .path = "/outboxes",
                 .about = "outboxes and adopted tables, with what they hold",
                 .shape = outbox_shape,
                 .sql = rows("null::text")},
                "outbox"),
        {.name = "show_outbox",
         .method = "GET",
         .path = "/outboxes/{outbox}",
         .about = "one outbox",
         .parameters = {outbox},
         .shape = outbox_shape,
         .sql = rows("$1::text")},
        {.name = "list_partitions",
         .method = "GET",
         .path = "/outboxes/{outbox}/partitions",
         .about = "an outbox's partitions, and who keeps the old ones from going",
         .parameters = {outbox},
         .answer = Answer::page,
         .shape = {{"partition", Kind::text, "name of the table"},
                   {"state", Kind::text, "ahead, open, left or detached"},
                   {"first_offset", Kind::integer, "first offset that it may hold"},
                   {"end_offset", Kind::integer, "first offset behind it"},
                   {"since", Kind::time, "since when it is in this state"},
                   {"bytes", Kind::integer, "size on disk"},
                   {"waits_for", Kind::texts, "groups that have not settled all of it"}},
         .sql = R"sql(
             select p.relation::text as partition, p.state, p.first_id as first_offset, p.end_id as end_offset, p.since,
                    pg_total_relation_size(c.oid) as bytes, p.waits_for
               from baton_internal.outbox_partitions p
               join baton.outboxes o using (outbox_id)
               left join pg_class c on c.oid = p.relation
              where o.relation = $1::regclass and ($2::bigint is null or p.first_id > $2::bigint) order by p.first_id limit $3::int)sql",
         .cursor = "first_offset",
         .page = 1000},
        {.name = "publish",
         .method = "POST",
         .path = "/outboxes/{outbox}/events",
         .right = Right::operate,
         .about = "publish an event",
         .parameters = {outbox,
                        {"event_type", Kind::text, "what happened, like order.created", true},
                        {"payload", Kind::json, "what it is about", true},
                        {"aggregate_type", Kind::text, "kind of the thing that changed"},
                        {"aggregate_id", Kind::text, "which one changed; events of one keep their order"},
                        {"topic", Kind::text, "where the event is to go"},
                        {"partition_key", Kind::text, "what to order by, if not by aggregate_id"},
                        {"headers", Kind::json, "headers, an object"},
                        {"tenant_id", Kind::text, "tenant"},
                        {"trace_id", Kind::text, "trace"},
                        {"idempotency_key", Kind::text, "the same key publishes once within the window"}},
         .shape = {{"offset", Kind::integer, "the event's offset"}},
         .work = publish},
    };
}

}  // namespace baton::operations
