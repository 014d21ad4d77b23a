#include "brokers/registry.hpp"

#include <algorithm>

namespace baton::brokers {

// src/CMakeLists.txt writes the list: BROKER(name) for each folder of the build.
#define BROKER(name) Broker name##_broker();
#include "brokers/list.inc"
#undef BROKER

namespace {

const Broker* find(const std::string& type) {
    const auto found = std::find_if(registry().begin(), registry().end(),
                                    [&](const Broker& broker) { return broker.name == type; });
    return found == registry().end() ? nullptr : &*found;
}

// Find the broker that the settings name and that has what is asked for; else say which ones have it.
template <class Has>
const Broker& find_with(const relay::Settings& settings, const Has& has, const char* lack,
                        std::string known) {
    const std::string type = settings.text("type");
    const Broker* found = find(type);
    if (found != nullptr && has(*found)) return *found;
    for (const auto& broker : registry())
        if (has(broker)) known += (known.ends_with(' ') ? "" : ", ") + broker.name;
    settings.refuse("type", "is \"" + type + "\", which " + lack, known);
}

const Broker& find_sink(const relay::Settings& settings) {
    return find_with(
        settings, [](const Broker& broker) { return broker.make_sink != nullptr; }, "is no sink",
        "known sinks: ");
}

}  // namespace

const std::vector<Broker>& registry() {
    static const std::vector<Broker> brokers{
#define BROKER(name) name##_broker(),
#include "brokers/list.inc"
#undef BROKER
    };
    return brokers;
}

std::string traced_name(const std::string& type) {
    const Broker* found = find(type);
    return found == nullptr || found->traced_as.empty() ? type : found->traced_as;
}

std::string example_of_sink(const std::string& type) {
    static const std::pair<const char*, const char*> examples[] = {
#include "brokers/examples.inc"
    };
    std::string known;
    for (const auto& [name, text] : examples) {
        if (type == name) return text;
        known += (known.empty() ? "" : ", ") + std::string(name);
    }
    throw UsageError("there is no sink of type \"" + type + "\"", "there are " + known);
}

std::unique_ptr<relay::Sink> make_sink(const relay::Settings& settings) {
    const Broker& broker = find_sink(settings);
    auto sink = broker.make_sink(settings);
    relay::know_transform_settings(settings, broker.form);
    settings.refuse_unknown();
    return sink;
}

const relay::MessageForm& form_of(const relay::Settings& sink) {
    return find_sink(sink).form;
}

bool is_elsewhere(const relay::Settings& source) {
    const Broker* broker = find(source.text("type", "outbox"));
    return broker != nullptr && broker->has_tables;
}

bool is_broker(const relay::Settings& source) {
    return source.text("type", "outbox") != "outbox" && !is_elsewhere(source);
}

std::shared_ptr<const BrokerSource> make_source(const relay::Settings& settings, const Reader& reader) {
    const Broker& broker = find_with(
        settings, [](const Broker& each) { return each.make_source != nullptr || each.has_tables; },
        "is no source", "known sources: outbox");
    auto source = broker.make_source(settings, reader);
    settings.refuse_unknown();
    return source;
}

std::unique_ptr<AuditPlace> make_audit_place(const PlaceRequest& request) {
    const Broker& broker = find_with(
        request.sink, [](const Broker& each) { return each.make_audit_place != nullptr; },
        "cannot be read back", "audit one of: ");
    return broker.make_audit_place(request);
}

}  // namespace baton::brokers
