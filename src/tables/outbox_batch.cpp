#include "tables/outbox_batch.hpp"

#include <endian.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "tables/event_row.hpp"

namespace baton::tables {

namespace {

constexpr int available_at = column::others;
constexpr int withheld_size = column::others + 1;  // when payload and headers were left out
constexpr int attempt = column::others + 2;        // of a parked event

std::int64_t read_int8(std::string_view bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return static_cast<std::int64_t>(be64toh(value));
}

std::int32_t read_int4(std::string_view bytes) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return static_cast<std::int32_t>(be32toh(value));
}

// The server counts microseconds from 2000-01-01.
Timestamp read_time(std::string_view bytes) {
    constexpr std::chrono::seconds epoch{946684800};
    return Timestamp(std::chrono::microseconds(read_int8(bytes)) + epoch);
}

// Write 16 bytes as 8-4-4-4-12 hexadecimal digits.
char* write_uuid(std::string_view bytes, char* out) {
    constexpr const char* digits = "0123456789abcdef";
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *out++ = '-';
        const auto byte = static_cast<unsigned char>(bytes[i]);
        *out++ = digits[byte >> 4];
        *out++ = digits[byte & 15];
    }
    return out;
}

// The texts of one row, made from its binary values.
struct RowTexts {
    std::array<char, 36 + 20 + 11> chars;
};

// jsonb comes with a byte before it that says which form it has.
Field json_field(const postgres::Result& rows, int row, int column) {
    auto value = field(rows, row, column);
    if (value && !value->empty()) value->remove_prefix(1);
    return value;
}

Event read_event(const postgres::Result& rows, int row, char* texts, PayloadKind kind, bool from_jsonb) {
    Event event;
    event.id = read_int8(rows.view(row, column::id));
    char* const uuid_end = write_uuid(rows.view(row, column::event_id), texts);
    event.event_id = {texts, static_cast<std::size_t>(uuid_end - texts)};
    char* const id_end = std::to_chars(uuid_end, uuid_end + 20, event.id).ptr;
    event.source_id = {uuid_end, static_cast<std::size_t>(id_end - uuid_end)};
    if (!rows.is_null(row, column::schema_version)) {
        char* const end =
            std::to_chars(id_end, id_end + 11, read_int4(rows.view(row, column::schema_version))).ptr;
        event.schema_version = std::string_view(id_end, static_cast<std::size_t>(end - id_end));
    }
    read_texts(event, rows, row);
    event.payload_kind = kind;
    event.payload = from_jsonb ? json_field(rows, row, column::payload) : field(rows, row, column::payload);
    event.headers = json_field(rows, row, column::headers);
    event.occurred_at = read_time(rows.view(row, column::occurred_at));
    return event;
}

}  // namespace

OutboxBatch::OutboxBatch(postgres::Result answer, PayloadKind kind, bool from_jsonb, bool are_parked)
    : rows(std::move(answer)) {
    parked = are_parked;
    const int count = rows.rows();
    events.reserve(static_cast<std::size_t>(count));
    texts.resize(static_cast<std::size_t>(count) * sizeof(RowTexts));
    for (int row = 0; row < count; ++row) {
        char* const room = texts.data() + static_cast<std::size_t>(row) * sizeof(RowTexts);
        events.push_back(read_event(rows, row, room, kind, from_jsonb));
        if (are_parked) {
            events.back().attempt = read_int4(rows.view(row, attempt));
        } else if (!rows.is_null(row, available_at)) {
            due.resize(static_cast<std::size_t>(count));
            due[static_cast<std::size_t>(row)] = read_time(rows.view(row, available_at));
            has_due = true;
        }
        if (!rows.is_null(row, withheld_size))
            withheld.push_back(
                {events.size() - 1, static_cast<std::size_t>(read_int4(rows.view(row, withheld_size)))});
    }
    bytes = PQresultMemorySize(rows.native()) + texts.size() + events.size() * sizeof(Event);
}

OutboxBatch::OutboxBatch(std::shared_ptr<const OutboxBatch> of, postgres::Result answer)
    : rows(std::move(answer)),
      window(of->window),
      after_id(of->after_id),
      window_done(of->window_done),
      whole(std::move(of)) {
    parked = whole->parked;
    parks_heeded = whole->parks_heeded;
    events.push_back(whole->events.front());
    bytes = PQresultMemorySize(rows.native()) + sizeof(Event);
}

void OutboxBatch::mark_too_large(std::int64_t limit) {
    std::erase_if(withheld, [&](const Withheld& left_out) {
        const bool over = left_out.size > static_cast<std::size_t>(limit);
        if (over) events[left_out.event].too_large = left_out.size;
        return over;
    });
}

std::vector<long long> OutboxBatch::cut_from(std::size_t place) {
    std::vector<long long> ids;
    for (std::size_t i = place; i < events.size(); ++i) ids.push_back(events[i].id);
    events.resize(std::min(place, events.size()));
    if (has_due) due.resize(events.size());
    std::erase_if(withheld, [place](const Withheld& left_out) { return left_out.event >= place; });
    return ids;
}

std::vector<long long> OutboxBatch::cut_at_withheld() {
    return withheld.empty() ? std::vector<long long>() : cut_from(withheld.front().event);
}

bool OutboxBatch::cut_to(std::size_t largest) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < withheld.size(); ++i) {
        size += withheld[i].size;
        if (size <= largest || i == 0) continue;
        cut_from(withheld[i].event);
        return true;
    }
    return false;
}

void OutboxBatch::add_payloads(postgres::Result answer, bool from_jsonb) {
    payloads.emplace(std::move(answer));
    for (std::size_t i = 0; i < withheld.size(); ++i) {
        Event& event = events[withheld[i].event];
        const int row = static_cast<int>(i);
        if (row >= payloads->rows() || read_int8(payloads->view(row, 0)) != event.id)
            throw Error("event " + std::string(event.source_id) + " has no payload any more");
        event.payload = from_jsonb ? json_field(*payloads, row, 1) : field(*payloads, row, 1);
        event.headers = json_field(*payloads, row, 2);
    }
    bytes += PQresultMemorySize(payloads->native());
    withheld.clear();
}

void OutboxBatch::leave_out(const std::vector<std::int64_t>& ids) {
    std::erase_if(
        events, [&ids](const Event& event) { return std::binary_search(ids.begin(), ids.end(), event.id); });
}

}  // namespace baton::tables
