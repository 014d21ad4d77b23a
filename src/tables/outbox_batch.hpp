#pragma once
// Events in the binary form in which the server sent them, and how far they reach in the log.

#include <optional>
#include <string>

#include "postgres/result.hpp"
#include "relay/io.hpp"
#include "tables/outbox_window.hpp"

namespace baton::tables {

struct OutboxBatch : relay::Batch {
    // Read the columns of baton_internal.window_columns(), or of a parked_statement() when `parked`.
    OutboxBatch(postgres::Result rows, PayloadKind kind, bool from_jsonb, bool parked);
    // A part of the only event of `whole` (claim_check.hpp), which reaches as far in the log. `rows` are the
    // part's.
    OutboxBatch(std::shared_ptr<const OutboxBatch> whole, postgres::Result rows);

    // Drop the events with these ids: they are parked.
    void leave_out(const std::vector<std::int64_t>& ids);

    // Mark events that have more bytes than `limit`: they are not loaded.
    void mark_too_large(std::int64_t limit);
    // Drop all events from this place on. Returns their ids.
    std::vector<long long> cut_from(std::size_t place);
    // Drop all events from the first withheld one on. Returns their ids.
    std::vector<long long> cut_at_withheld();
    // Drop events at the end, until the withheld payloads have no more than `largest` bytes together, or only
    // one is left. True when events were dropped.
    bool cut_to(std::size_t largest);
    // Take withheld payloads: rows of id, payload and headers, in the order of ids.
    void add_payloads(postgres::Result answer, bool from_jsonb);

    postgres::Result rows;
    std::string texts;                          // values that the server sends in another form than text
    std::shared_ptr<const Window> window;       // null for parked events
    std::int64_t after_id = 0;                  // the position when all events are settled
    bool window_done = false;                   // whether the window is exhausted then
    std::vector<std::optional<Timestamp>> due;  // available_at of each row
    bool has_due = false;
    struct Withheld {
        std::size_t event;  // place in `events`
        std::size_t size;   // of payload and headers
    };
    std::vector<Withheld> withheld;
    std::optional<postgres::Result> payloads;
    bool claim_check = false;                  // the only event is one that goes in parts
    std::shared_ptr<const OutboxBatch> whole;  // of which this batch is a part; null when it is none
    bool last_part = false;
};

}  // namespace baton::tables
