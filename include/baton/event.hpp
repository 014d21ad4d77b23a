#pragma once
// An event to be published (NewEvent), and an event or message to be handled (Delivery).
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

// The id by which a copy is recognised. An event that baton published has a UUID (version 7, so ids sort by
// time). A message in an inbox has the id that its sender chose.
class BATON_API EventId {
  public:
    // Make a new id. Thread-safe.
    static EventId make();
    explicit EventId(std::string text) : text_(std::move(text)) {}

    const std::string& str() const noexcept { return text_; }
    friend auto operator<=>(const EventId&, const EventId&) = default;

  private:
    std::string text_ = {};
};

// An event to be published. Only the type is needed; everything else has a default.
struct NewEvent {
    std::string type = {};                    // what happened: "order.placed"
    std::optional<std::string> payload = {};  // JSON, or text, or bytes: as the outbox was created
    bool binary = false;                      // the payload is bytes: the outbox's payload_type is bytea
    int schema_version = 1;

    std::optional<std::string> aggregate_type = {};  // what kind of thing it happened to: "order"
    std::optional<std::string> aggregate_id = {};    // the thing's id
    std::optional<std::string> partition_key =
        {};  // events with one key keep their order; default: the aggregate's id
    std::optional<std::string> topic = {};  // for the relay
    std::map<std::string, std::string> headers = {};

    std::optional<std::string> tenant_id = {};
    std::optional<std::string> trace_id = {};
    std::optional<std::string> correlation_id = {};
    std::optional<std::string> causation_id = {};

    // An event with this key is published once within the outbox's idempotency window, however often you try.
    std::optional<std::string> idempotency_key = {};

    std::optional<Timestamp> occurred_at = {};   // else now
    std::optional<Timestamp> available_at = {};  // not delivered before
    std::optional<EventId> id = {};              // else a new one
};

// What a handler gets: an event of an outbox, or a message of an inbox. A field that does not apply is empty.
struct Delivery {
    EventId id{""};
    std::string type = {};
    std::string payload = {};  // JSON text, or text or bytes when the outbox holds text or bytes
    int schema_version = 1;
    int attempt = 1;  // 1 for the first
    std::map<std::string, std::string> headers = {};

    std::optional<std::string> aggregate_id = {};
    std::optional<std::string> trace_id = {};
    std::optional<std::string> correlation_id = {};
    std::optional<std::string> causation_id = {};
    std::optional<std::string> idempotency_key = {};
    Timestamp at{};  // when the event occurred; for a message, when it was received

    // From an outbox.
    std::int64_t position = 0;  // the event's id in the log
    std::optional<std::string> aggregate_type = {};
    std::optional<std::string> partition_key = {};
    std::optional<std::string> topic = {};
    std::optional<std::string> tenant_id = {};

    // From an inbox.
    std::optional<std::string> source = {};
    std::optional<std::int64_t> sequence = {};  // in its aggregate, where the inbox is ordered
};

// Say that `cause` caused `next`: both share a correlation id, `next` names the id of its cause, and belongs
// to its trace unless `next` has a trace of its own.
BATON_API NewEvent caused_by(const Delivery& cause, NewEvent next);

}  // namespace baton
