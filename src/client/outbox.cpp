#include "baton/outbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "client/borrowed.hpp"
#include "client/spans.hpp"
#include "client/table_name.hpp"
#include "event/json.hpp"

namespace baton {

namespace {

constexpr std::size_t most_parameters = 65535;  // the protocol counts them in two bytes

using Value = std::optional<std::string>;

Value timestamp_text(const std::optional<Timestamp>& time) {
    if (!time) return std::nullopt;
    const auto day = std::chrono::floor<std::chrono::days>(*time);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(*time - day);
    return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}+00", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                       clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                       clock.subseconds().count());
}

Value headers_text(const NewEvent& event) {
    if (event.headers.empty()) return std::nullopt;
    std::string json;
    for (const auto& [name, value] : event.headers) {
        json += json.empty() ? '{' : ',';
        append_json_string(json, name);
        json += ':';
        append_json_string(json, value);
    }
    return json + '}';
}

Value payload_text(const NewEvent& event) {
    if (!event.payload || !event.binary) return event.payload;
    std::string hex = "\\x";
    hex.reserve(2 + event.payload->size() * 2);
    append_hex(hex, *event.payload);
    return hex;
}

struct Column {
    const char* name;
    Value (*value)(const NewEvent&);
};

// Left out where no event has a value, so that the outbox's defaults hold.
constexpr std::array columns{
    Column{"event_type", [](const NewEvent& e) -> Value { return e.type; }},
    Column{"schema_version",
           [](const NewEvent& e) {
               return e.schema_version == 1 ? Value{} : Value(std::to_string(e.schema_version));
           }},
    Column{"payload", payload_text},
    Column{"aggregate_type", [](const NewEvent& e) { return e.aggregate_type; }},
    Column{"aggregate_id", [](const NewEvent& e) { return e.aggregate_id; }},
    Column{"partition_key", [](const NewEvent& e) { return e.partition_key; }},
    Column{"topic", [](const NewEvent& e) { return e.topic; }},
    Column{"headers", headers_text},
    Column{"tenant_id", [](const NewEvent& e) { return e.tenant_id; }},
    Column{"trace_id", [](const NewEvent& e) { return e.trace_id; }},
    Column{"correlation_id", [](const NewEvent& e) { return e.correlation_id; }},
    Column{"causation_id", [](const NewEvent& e) { return e.causation_id; }},
    Column{"idempotency_key", [](const NewEvent& e) { return e.idempotency_key; }},
    Column{"occurred_at", [](const NewEvent& e) { return timestamp_text(e.occurred_at); }},
    Column{"available_at", [](const NewEvent& e) { return timestamp_text(e.available_at); }},
};

// libpq would cut a text at a zero byte, and no column could hold it.
void check_text(const Value& value, const char* column) {
    if (value && value->find('\0') != std::string::npos)
        throw UsageError(fmt::format("the {} of an event holds a zero byte", column),
                         "bytes go into an outbox of payload_type bytea, as an event with binary = true");
}

void check_event(const NewEvent& event) {
    if (event.type.empty()) throw UsageError("an event needs a type", "such as order.placed");
}

// The number of events from the front that fit into one statement: an idempotency key wants one for itself,
// because its event may give no row.
std::size_t fitting(std::span<const NewEvent> events) {
    constexpr std::size_t most = most_parameters / (columns.size() + 1);
    std::size_t count = 0;
    while (count < events.size() && count < most && !events[count].idempotency_key) ++count;
    return std::max<std::size_t>(count, 1);
}

// Find the id of the event that used the key first. Where tenants are not kept apart an event without a
// tenant has none, whatever the session's is.
std::int64_t first_of_key(client::Borrowed& db, const std::string& table, const NewEvent& event) {
    const auto found = db.query(
        "select coalesce(baton_internal.find_idempotent($1::regclass, $2, $3), "
        "baton_internal.find_idempotent($1::regclass, coalesce($2, current_setting('baton.tenant_id', "
        "true)), "
        "$3))",
        {table, event.tenant_id, event.idempotency_key});
    return found.is_null(0, 0) ? 0 : found.number(0, 0);
}

Statement write_statement(const std::string& table, std::span<const NewEvent> events, int first_parameter) {
    if (events.empty()) throw UsageError("a statement needs an event to publish");
    Statement made;
    std::vector<const Column*> used;
    for (const auto& column : columns)
        if (std::any_of(events.begin(), events.end(),
                        [&](const auto& e) { return column.value(e).has_value(); }))
            used.push_back(&column);
    made.sql = "insert into " + table + " (event_id";
    for (const auto* column : used) made.sql.append(", ").append(column->name);
    made.sql += ") values ";
    const auto add_parameter = [&](Value value) {
        made.parameters.push_back(std::move(value));
        made.sql +=
            '$' + std::to_string(made.parameters.size() - 1 + static_cast<std::size_t>(first_parameter));
    };
    for (const auto& event : events) {
        check_event(event);
        made.event_ids.push_back(event.id ? *event.id : EventId::make());
        made.sql += made.event_ids.size() == 1 ? "(" : ", (";
        add_parameter(made.event_ids.back().str());
        for (const auto* column : used) {
            made.sql += ", ";
            auto value = column->value(event);
            check_text(value, column->name);
            if (value)
                add_parameter(std::move(value));
            else
                made.sql += "default";
        }
        made.sql += ')';
    }
    made.sql += " returning id";
    if (made.parameters.size() + static_cast<std::size_t>(first_parameter) - 1 > most_parameters)
        throw UsageError("too many events for one statement", "publish them in groups of up to 4000");
    return made;
}

// Publish events that fit into one statement.
std::vector<Published> publish_some(client::Borrowed& db, const std::string& table,
                                    std::span<const NewEvent> events) {
    const auto statement = write_statement(table, events, 1);
    const auto ids = db.query(statement.sql, statement.parameters);
    std::vector<Published> published;
    if (ids.rows() != static_cast<int>(events.size()))  // it stands alone
        return {{first_of_key(db, table, events.front()), statement.event_ids.front(), true}};
    for (int row = 0; row < ids.rows(); ++row)
        published.push_back({ids.number(row, 0), statement.event_ids[static_cast<std::size_t>(row)], false});
    return published;
}

// The same, and tell of it where somebody listens.
std::vector<Published> publish_traced(client::Borrowed& db, const std::string& table,
                                      std::span<const NewEvent> events) {
    const auto spans = client::PublishSpans::begin(table, events);
    if (!spans) return publish_some(db, table, events);
    try {
        auto published = publish_some(db, table, spans->events());
        spans->end({}, published.front().duplicate);
        return published;
    } catch (const Error& error) {
        spans->end(error.what());
        throw;
    }
}

}  // namespace

Outbox::Outbox(std::string_view name) : table_(client::quote_table_name(name)) {}

Statement Outbox::statement(std::span<const NewEvent> events, int first_parameter) const {
    const auto spans = client::PublishSpans::begin(table_, events);
    if (!spans) return write_statement(table_, events, first_parameter);
    Statement made = write_statement(table_, spans->events(), first_parameter);
    spans->end();
    return made;
}

Published Outbox::publish(PGconn* db, const NewEvent& event) const {
    return publish(db, std::span(&event, 1)).front();
}

std::vector<Published> Outbox::publish(PGconn* db, std::span<const NewEvent> events) const {
    client::Borrowed connection(db);
    connection.need_transaction();
    std::vector<Published> published;
    published.reserve(events.size());
    while (!events.empty()) {
        const auto some = events.first(fitting(events));
        for (auto& one : publish_traced(connection, table_, some)) published.push_back(std::move(one));
        events = events.subspan(some.size());
    }
    return published;
}

EventId Outbox::enqueue(PGconn* db, const NewEvent& event) const {
    client::Borrowed connection(db);
    const auto statement = this->statement(std::span(&event, 1));
    connection.send(statement.sql, statement.parameters);
    return statement.event_ids.front();
}

}  // namespace baton
