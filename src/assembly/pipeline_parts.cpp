#include "assembly/pipeline_parts.hpp"

#include <limits>

#include "assembly/outbox_parts.hpp"
#include "assembly/read_settings.hpp"
#include "brokers/registry.hpp"
#include "relay/transform.hpp"

namespace baton::assembly {

using namespace std::chrono_literals;
using relay::Settings;

namespace {

constexpr std::size_t most_unsigned = std::numeric_limits<unsigned>::max();

relay::Policy read_policy(const Settings& failure, const Settings& limits) {
    relay::Policy policy;
    policy.backoff = read_backoff(failure, "backoff", "backoff_limit", {100ms, 10s});
    policy.breaker_threshold =
        static_cast<unsigned>(failure.count("breaker_threshold", policy.breaker_threshold, most_unsigned));
    policy.breaker = read_backoff(failure, "breaker_backoff", "breaker_limit", policy.breaker);
    policy.max_in_flight = limits.count("max_in_flight", policy.max_in_flight);
    policy.rate = limits.real("rate", 0);
    policy.max_event_bytes = limits.count("max_event_bytes", policy.max_event_bytes);
    if (policy.rate < 0) limits.refuse("rate", "must be 0 (no limit) or more events per second");
    return policy;
}

// What becomes of events that cannot be delivered: a log has a room beside it for them, a broker has none.
void read_poison(const Settings& failure, bool broker, relay::Policy& policy) {
    if (broker) {
        const bool halt = one_of(failure, "on_poison", "retry", {"retry", "halt"}) == "halt";
        policy.on_poison = halt ? relay::OnPoison::halt : relay::OnPoison::retry;
        policy.attempts = std::numeric_limits<unsigned>::max();
        return;
    }
    policy.attempts = static_cast<unsigned>(failure.count("attempts", policy.attempts, most_unsigned));
    const auto limit = failure.number("give_up_limit", policy.give_up_limit);
    if (limit < 0 || limit > std::numeric_limits<int>::max())
        failure.refuse("give_up_limit", "must be 0 (no limit) or a number of events");
    policy.give_up_limit = static_cast<unsigned>(limit);
    const std::string poison = one_of(failure, "on_poison", "park", {"park", "block_key", "halt"});
    policy.on_poison = poison == "park"        ? relay::OnPoison::park
                       : poison == "block_key" ? relay::OnPoison::block_key
                                               : relay::OnPoison::halt;
}

void read_from_broker(relay::PipelineParts& parts, const Settings& source, const RelayIdentity& identity) {
    const auto broker = brokers::make_source(source, {parts.name, identity.owner});
    parts.open_source = [broker](std::string&) { return broker->open(); };
}

relay::TraceNames read_trace_names(const Settings& source, const Settings& sink,
                                   const relay::PipelineParts& parts) {
    relay::TraceNames names;
    names.pipeline = parts.name;
    const bool broker = brokers::is_broker(source);
    names.source_system = broker ? brokers::traced_name(source.text("type")) : "baton";
    names.source = broker ? "" : source.text("outbox");
    names.group = broker ? "" : source.text("group", parts.name);
    names.sink_system = brokers::traced_name(sink.text("type"));
    return names;
}

}  // namespace

relay::PipelineParts make_parts(const Settings& pipeline, const RelayIdentity& identity) {
    relay::PipelineParts parts;
    parts.name = pipeline.text("name");
    pipeline.boolean("enabled", true);
    const Settings source = pipeline.below("source");
    const Settings sink = pipeline.below("sink");
    const Settings filter = pipeline.below("filter");
    const Settings failure = pipeline.below("failure");
    const Settings limits = pipeline.below("limits");
    pipeline.refuse_unknown();

    brokers::make_sink(sink);  // refuses what cannot be
    const bool broker = brokers::is_broker(source);
    parts.policy = read_policy(failure, limits);
    read_poison(failure, broker, parts.policy);
    if (broker)
        read_from_broker(parts, source, identity);
    else
        read_from_outbox(parts, source, failure, identity);
    parts.max_bytes = limits.count("max_bytes", parts.max_bytes);
    parts.drain_limit = limits.duration("drain", parts.drain_limit);
    failure.refuse_unknown();
    limits.refuse_unknown();

    parts.trace_names = read_trace_names(source, sink, parts);
    auto transform = std::make_shared<relay::Transform>(sink, filter, brokers::form_of(sink));
    parts.open_sink = [sink] { return brokers::make_sink(sink); };
    parts.transformer.wants = [transform](const Event& event) { return transform->wants(event); };
    parts.transformer.render = [transform](const Event& event, Messages& messages, std::string& storage) {
        transform->render(event, messages, storage);
    };
    return parts;
}

void check_source(const Settings& pipeline, const RelayIdentity& identity) {
    const Settings source = pipeline.below("source");
    if (brokers::is_broker(source))
        brokers::make_source(source, {pipeline.text("name"), identity.owner})->check();
    else
        check_outbox(source, pipeline.below("failure"), identity);
}

void check_sink(const Settings& pipeline) {
    brokers::make_sink(pipeline.below("sink"))->check();
}

}  // namespace baton::assembly
