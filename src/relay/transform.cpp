#include "relay/transform.hpp"

namespace baton::relay {

namespace {

// A pipeline that says nothing sends an event to its topic, or to its aggregate's type when it has none.
constexpr const char* default_destination = "{topic|aggregate_type|events}";

Router make_router(const Settings& sink, const Settings& filter, const MessageForm& form) {
    const Filter wanted{filter.list("tenants"), filter.list("topics"), filter.list("event_types")};
    filter.refuse_unknown();
    if (form.destination == nullptr) return {default_destination, form.rules, wanted};
    const std::string destination = form.destination_needed
                                        ? sink.text(form.destination)
                                        : sink.text(form.destination, default_destination);
    try {
        return {destination, form.rules, wanted};
    } catch (const UsageError& error) {
        sink.refuse(form.destination, error.what(), error.hint());
    }
}

Envelope make_envelope(const Settings& sink, const MessageForm& form) {
    Envelope::Options options;
    const std::string name = sink.text("envelope", form.envelope);
    options.binding = form.headers;
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

void know_transform_settings(const Settings& sink, const MessageForm& form) {
    make_envelope(sink, form);
    if (form.destination != nullptr) sink.text(form.destination, "");
}

Transform::Transform(const Settings& sink, const Settings& filter, const MessageForm& form)
    : router_(make_router(sink, filter, form)), envelope_(make_envelope(sink, form)) {}

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
