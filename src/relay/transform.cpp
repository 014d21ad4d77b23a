#include "relay/transform.hpp"

#include <algorithm>
#include <array>

namespace baton::relay {

namespace {

struct Place {
    std::string_view sink_type;
    const char* setting;
    DestinationRules rules;
};

constexpr std::array<Place, 7> places{{
    {"http", "url", DestinationRules::url},
    {"kafka", "topic", DestinationRules::kafka_topic},
    {"nats", "subject", DestinationRules::nats_subject},
    {"postgres", "inbox", DestinationRules::any},
    {"rabbitmq", "routing_key", DestinationRules::amqp_key},
    {"redis", "stream", DestinationRules::any},
    {"sqs", "queue", DestinationRules::url},
}};

const Place* place_of(std::string_view sink_type) {
    const auto* found = std::find_if(places.begin(), places.end(),
                                     [&](const Place& it) { return it.sink_type == sink_type; });
    return found == places.end() ? nullptr : found;
}

// A pipeline that says nothing sends an event to its topic, or to its aggregate's type when it has none.
constexpr const char* default_destination = "{topic|aggregate_type|events}";

Router make_router(const Settings& sink, const Settings& filter) {
    const Filter wanted{filter.list("tenants"), filter.list("topics"), filter.list("event_types")};
    filter.refuse_unknown();
    const Place* place = place_of(sink.text("type"));
    if (place == nullptr) return {default_destination, DestinationRules::any, wanted};
    // These are names of single things that exist: guessing one from an event would be wrong.
    const bool needed = place->rules == DestinationRules::url || place->sink_type == "postgres";
    const std::string destination =
        needed ? sink.text(place->setting) : sink.text(place->setting, default_destination);
    try {
        return {destination, place->rules, wanted};
    } catch (const UsageError& error) {
        sink.refuse(place->setting, error.what(), error.hint());
    }
}

Envelope make_envelope(const Settings& sink) {
    Envelope::Options options;
    const std::string type = sink.text("type");
    const std::string name = sink.text("envelope", type == "file" || type == "stdout" ? "json" : "raw");
    options.binding = HeaderBinding::of(type);
    options.metadata = sink.boolean("metadata", true);
    options.source = sink.text("cloudevents_source", options.source);
    try {
        options.kind = Envelope::kind_of(name);
    } catch (const UsageError& error) {
        sink.refuse("envelope", error.what(), error.hint());
    }
    try {
        return Envelope(options);
    } catch (const UsageError& error) {
        sink.refuse("cloudevents_source", error.what(), error.hint());
    }
}

}  // namespace

const char* destination_setting(std::string_view sink_type) {
    const Place* place = place_of(sink_type);
    return place == nullptr ? nullptr : place->setting;
}

void know_transform_settings(const Settings& sink) {
    make_envelope(sink);
    if (const char* setting = destination_setting(sink.text("type"))) sink.text(setting, "");
}

Transform::Transform(const Settings& sink, const Settings& filter)
    : router_(make_router(sink, filter)), envelope_(make_envelope(sink)) {}

void Transform::render(const Event& event, Messages& messages, std::string& storage) {
    router_.route(event, destinations_);
    const std::size_t first = messages.size();
    try {
        envelope_.render(event, messages.emplace_back(), storage);
    } catch (...) {
        messages.shorten(first);
        throw;
    }
    for (std::size_t i = 1; i < destinations_.size(); ++i) messages.push_back(Message(messages[first]));
    for (std::size_t i = 0; i < destinations_.size(); ++i) {
        write_message_id(messages[first + i].message_id, event, destinations_[i], destinations_.size());
        messages[first + i].destination = destinations_[i];
    }
}

}  // namespace baton::relay
