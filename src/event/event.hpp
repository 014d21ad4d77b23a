#pragma once
// An event as it leaves the log, and a message as it goes to a sink.
//
// Both are views: the bytes belong to the batch that was read, and are valid while somebody holds the batch.
// No payload is copied on the way from the server's answer to the broker's library.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/reused.hpp"

namespace baton {

// A value that may be NULL.
using Field = std::optional<std::string_view>;
using Timestamp = std::chrono::sys_time<std::chrono::microseconds>;

enum class PayloadKind { json, text, bytes };

struct Event {
    std::int64_t id = 0;  // place of the event in the log; 0 when the event comes from no log
    std::string_view
        source_id;  // the source's name for the event: the id as text, or the key of an adopted table
    std::string_view
        event_id;  // consumers recognise a copy by this id: a UUID, a ULID or the source's own id
    Field tenant_id;
    Field aggregate_type;
    Field aggregate_id;
    Field event_type;
    Field schema_version;
    Field topic;
    Field partition_key;
    PayloadKind payload_kind = PayloadKind::json;
    Field payload;
    Field content_type;  // of the payload, where the source tells more than payload_kind does
    Field headers;       // a JSON object as text
    Field trace_id;
    Field correlation_id;
    Field causation_id;
    Field idempotency_key;
    Timestamp occurred_at{};
    int attempt = 1;  // 1 for the first delivery
    // How many bytes payload and headers have, where the source left them out because they are too large.
    std::size_t too_large = 0;
    // The event came from a broker. No table keeps the event when it cannot be delivered, so the sink has to.
    bool from_broker = false;
    // The trace context with which the event goes on. Nothing: as its headers and its trace id say.
    Field traceparent;
    Field malformed;  // why the message could not be read; the payload then holds the bytes as they came

    // Events with the same key keep their order. The key is the partition key, else the aggregate's id, else
    // none.
    std::string_view key() const { return partition_key.value_or(aggregate_id.value_or(std::string_view{})); }
};

struct Header {
    std::string name;
    std::string value;
};

class Headers : public Reused<Header> {
  public:
    using Reused<Header>::Reused;
    void add(std::string_view name, std::string_view value) {
        Header& header = emplace_back();
        header.name.assign(name);
        header.value.assign(value);
    }
};

// What a sink sends. One event may become several messages (routing keys with commas).
struct Message {
    std::uint64_t ticket = 0;  // names the message in the sink's reports
    std::string message_id;    // the same at every redelivery
    std::string destination;   // topic, subject, routing key, stream, queue or URL
    std::string_view key;      // empty: no order needed
    std::string_view body;
    std::string_view content_type;
    bool enveloped = false;  // the body itself carries id, key and headers
    Headers headers;
    const Event* event = nullptr;
};
using Messages = Reused<Message>;

}  // namespace baton
