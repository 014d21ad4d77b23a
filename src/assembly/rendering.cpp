#include "assembly/rendering.hpp"

#include <charconv>

#include "baton/error.hpp"
#include "brokers/registry.hpp"
#include "relay/transform.hpp"

namespace baton::assembly {

using Json = nlohmann::ordered_json;

namespace {

// The next events of a group; the last of the outbox when the group waits for none, or is not there yet.
postgres::Result read_events(postgres::Connection& db, const std::string& outbox, const std::string& group,
                             int most, bool& waiting) {
    const auto table = db.query(
        "select o.relation::text, o.payload_type from baton.outboxes o where o.relation = "
        "baton_internal.known_table($1)",
        {outbox});
    if (table.empty())
        throw UsageError("\"" + outbox + "\" is no outbox of this database",
                         "only pipelines whose source is an outbox of baton's own are rendered");
    const std::string columns =
        "select e.id, e.event_id, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type, "
        "e.schema_version, e.topic, e.partition_key, " +
        std::string(table.text(0, 1) == "bytea" ? "encode(e.payload, 'hex')" : "e.payload") +
        "::text, e.headers, e.trace_id, e.correlation_id, e.causation_id, e.idempotency_key, "
        "(extract(epoch from e.occurred_at) * 1000000)::bigint from " +
        table.text(0, 0) + " e ";
    auto next = db.query(columns +
                             "join baton.consumer_groups g on g.group_name = $1 join "
                             "baton_internal.group_positions p using (group_id) "
                             "cross join lateral baton.event_deliveries($2::regclass, e.id) d where "
                             "d.group_name = $1 and d.state = 'waiting' and "
                             "e.xid >= pg_snapshot_xmin(p.seen) order by e.xid, e.id limit $3::int",
                         {group, table.text(0, 0), most});
    waiting = !next.empty();
    if (waiting) return next;
    return db.query(columns + "order by e.id desc limit $1::int", {most});
}

Event event_of(const postgres::Result& rows, int row, PayloadKind kind) {
    const auto field = [&](int column) -> Field {
        if (rows.is_null(row, column)) return std::nullopt;
        return rows.view(row, column);
    };
    Event event;
    event.id = rows.number(row, 0);
    event.source_id = rows.view(row, 0);
    event.event_id = rows.view(row, 1);
    event.tenant_id = field(2);
    event.aggregate_type = field(3);
    event.aggregate_id = field(4);
    event.event_type = field(5);
    event.schema_version = field(6);
    event.topic = field(7);
    event.partition_key = field(8);
    event.payload_kind = kind;
    event.payload = field(9);
    event.headers = field(10);
    event.trace_id = field(11);
    event.correlation_id = field(12);
    event.causation_id = field(13);
    event.idempotency_key = field(14);
    event.occurred_at = Timestamp(std::chrono::microseconds(rows.number(row, 15)));
    return event;
}

std::string from_hex(std::string_view digits) {
    std::string bytes;
    for (std::size_t at = 0; at + 1 < digits.size(); at += 2) {
        unsigned char byte = 0;
        std::from_chars(digits.data() + at, digits.data() + at + 2, byte, 16);
        bytes += static_cast<char>(byte);
    }
    return bytes;
}

PayloadKind kind_of(postgres::Connection& db, const std::string& outbox) {
    const std::string kind = db.value(
        "select payload_type from baton.outboxes where relation = baton_internal.known_table($1)", {outbox});
    return kind == "bytea" ? PayloadKind::bytes : kind == "text" ? PayloadKind::text : PayloadKind::json;
}

Json as_json(const Message& message) {
    Json headers = Json::object();
    for (const auto& header : message.headers) headers[header.name] = header.value;
    return {{"offset", message.event->id},        {"event_id", std::string(message.event->event_id)},
            {"destination", message.destination}, {"message_id", message.message_id},
            {"key", std::string(message.key)},    {"content_type", std::string(message.content_type)},
            {"headers", std::move(headers)},      {"body", std::string(message.body)}};
}

}  // namespace

Rendered render(postgres::Connection& db, const relay::Settings& pipeline, int events) {
    const auto source = pipeline.below("source");
    const auto sink = pipeline.below("sink");
    const std::string name = pipeline.text("name");
    const std::string outbox = source.text("outbox", "");
    if (outbox.empty())
        throw UsageError("pipeline \"" + name + "\" reads no outbox",
                         "only pipelines whose source is an outbox are rendered");
    relay::Transform transform(sink, pipeline.below("filter"), brokers::form_of(sink));
    Rendered rendered{false, Json::array(), {}};
    const auto rows = read_events(db, outbox, source.text("group", name), events, rendered.waiting);
    const auto kind = kind_of(db, outbox);
    for (int row = 0; row < rows.rows(); ++row) {
        Event event = event_of(rows, row, kind);
        std::string bytes;
        if (kind == PayloadKind::bytes && event.payload) event.payload = bytes = from_hex(*event.payload);
        if (!transform.wants(event)) {
            rendered.left_out.push_back({event.id, "is filtered out", true});
            continue;
        }
        Messages messages;
        std::string storage;
        try {
            transform.render(event, messages, storage);
        } catch (const Error& error) {
            rendered.left_out.push_back({event.id, std::string("can never be sent: ") + error.what(), false});
            continue;
        }
        for (const auto& message : messages) rendered.items.push_back(as_json(message));
    }
    return rendered;
}

Json as_json(Rendered rendered) {
    Json left_out = Json::array();
    for (const auto& one : rendered.left_out) left_out.push_back({{"offset", one.offset}, {"why", one.why}});
    return {{"waiting", rendered.waiting},
            {"items", std::move(rendered.items)},
            {"left_out", std::move(left_out)}};
}

}  // namespace baton::assembly
