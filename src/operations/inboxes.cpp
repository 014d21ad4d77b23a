// Inboxes: what waits in them, and what holds it up.

#include "operations/catalog.hpp"

namespace baton::operations {

namespace {

const Parameter inbox{"inbox", Kind::text, "name of an inbox", true};

const Shape inbox_shape{
    {"inbox", Kind::text, "name"},
    {"table", Kind::text, "its table"},
    {"layout", Kind::text, "managed, or which kind of adopted table"},
    {"pending", Kind::integer, "messages that wait"},
    {"oldest_seconds", Kind::number, "how long the oldest has waited"},
    {"dead_letters", Kind::integer, "messages that were given up"},
    {"ordered", Kind::boolean, "messages of an aggregate in their order"},
    {"prioritised", Kind::boolean, "urgent messages first"},
    {"max_retries", Kind::integer, "attempts that a message has"},
    {"retention_hours", Kind::integer, "how long processed messages are kept"},
    {"health", Kind::text, "healthy, or what is wrong"},
};

const std::string inbox_rows = R"sql(
    select s.inbox, s.table_name as "table", s.layout, s.pending_count as pending, s.oldest_pending_age_sec as oldest_seconds,
           s.dead_letter_count as dead_letters, s.ordered, s.prioritised, s.max_retries, s.retention_hours, s.health_status as health
      from baton.inbox_status()sql";

const Shape message_shape{
    {"event_id", Kind::text, "id of the message"},
    {"event_type", Kind::text, "what happened"},
    {"source", Kind::text, "where it came from"},
    {"aggregate_id", Kind::text, "what it is about"},
    {"sequence_num", Kind::integer, "its place among those of its aggregate"},
    {"state", Kind::text, "pending, dead or processed"},
    {"attempts", Kind::integer, "attempts that failed"},
    {"error", Kind::text, "why the last one failed"},
    {"received_at", Kind::time, "when it came"},
    {"processed_at", Kind::time, "when it was handled"},
    {"leased_by", Kind::text, "who works on it"},
    {"leased_until", Kind::time, "until when"},
    {"trace_id", Kind::text, "trace"},
    {"payload", Kind::json, "what it says"},
    {"headers", Kind::json, "headers"},
    {"cursor", Kind::text, "where to go on behind it"},
};

// What a message in a list says beyond that.
Shape listed_message_shape() {
    Shape shape = message_shape;
    shape.insert(
        shape.end() - 1,
        {{"tenant_id", Kind::text, "tenant"},
         {"failures", Kind::json, "the latest failed attempts: at, attempt, error; not of adopted tables"}});
    return shape;
}

}  // namespace

std::vector<Operation> inbox_operations() {
    return {
        by_name({.name = "list_inboxes",
                 .method = "GET",
                 .path = "/inboxes",
                 .about = "inboxes, with what waits in them",
                 .shape = inbox_shape,
                 .sql = inbox_rows + ") s"},
                "inbox"),
        {.name = "show_inbox",
         .method = "GET",
         .path = "/inboxes/{inbox}",
         .about = "one inbox",
         .parameters = {inbox},
         .shape = inbox_shape,
         .sql = inbox_rows + "$1) s"},
        {.name = "list_messages",
         .method = "GET",
         .path = "/inboxes/{inbox}/messages",
         .about = "messages of an inbox, the latest first",
         .parameters = {inbox,
                        {"state",
                         Kind::text,
                         "pending, dead or processed",
                         false,
                         "pending",
                         {"pending", "dead", "processed"}},
                        {"event_id", Kind::text, "one message, whatever its state"},
                        {"event_type", Kind::text, "only this type"},
                        {"aggregate", Kind::text, "only this aggregate"}},
         .answer = Answer::page,
         .shape = listed_message_shape(),
         .sql = "select m.* from baton.inbox_messages($1, $2, $3, $4, $5, $6, $7::int) m"},
        {.name = "tail_messages",
         .method = "GET",
         .path = "/inboxes/{inbox}/tail",
         .about =
             "what came into an inbox or changed there since the last look; some may come again as they are",
         .parameters = {inbox,
                        {"event_type", Kind::text, "only this type"},
                        {"aggregate", Kind::text, "only this aggregate"},
                        {"after", Kind::text, "`next` of the answer before; without it: the last messages"},
                        {"limit", Kind::integer, "messages in one answer, at most 1000", false, 100}},
         .answer = Answer::page,
         .shape = without_cursor(message_shape),
         .work =
             [](postgres::Connection& db, const Arguments& given) {
                 return db.value("select baton.tail_messages($1, $2, $3, $4, $5::int)",
                                 {given.param("inbox"), given.param("after"), given.param("event_type"),
                                  given.param("aggregate"), given.param("limit")});
             }},
        {.name = "list_gaps",
         .method = "GET",
         .path = "/inboxes/{inbox}/gaps",
         .about = "aggregates of an ordered inbox that wait for a message",
         .parameters = {inbox},
         .answer = Answer::list,
         .shape = {{"aggregate", Kind::text, "aggregate"},
                   {"expected", Kind::integer, "the sequence that is missing"},
                   {"found", Kind::integer, "the first that waits behind it"},
                   {"seconds", Kind::number, "how long"}},
         .sql = "select aggregate, expected, found, gap_age_sec as seconds from "
                "baton.inbox_ordering_gaps($1) order by 4 desc limit 1000"},
        {.name = "list_blocked_aggregates",
         .method = "GET",
         .path = "/inboxes/{inbox}/blocked",
         .about = "aggregates of an ordered inbox in which messages wait, and for what",
         .parameters = {inbox,
                        {"reason",
                         Kind::text,
                         "only those that wait for this; message: for any but one that has not come",
                         false,
                         nullptr,
                         {"gap", "dead", "retry", "scheduled", "message"}}},
         .answer = Answer::page,
         .shape = {{"aggregate", Kind::text, "aggregate"},
                   {"reason", Kind::text,
                    "gap: a message has not come; dead, retry, scheduled: the state of the one in front"},
                   {"event_id", Kind::text, "the message in front; none at a gap"},
                   {"attempts", Kind::integer, "its attempts that failed"},
                   {"error", Kind::text, "why the last one failed"},
                   {"waiting_since", Kind::time, "since when"},
                   {"letter", Kind::text, "its name as a dead letter, to replay or discard it"},
                   {"cursor", Kind::text, "where to go on behind it"}},
         .sql =
             "select b.aggregate, b.blocked_by as reason, b.event_id, b.attempts, b.error, b.waiting_since, "
             "b.letter, b.cursor from baton.blocked_aggregates($1, $2, $3, $4::int) b"},
        {.name = "skip",
         .method = "POST",
         .path = "/inboxes/{inbox}/skip",
         .right = Right::operate,
         .about = "let an aggregate go on without the message that it waits for",
         .parameters = {inbox,
                        {"aggregate", Kind::text, "aggregate", true},
                        {"to_sequence", Kind::integer,
                         "the last sequence to do without; left out: the next one"}},
         .shape = {{"aggregate", Kind::text, "aggregate"},
                   {"sequence", Kind::integer, "sequence that it has reached"}},
         .sql = "select $2::text as aggregate, baton.advance_inbox_sequence($1::text, $2::text, $3::bigint) "
                "as sequence"},
    };
}

}  // namespace baton::operations
