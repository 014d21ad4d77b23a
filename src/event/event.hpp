#pragma once
// An event as it leaves the log, and a message as it goes to a sink.
//
// Both are views: the bytes belong to the batch that was read. Whoever holds the batch may use them; nobody
// copies a payload on the way from the server's answer to the broker's library.

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
    std::int64_t id = 0;         // its place in the log; 0 for events that do not come from one
    std::string_view source_id;  // how its source names it: the id as text, or an adopted table's own key
    std::string_view event_id;   // what consumers deduplicate by: a UUID, ULID or the source's own id
    Field tenant_id;
    Field aggregate_type;
    Field aggregate_id;
    Field event_type;
    Field schema_version;
    Field topic;
    Field partition_key;
    PayloadKind payload_kind = PayloadKind::json;
    Field payload;
    Field content_type;  // of the payload, where its source says more than its kind does
    Field headers;       // a JSON object as text
    Field trace_id;
    Field correlation_id;
    Field causation_id;
    Timestamp occurred_at{};
    int attempt = 1;  // 1 for the first delivery
    // How many bytes it has, where its source left payload and headers out because it has too many.
    std::size_t too_large = 0;
    // It came from a broker: nothing behind it keeps what cannot be delivered, so the sink has to.
    bool from_broker = false;
    Field malformed;  // why it could not be read; the payload then holds its bytes as they came

    // Events with one key keep their order: the partition key, else the aggregate's id, else none.
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

// What a sink sends: one event may become several (routing keys with commas).
struct Message {
    std::uint64_t ticket = 0;  // names it in the sink's reports
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
