#pragma once
// Events as the server sent them in binary form, and the place in the log up to which they reach.

#include <optional>
#include <string>

#include "postgres/result.hpp"
#include "relay/io.hpp"
#include "tables/outbox_window.hpp"

namespace baton::tables {

struct OutboxBatch : relay::Batch {
    // Read the columns of baton_internal.window_columns(), or of a parked_statement() when `parked`.
    OutboxBatch(postgres::Result rows, PayloadKind kind, bool from_jsonb, bool parked);

    // Drop the events with these ids: they are parked.
    void leave_out(const std::vector<std::int64_t>& ids);

    // Mark the events that have more bytes than this: they are not to be loaded.
    void mark_too_large(std::int64_t limit);
    // Drop the last events from the first that was left out on, and return their ids.
    std::vector<long long> cut_at_withheld();
    // Drop the last events, so that the payloads that were left out have no more than this together, or there
    // is one of them; true when some were dropped.
    bool cut_to(std::size_t largest);
    // Take what was left out: rows of id, payload and headers, in the order of ids.
    void add_payloads(postgres::Result answer, bool from_jsonb);

    postgres::Result rows;
    std::string texts;                          // values that the server sends in another form than text
    std::shared_ptr<const Window> window;       // null for parked events
    std::int64_t after_id = 0;                  // where the position is when all of it is settled
    bool window_done = false;                   // ... and whether the window is exhausted then
    std::vector<std::optional<Timestamp>> due;  // available_at of each row, while it is looked at
    bool has_due = false;
    struct Withheld {
        std::size_t event;  // its place in `events`
        std::size_t size;   // of payload and headers
    };
    std::vector<Withheld> withheld;
    std::optional<postgres::Result> payloads;
};

}  // namespace baton::tables
