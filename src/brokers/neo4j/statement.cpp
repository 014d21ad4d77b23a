#include "brokers/neo4j/statement.hpp"

#include "brokers/neo4j/access.hpp"
#include "event/headers.hpp"
#include "event/json.hpp"
#include "event/time_text.hpp"

namespace baton::brokers {

namespace {

void append_member(std::string& out, std::string_view name, std::string_view value) {
    out.append(",\"").append(name).append("\":");
    append_json_string(out, value);
}

void append_field(std::string& out, std::string_view name, const Field& value) {
    if (value) append_member(out, name, *value);
}

}  // namespace

// A mark is fresh within the transaction that makes it, and never after: a request that comes to the server
// twice, because a library or a proxy sent it again, applies its events once. MERGE waits for another
// transaction that makes the same mark, and finds it then: so do two relays, one of which has lost its lease.
// The line break lets a comment at the end of the statement end.
std::string neo4j_batch_statement(const std::string& statement, const std::string& marks) {
    std::string text = "UNWIND $events AS event\n";
    if (!marks.empty())
        text += "MERGE (mark:" + neo4j_name(marks) +
                " {id: event.id}) ON CREATE SET mark.fresh = true\n"
                "WITH event, mark WHERE mark.fresh REMOVE mark.fresh\n"
                "WITH event\n";
    return text + "CALL (event) {\n" + statement + "\n}\nRETURN count(*) AS events";
}

std::string neo4j_mark_constraint(const std::string& marks) {
    return "CREATE CONSTRAINT " + neo4j_name(marks + "_id") +
           " IF NOT EXISTS FOR (mark:" + neo4j_name(marks) + ") REQUIRE mark.id IS UNIQUE";
}

std::string neo4j_drop_index_of_marks(const std::string& marks) {
    return "DROP INDEX " + neo4j_name(marks + "_id") + " IF EXISTS";
}

std::string neo4j_event(const Message& message, bool as_text) {
    std::string out = R"({"id":)";
    append_json_string(out, message.message_id);
    if (!message.key.empty()) append_member(out, "key", message.key);
    if (const Event* event = message.event) {
        append_field(out, "type", event->event_type);
        append_field(out, "aggregate_type", event->aggregate_type);
        append_field(out, "aggregate_id", event->aggregate_id);
        append_field(out, "tenant_id", event->tenant_id);
        if (event->occurred_at != Timestamp{})
            append_member(out, "occurred_at", TimeText(event->occurred_at));
    }
    out += R"(,"headers":{)";
    bool first = true;
    for (std::size_t i = 0; i < message.headers.size(); ++i) {
        if (comes_again(message.headers, i)) continue;
        if (!first) out += ',';
        first = false;
        append_json_string(out, message.headers[i].name);
        out += ':';
        append_json_string(out, message.headers[i].value);
    }
    out += "}";
    if (!as_text && is_json_type(message.content_type) && is_json(message.body)) {
        out.append(R"(,"payload":)").append(message.body);
    } else if (is_utf8(message.body)) {
        append_member(out, "payload", message.body);
    } else {
        out += R"(,"encoding":"base64","payload":")";
        append_base64(out, message.body);
        out += '"';
    }
    return out + "}";
}

}  // namespace baton::brokers
