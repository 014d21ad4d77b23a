// There and back: what an envelope writes for a sink is what a source reads.

#include "event/envelope.hpp"

#include <nlohmann/json.hpp>

#include "event/json.hpp"
#include "fuzz.hpp"
#include "intake/incoming.hpp"

using namespace baton;
using fuzz::require;

namespace {

Field given(std::string_view value) {
    return value.empty() ? Field() : Field(value);
}

// An event as it comes out of the server: texts are text, JSON is JSON.
std::optional<Event> read_event(fuzz::Values values) {
    Event event;
    event.event_id = values.next();
    event.event_type = given(values.next());
    event.aggregate_type = given(values.next());
    event.aggregate_id = given(values.next());
    event.tenant_id = given(values.next());
    event.partition_key = given(values.next());
    event.correlation_id = given(values.next());
    event.trace_id = given(values.next());
    event.headers = given(values.next());
    const auto kind = values.next();
    event.payload = values.next();
    for (const Field& field :
         {Field(event.event_id), event.event_type, event.aggregate_type, event.aggregate_id, event.tenant_id,
          event.partition_key, event.correlation_id, event.trace_id})
        if (field && !is_text(*field)) return std::nullopt;
    if (event.headers && !is_json(*event.headers)) return std::nullopt;
    event.payload_kind = kind == "bytes"  ? PayloadKind::bytes
                         : kind == "text" ? PayloadKind::text
                                          : PayloadKind::json;
    if (event.payload_kind == PayloadKind::json && !is_json(*event.payload)) return std::nullopt;
    if (event.payload_kind == PayloadKind::text && !is_text(*event.payload)) return std::nullopt;
    event.occurred_at = Timestamp(std::chrono::microseconds(1'700'000'000'123'456));
    return event;
}

void check_payload(const Event& sent, const Event& read) {
    require(read.payload.has_value(), "the payload is there");
    if (sent.payload_kind == PayloadKind::text && read.payload_kind == PayloadKind::json)
        require(nlohmann::json::parse(*read.payload, nullptr, false) == nlohmann::json(*sent.payload),
                "text is a JSON string in an envelope");
    else if (sent.payload_kind == PayloadKind::json)
        require(nlohmann::json::parse(*read.payload, nullptr, false) == nlohmann::json::parse(*sent.payload),
                "JSON is the same JSON");
    else
        require(*read.payload == *sent.payload, "text and bytes are the same");
}

void there_and_back(const Event& event, EnvelopeKind kind, const char* name) {
    Envelope::Options options;
    options.kind = kind;
    options.binding = HeaderBinding{"ce_"};
    const Envelope envelope(options);
    Message message;
    std::string storage;
    try {
        envelope.render(event, message, storage);
    } catch (const RenderError&) {
        return;
    }
    intake::Incoming incoming;
    incoming.body = message.body;
    incoming.content_type = message.content_type;
    incoming.position = "place";
    for (const auto& header : message.headers) incoming.headers.push_back({header.name, header.value});
    relay::Settings settings("fuzz");
    settings.set("envelope", std::string(name));
    intake::BrokerBatch batch;
    intake::Decoder(settings, "kafka", options.binding).decode(incoming, batch);
    const Event& read = batch.events.at(0);
    if (kind == EnvelopeKind::json || kind == EnvelopeKind::cloudevents_structured) {
        require(is_json(message.body), "an envelope is JSON");
        require(!read.malformed, "an envelope can be read");
        check_payload(event, read);
        require(read.event_type == event.event_type, "the event type is the same");
        require(read.tenant_id == event.tenant_id, "the tenant is the same");
        require(read.key() == event.key(), "the key is the same");
    } else if (!read.malformed && event.payload_kind != PayloadKind::json) {
        require(read.payload == message.body, "a body is the payload");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto event = read_event(fuzz::Values(fuzz::text_of(data, size)));
    if (!event) return 0;
    there_and_back(*event, EnvelopeKind::raw, "raw");
    there_and_back(*event, EnvelopeKind::json, "json");
    there_and_back(*event, EnvelopeKind::cloudevents, "cloudevents");
    there_and_back(*event, EnvelopeKind::cloudevents_structured, "cloudevents-structured");
    return 0;
}
