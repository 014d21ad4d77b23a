#pragma once
// An event on its way out (NewEvent), and one that has come in (Delivery).
//
// Both are plain values that own their texts: keep them, copy them, move them between threads.

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "baton/export.hpp"

namespace baton {

using Timestamp = std::chrono::sys_time<std::chrono::microseconds>;

// What everybody deduplicates by. An event published by baton has a UUID (version 7, so it sorts by time);
// a message in an inbox has whatever its sender gave it.
class BATON_API EventId {
  public:
    // Make a new one. Thread-safe.
    static EventId make();
    explicit EventId(std::string text) : text_(std::move(text)) {}

    const std::string& str() const noexcept { return text_; }
    friend auto operator<=>(const EventId&, const EventId&) = default;

  private:
    std::string text_ = {};
};

// What you publish. Only the type is needed; what is left out gets the outbox's default.
struct NewEvent {
    std::string type = {};                    // what happened: "order.placed"
    std::optional<std::string> payload = {};  // JSON, or text, or bytes: as the outbox was created
    bool binary = false;                      // the payload is bytes: the outbox's payload_type is bytea
    int schema_version = 1;

    std::optional<std::string> aggregate_type = {};  // what it happened to: "order"
    std::optional<std::string> aggregate_id = {};    // which one
    std::optional<std::string> partition_key = {};   // keeps its events in order; else the aggregate's id
    std::optional<std::string> topic = {};           // for the relay
    std::map<std::string, std::string> headers = {};

    std::optional<std::string> tenant_id = {};
    std::optional<std::string> trace_id = {};
    std::optional<std::string> correlation_id = {};
    std::optional<std::string> causation_id = {};

    // Published once within the outbox's idempotency window, however often it is tried.
    std::optional<std::string> idempotency_key = {};

    std::optional<Timestamp> occurred_at = {};   // else now
    std::optional<Timestamp> available_at = {};  // not delivered before
    std::optional<EventId> id = {};              // else a new one
};

// What a handler gets: an event of an outbox, or a message of an inbox. What its way does not know is empty.
struct Delivery {
    EventId id{""};
    std::string type = {};
    std::string payload = {};  // JSON text; the text or the bytes themselves where the outbox holds such
    int schema_version = 1;
    int attempt = 1;  // 1 for the first
    std::map<std::string, std::string> headers = {};

    std::optional<std::string> aggregate_id = {};
    std::optional<std::string> trace_id = {};
    Timestamp at{};  // when it occurred; for a message, when it was received

    // From an outbox.
    std::int64_t position = 0;  // its id in the log
    std::optional<std::string> aggregate_type = {};
    std::optional<std::string> partition_key = {};
    std::optional<std::string> topic = {};
    std::optional<std::string> tenant_id = {};
    std::optional<std::string> correlation_id = {};
    std::optional<std::string> causation_id = {};

    // From an inbox.
    std::optional<std::string> source = {};
    std::optional<std::int64_t> sequence = {};  // in its aggregate, where the inbox is ordered
};

// Say that `next` was caused by `cause`: one correlation, and the cause's id.
BATON_API NewEvent caused_by(const Delivery& cause, NewEvent next);

}  // namespace baton
