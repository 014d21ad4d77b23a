#include "tables/adopted_table.hpp"

#include <algorithm>
#include <chrono>

#include "tables/event_row.hpp"

namespace baton::tables {

using postgres::array_literal;
using postgres::Connection;
using postgres::Result;
using relay::milliseconds;

namespace {

constexpr int attempt = column::others;
constexpr int withheld_bytes = column::others + 1;  // when payload and headers were left out

int digit(char c) {
    return c >= 'a' ? c - 'a' + 10 : c - '0';
}

// Append the bytes that \x and hexadecimal digits stand for.
void append_bytes(std::string& out, std::string_view hex) {
    for (std::size_t i = 2; i + 1 < hex.size(); i += 2)
        out += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
}

Event read_event(const Result& rows, int row) {
    Event event;
    event.source_id = rows.view(row, column::id);
    event.event_id = rows.view(row, column::event_id);
    read_texts(event, rows, row);
    event.schema_version = field(rows, row, column::schema_version);
    event.payload = field(rows, row, column::payload);
    event.headers = field(rows, row, column::headers);
    event.occurred_at =
        Timestamp(std::chrono::microseconds(rows.number<std::int64_t>(row, column::occurred_at)));
    event.attempt = rows.number<int>(row, attempt);
    return event;
}

std::size_t missing(const Result& touched, std::size_t wanted) {
    return wanted - std::min(wanted, static_cast<std::size_t>(touched.rows()));
}

std::vector<HeldRow> read_held(const Result& rows) {
    std::vector<HeldRow> held;
    for (int row = 0; row < rows.rows(); ++row) held.push_back({rows.text(row, 0), rows.text(row, 1)});
    return held;
}

}  // namespace

AdoptedBatch::AdoptedBatch(Result answer, PayloadKind kind, std::int64_t event_bytes)
    : rows(std::move(answer)) {
    const int count = rows.rows();
    events.reserve(static_cast<std::size_t>(count));
    std::vector<std::size_t> ends;
    for (int row = 0; row < count; ++row) {
        const bool withheld = !rows.is_null(row, withheld_bytes);
        const auto size = withheld ? rows.number<std::int64_t>(row, withheld_bytes) : 0;
        cut = withheld && size <= event_bytes;
        if (cut) break;
        events.push_back(read_event(rows, row));
        events.back().too_large = static_cast<std::size_t>(size);
        events.back().payload_kind = kind;
        if (kind == PayloadKind::bytes && events.back().payload)
            append_bytes(decoded, *events.back().payload);
        ends.push_back(decoded.size());
    }
    for (std::size_t i = 0; kind == PayloadKind::bytes && i < events.size(); ++i) {
        const std::size_t begin = i == 0 ? 0 : ends[i - 1];
        if (events[i].payload) events[i].payload = std::string_view(decoded).substr(begin, ends[i] - begin);
    }
    bytes = PQresultMemorySize(rows.native()) + decoded.size() + events.size() * sizeof(Event);
}

AdoptedTable AdoptedTable::find(Connection& db, const std::string& name) {
    const auto row = db.query(
        "select a.outbox_id, format('%I.%I', a.schema_name, a.table_name), a.keeps_locks, "
        "a.layout -> 'columns' ? 'locked_by', a.layout -> 'columns' ? 'partition_key', "
        "(select format_type(c.atttypid, null) from pg_attribute c where c.attrelid = "
        "to_regclass(format('%I.%I', a.schema_name, a.table_name)) "
        "and c.attname = baton_internal.mapped_column(a.layout, 'payload')) "
        "from baton_internal.open_adopted($1) a",
        {name});
    AdoptedTable table;
    table.id_ = row.text(0, 0);
    table.name_ = row.text(0, 1);
    table.keeps_locks_ = row.boolean(0, 2);
    table.knows_worker_ = row.boolean(0, 3);
    table.has_partition_key_ = row.boolean(0, 4);
    const std::string type = row.text(0, 5);
    table.payload_kind_ = type == "json" || type == "jsonb" ? PayloadKind::json
                          : type == "bytea"                 ? PayloadKind::bytes
                                                            : PayloadKind::text;
    return table;
}

std::string AdoptedTable::worker_name(Connection& db, const std::string& relay) const {
    return db.value(
        "select baton_internal.adopted_worker(a, $2) from baton.adopted_outboxes a where a.outbox_id = $1",
        {id_, relay});
}

std::shared_ptr<AdoptedBatch> AdoptedTable::claim(Connection& db, const std::string& worker,
                                                  const ClaimRoom& room, milliseconds lease,
                                                  const Waiting& waiting) const {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(lease);
    auto rows =
        db.query("select * from baton_internal.claim_rows_for_relay($1, $2, $3, $4, $5, $6, $7, $8)",
                 {id_, worker, room.rows, static_cast<long>(seconds.count()), array_literal(waiting.keys),
                  array_literal(waiting.except), room.event_bytes, room.batch_bytes});
    if (rows.empty()) return nullptr;
    return std::make_shared<AdoptedBatch>(std::move(rows), payload_kind_, room.event_bytes);
}

std::size_t AdoptedTable::acknowledge(Connection& db, const std::vector<std::string>& ids,
                                      const std::string& worker) const {
    if (ids.empty()) return 0;
    return missing(
        db.query("select baton_internal.settle_rows($1, $2, $3)", {id_, array_literal(ids), worker}),
        ids.size());
}

std::vector<Failed> AdoptedTable::fail(Connection& db, const std::vector<std::string>& ids,
                                       const std::string& error, bool permanent,
                                       const std::string& worker) const {
    const auto rows = db.query("select id, dead from baton_internal.fail_rows($1, $2, $3, $4, $5)",
                               {id_, array_literal(ids), error, permanent, worker});
    std::vector<Failed> failed;
    for (int row = 0; row < rows.rows(); ++row) failed.push_back({rows.text(row, 0), rows.boolean(row, 1)});
    return failed;
}

std::size_t AdoptedTable::renew(Connection& db, const std::vector<std::string>& ids,
                                const std::string& worker) const {
    if (ids.empty()) return 0;
    return missing(
        db.query("select baton_internal.renew_rows($1, $2, $3)", {id_, array_literal(ids), worker}),
        ids.size());
}

void AdoptedTable::release(Connection& db, const std::vector<std::string>& ids,
                           const std::string& worker) const {
    if (!ids.empty())
        db.query("select baton_internal.release_rows($1, $2, $3)", {id_, array_literal(ids), worker});
}

void AdoptedTable::release_all(Connection& db, const std::string& worker) const {
    if (knows_worker_) db.query("select baton_internal.release_rows($1, null, $2)", {id_, worker});
}

std::vector<HeldRow> AdoptedTable::held(Connection& db, const std::string& worker) const {
    return read_held(db.query("select id, key from baton_internal.held_rows($1, null, $2)", {id_, worker}));
}

std::vector<HeldRow> AdoptedTable::still_held(Connection& db, const std::string& worker,
                                              const std::vector<std::string>& ids) const {
    return read_held(db.query("select id, key from baton_internal.held_rows($1, $2, $3)",
                              {id_, array_literal(ids), worker}));
}

bool is_adopted(Connection& db, const std::string& name) {
    return db.value(
               "select exists (select from baton.adopted_outboxes a where "
               "baton_internal.known_table(format('%I.%I', a.schema_name, a.table_name)) = "
               "baton_internal.resolve_table($1))",
               {name}) == "t";
}

}  // namespace baton::tables
