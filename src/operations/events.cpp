// Events: searching an outbox, following it, and one event's whole way.

#include "operations/catalog.hpp"

namespace baton::operations {

namespace {

using postgres::Connection;

const Parameter outbox{"outbox", Kind::text, "name of an outbox", true};
const Parameter event_type{"event_type", Kind::text, "only this type"};
const Parameter key{"key", Kind::text, "only this partition_key, or aggregate_id where there is none"};

const Shape event_shape{
    {"offset", Kind::integer, "place in the outbox"},
    {"event_id", Kind::text, "id"},
    {"event_type", Kind::text, "what happened"},
    {"aggregate_type", Kind::text, "kind of the thing that changed"},
    {"aggregate_id", Kind::text, "which one changed"},
    {"key", Kind::text, "what it is ordered by"},
    {"topic", Kind::text, "where it is to go"},
    {"tenant_id", Kind::text, "tenant"},
    {"trace_id", Kind::text, "trace"},
    {"occurred_at", Kind::time, "when"},
    {"payload", Kind::json, "what it says; bytes as base64"},
    {"headers", Kind::json, "headers"},
    {"cursor", Kind::text, "where to go on behind it"},
};

// An event of any outbox.
Shape found_shape() {
    Shape shape = event_shape;
    shape[0].about += "; an adopted one has none";
    shape.insert(shape.begin() + 1, {"row", Kind::text, "its row, in an adopted outbox"});
    shape.insert(shape.begin(),
                 {{"outbox", Kind::text, "where it is"}, {"kind", Kind::text, "managed or adopted"}});
    return shape;
}

bool is_offset(const std::string& text) {
    return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_uuid(const std::string& text) {
    return text.size() == 36 && text.find_first_not_of("0123456789abcdefABCDEF-") == std::string::npos;
}

// The inboxes of this database that have received the event, and what people did about it.
const std::string elsewhere_sql = R"sql(
           (select coalesce(json_agg(row_to_json(m)), '[]') from baton.event_receipts(e.event ->> 'event_id') m) as inboxes,
           (select coalesce(json_agg(row_to_json(a) order by a.at), '[]')
              from baton.event_actions(e.outbox, e.event ->> 'event_id', (e.event ->> 'offset')::bigint, e.row) a) as actions)sql";

// The event, when it was committed, and what every group did with it. When a group settled it is not kept.
const std::string way_sql = R"sql(
    select e.outbox, e.row, e.event, baton.event_committed_at(e.outbox::regclass, $2::bigint) as committed_at,
           (select coalesce(json_agg(row_to_json(d)), '[]')
              from (select g.*, null::timestamptz as settled_at from baton.event_deliveries($1::text::regclass, $2::bigint) g) d) as groups,)sql" +
                            elsewhere_sql + R"sql(
      from (select $1::text::regclass::text as outbox, null::text as row, row_to_json(s) as event
              from baton.search_events($1::text::regclass, before => $2::bigint + 1, most => 1) s where s.offset = $2::bigint) e)sql";

// In an adopted outbox there are no groups: the state of the row is what became of it.
const std::string adopted_way_sql = R"sql(
    select e.outbox, e.row, e.event, null::timestamptz as committed_at, json_build_array(e.delivery) as groups,)sql" +
                                    elsewhere_sql + R"sql(
      from (select f.outbox, f.row_id as row, f.event,
                   json_build_object('group_name', f.outbox, 'state', f.state, 'attempts', f.attempts, 'consumer', f.worker, 'leased_at', null, 'leased_until', null, 'parked_at', null, 'due_at', null, 'failures', null,
                                     'error', f.error, 'dead_letter', f.dead_letter, 'settled_at', f.settled_at) as delivery
              from baton.find_adopted_events($1, $2) f limit 1) e)sql";

// The outbox and the offset of an event; nothing when it is in none of baton's own outboxes.
std::pair<std::string, std::string> locate(Connection& db, const Arguments& given) {
    const std::string event = given.text("event");
    if (is_offset(event)) {
        if (!given.has("outbox"))
            throw UsageError("an offset needs its outbox", "name it, or give the event's id");
        const bool adopted =
            db.query(
                  "select from baton.adopted_outboxes a where baton_internal.known_table($1) = "
                  "baton_internal.known_table(format('%I.%I', a.schema_name, a.table_name))",
                  {given.param("outbox")})
                .rows() > 0;
        return adopted ? std::pair<std::string, std::string>{} : std::pair{given.text("outbox"), event};
    }
    if (!is_uuid(event)) return {};
    const auto found = db.query("select outbox, event_offset from baton.find_event($1::uuid, $2) limit 1",
                                {event, given.param("outbox")});
    if (found.empty()) return {};
    return {found.text(0, 0), found.text(0, 1)};
}

std::string show_event(Connection& db, const Arguments& given) {
    const auto [name, offset] = locate(db, given);
    std::string way = name.empty()
                          ? row_of(db, adopted_way_sql, {given.param("event"), given.param("outbox")})
                          : row_of(db, way_sql, {name, offset});
    if (way.empty())
        throw NotFound("there is no event " + given.text("event") +
                           (given.has("outbox") ? " in outbox " + given.text("outbox") : ""),
                       "retention may have dropped it, or this user may not read its outbox");
    return way;
}

}  // namespace

std::vector<Operation> event_operations() {
    return {
        {.name = "list_events",
         .method = "GET",
         .path = "/outboxes/{outbox}/events",
         .about = "events of an outbox, the latest first",
         .parameters = {outbox,
                        event_type,
                        key,
                        {"since", Kind::time, "not older than this; -2h is two hours ago"},
                        {"until", Kind::time, "not newer than this"}},
         .answer = Answer::page,
         .shape = event_shape,
         .sql = "select e.*, e.offset::text as cursor from baton.search_events($1::text::regclass, $2, $3, "
                "$4::timestamptz, $5::timestamptz, "
                "$6::bigint, $7::int) e"},
        {.name = "search_events",
         .method = "GET",
         .path = "/events",
         .about = "events of all outboxes, adopted ones too, the latest first",
         .parameters = {{"outbox", Kind::text, "only this one"},
                        event_type,
                        key,
                        {"since", Kind::time, "not older than this"},
                        {"until", Kind::time, "not newer than this"}},
         .answer = Answer::page,
         .shape = found_shape(),
         .sql = "select e.* from baton.search_all_events($1, $2, $3, $4::timestamptz, $5::timestamptz, $6, "
                "$7::int) e"},
        {.name = "tail_events",
         .method = "GET",
         .path = "/outboxes/{outbox}/tail",
         .about = "what was committed to an outbox since the last look",
         .parameters = {outbox,
                        event_type,
                        key,
                        {"after", Kind::text, "`next` of the answer before; without it: the last events"},
                        {"limit", Kind::integer, "events in one answer, at most 1000", false, 100}},
         .answer = Answer::page,
         .shape = without_cursor(event_shape),
         .work =
             [](Connection& db, const Arguments& given) {
                 return db.value("select baton.tail_events($1::text::regclass, $2, $3, $4, $5::int)",
                                 {given.param("outbox"), given.param("after"), given.param("event_type"),
                                  given.param("key"), given.param("limit")});
             }},
        {.name = "show_event",
         .method = "GET",
         .path = "/events/{event}",
         .about =
             "one event's whole way: published, read by its groups, received by inboxes of this database",
         .parameters = {{"event", Kind::text,
                         "id of the event; or its offset or the id of its row, with the outbox", true},
                        {"outbox", Kind::text, "where to look"}},
         .shape = {{"outbox", Kind::text, "where it is"},
                   {"row", Kind::text, "its row, in an adopted outbox"},
                   {"event", Kind::json, "the event"},
                   {"committed_at", Kind::time, "when; where the server keeps that (track_commit_timestamp)"},
                   {"groups", Kind::json,
                    "what every group did with it; of an adopted outbox, its row's state"},
                   {"inboxes", Kind::json, "inboxes of this database that have it"},
                   {"actions", Kind::json, "what people did about it"}},
         .work = show_event},
    };
}

}  // namespace baton::operations
