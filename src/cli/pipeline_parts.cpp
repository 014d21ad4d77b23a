#include "cli/pipeline_parts.hpp"

#include <unistd.h>

#include <array>
#include <limits>
#include <random>

#include "relay/transform.hpp"
#include "sinks/registry.hpp"
#include "sources/outbox_source.hpp"
#include "sources/registry.hpp"

namespace baton::cli {

using namespace std::chrono_literals;
using relay::Settings;
using sources::OutboxOptions;
using sources::OutboxSource;
using std::chrono::milliseconds;

namespace {

// What the group of a pipeline needs to be.
struct GroupOptions {
    std::string outbox;
    std::string start;
    std::int64_t max_attempts;
    milliseconds retry_base;
    milliseconds retry_limit;
    std::string on_poison;
};

std::int64_t positive(const Settings& settings, const std::string& key, std::int64_t fallback) {
    const auto value = settings.number(key, fallback);
    if (value < 1) settings.refuse(key, "must be at least 1");
    return value;
}

milliseconds positive_time(const Settings& settings, const std::string& key, milliseconds fallback) {
    const auto value = settings.duration(key, fallback);
    if (value < 1ms) settings.refuse(key, "must be above zero");
    return value;
}

std::string one_of(const Settings& settings, const std::string& key, const std::string& fallback,
                   const std::vector<std::string>& known) {
    std::string value = settings.text(key, fallback);
    std::string list;
    for (const auto& word : known) {
        if (value == word) return value;
        list += (list.empty() ? "" : ", ") + word;
    }
    settings.refuse(key, "is \"" + value + "\"", "write one of: " + list);
}

Backoff read_backoff(const Settings& settings, const std::string& base, const std::string& limit,
                     Backoff fallback) {
    const Backoff read{positive_time(settings, base, fallback.base),
                       positive_time(settings, limit, fallback.limit)};
    if (read.limit < read.base)
        settings.refuse(settings.has(limit) ? limit : base, "is out of order",
                        limit + " must be at least " + base);
    return read;
}

relay::Policy read_policy(const Settings& failure, const Settings& limits) {
    relay::Policy policy;
    policy.backoff = read_backoff(failure, "backoff", "backoff_limit", {100ms, 10s});
    policy.breaker_threshold =
        static_cast<unsigned>(positive(failure, "breaker_threshold", policy.breaker_threshold));
    policy.breaker = read_backoff(failure, "breaker_backoff", "breaker_limit", policy.breaker);
    policy.max_in_flight = static_cast<std::size_t>(
        positive(limits, "max_in_flight", static_cast<std::int64_t>(policy.max_in_flight)));
    policy.rate = limits.real("rate", 0);
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
    policy.attempts = static_cast<unsigned>(positive(failure, "attempts", policy.attempts));
    const std::string poison = one_of(failure, "on_poison", "park", {"park", "block_key", "halt"});
    policy.on_poison = poison == "park"        ? relay::OnPoison::park
                       : poison == "block_key" ? relay::OnPoison::block_key
                                               : relay::OnPoison::halt;
}

OutboxOptions read_source(const Settings& source, const std::string& name, const RelayIdentity& identity) {
    OutboxOptions options;
    options.conninfo = identity.db;
    options.owner = identity.owner;
    options.group = source.text("group", name);
    options.lease = source.duration("lease", options.lease);
    if (options.lease < 1s) source.refuse("lease", "must be at least 1s");
    options.batch =
        static_cast<int>(std::min<std::int64_t>(positive(source, "batch", options.batch), 100'000));
    options.batch_bytes = static_cast<std::size_t>(
        positive(source, "batch_bytes", static_cast<std::int64_t>(options.batch_bytes)));
    options.wake_up = one_of(source, "wake_up", "auto", {"auto", "bell", "notify", "poll"});
    return options;
}

GroupOptions read_group(const Settings& source, const Settings& failure) {
    const auto retry = read_backoff(failure, "retry_base", "retry_limit", {1s, 5min});
    return {source.text("outbox"),
            one_of(source, "start", "earliest", {"earliest", "latest"}),
            positive(failure, "max_attempts", 10),
            retry.base,
            retry.limit,
            failure.text("on_poison", "park")};
}

std::string interval(milliseconds time) {
    return std::to_string(time.count()) + " ms";
}

void prepare_group(postgres::Connection& db, const std::string& name, const GroupOptions& group) {
    db.query("select baton.prepare_group($1, $2, $3, $4, $5::interval, $6::interval, $7)",
             {name, group.outbox, group.start, static_cast<long>(group.max_attempts),
              interval(group.retry_base), interval(group.retry_limit), group.on_poison});
}

// Let the pipeline read a group of an outbox.
void read_from_outbox(relay::PipelineParts& parts, const Settings& source, const Settings& failure,
                      const RelayIdentity& identity) {
    source.text("type", "outbox");
    const OutboxOptions options = read_source(source, parts.name, identity);
    const GroupOptions group = read_group(source, failure);
    parts.group = options.group;
    parts.standby_interval = std::max<milliseconds>(options.lease / 4, 200ms);
    source.refuse_unknown();
    parts.open_source = [options, group](std::string& holder) -> std::unique_ptr<relay::Feed> {
        {
            postgres::Connection db(options.conninfo, "baton relay");
            prepare_group(db, options.group, group);
        }
        sources::Held held;
        auto taken = OutboxSource::take(options, held);
        if (!taken) holder = held.by + " has it until " + held.until;
        return taken;
    };
}

void read_from_broker(relay::PipelineParts& parts, const Settings& source, const RelayIdentity& identity) {
    const auto broker = sources::make_source(source, {parts.name, identity.owner});
    parts.open_source = [broker](std::string&) { return broker->open(); };
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

    const bool broker = sources::is_broker(source);
    parts.policy = read_policy(failure, limits);
    read_poison(failure, broker, parts.policy);
    if (broker)
        read_from_broker(parts, source, identity);
    else
        read_from_outbox(parts, source, failure, identity);
    parts.max_bytes =
        static_cast<std::size_t>(positive(limits, "max_bytes", static_cast<std::int64_t>(parts.max_bytes)));
    parts.drain_limit = limits.duration("drain", parts.drain_limit);
    failure.refuse_unknown();
    limits.refuse_unknown();

    auto transform = std::make_shared<const relay::Transform>(sink, filter);
    sinks::make_sink(sink);  // refuses what cannot be
    parts.open_sink = [sink] { return sinks::make_sink(sink); };
    parts.transformer.wants = [transform](const Event& event) { return transform->wants(event); };
    parts.transformer.render = [transform](const Event& event, std::vector<Message>& messages,
                                           std::string& storage) {
        transform->render(event, messages, storage);
    };
    return parts;
}

void check_connections(const Settings& pipeline, const RelayIdentity& identity) {
    make_parts(pipeline, identity);
    const Settings source = pipeline.below("source");
    if (sources::is_broker(source)) {
        sources::make_source(source, {pipeline.text("name"), identity.owner})->check();
    } else {
        postgres::Connection db(identity.db, "baton relay check");
        db.query("select baton.find_outbox(baton.resolve_table($1))", {source.text("outbox")});
    }
    sinks::make_sink(pipeline.below("sink"))->check();
}

std::string make_owner_name() {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    return std::string(host.data()) + ":" + std::to_string(::getpid()) + ":" +
           std::to_string(std::random_device{}() % 10000);
}

}  // namespace baton::cli
