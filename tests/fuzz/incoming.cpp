// A broker's message: whatever it holds becomes one event, or a malformed one that keeps its bytes.

#include "intake/incoming.hpp"

#include <nlohmann/json.hpp>

#include "event/json.hpp"
#include "fuzz.hpp"

using namespace baton;
using fuzz::require;

namespace {

intake::Incoming read_message(fuzz::Values values) {
    intake::Incoming message;
    message.content_type = values.next();
    message.topic = values.next();
    if (const auto key = values.next(); !key.empty()) message.key = key;
    if (const auto id = values.next(); !id.empty()) message.message_id = id;
    message.position = values.next();
    for (std::string_view lines = values.next(); !lines.empty();) {
        const auto line = lines.substr(0, lines.find('\n'));
        lines.remove_prefix(std::min(lines.size(), line.size() + 1));
        const auto colon = std::min(line.find(": "), line.size());
        message.headers.push_back({line.substr(0, colon), line.substr(std::min(colon + 2, line.size()))});
    }
    message.body = values.next();
    return message;
}

void check(const Event& event, const intake::Incoming& message) {
    require(!event.event_id.empty() && event.event_id.size() <= 512 && is_text(event.event_id),
            "an event has an id");
    for (const Field& field :
         {event.tenant_id, event.aggregate_type, event.aggregate_id, event.event_type, event.schema_version,
          event.topic, event.partition_key, event.content_type, event.trace_id, event.correlation_id,
          event.causation_id, event.idempotency_key, event.malformed})
        require(!field || is_text(*field), "its fields are text");
    if (event.headers)
        require(nlohmann::json::parse(*event.headers, nullptr, false).is_object(),
                "its headers are an object");
    if (event.malformed)
        require(event.payload == message.body, "a malformed one keeps its bytes");
    else if (event.payload && event.payload_kind == PayloadKind::json)
        require(is_json(*event.payload), "JSON is JSON");
    else if (event.payload && event.payload_kind == PayloadKind::text)
        require(is_utf8(*event.payload), "text is text");
}

void decode(const intake::Incoming& message, const relay::Settings& settings, const char* broker) {
    const intake::Decoder decoder(settings, broker, {"ce-", true});
    intake::BrokerBatch batch;
    decoder.decode(message, batch);
    decoder.decode(message, batch);
    require(batch.events.size() == 2, "a message is an event");
    require(batch.events[0].event_id == batch.events[1].event_id, "a copy has the same id");
    check(batch.events[0], message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto message = read_message(fuzz::Values(fuzz::text_of(data, size)));
    for (const char* envelope : {"auto", "raw", "json", "cloudevents", "cloudevents-structured"}) {
        relay::Settings settings("fuzz");
        settings.set("envelope", std::string(envelope));
        decode(message, settings, "kafka");
        settings.set("id_form", std::string("uuid"));
        settings.set("id_field", std::string("order.id"));
        settings.set("type_field", std::string("type"));
        settings.set("key_header", std::string("key"));
        decode(message, settings, "http");
    }
    for (const char* format : {"json", "text", "bytes"}) {
        relay::Settings settings("fuzz");
        settings.set("format", std::string(format));
        decode(message, settings, "nats");
    }
    return 0;
}
