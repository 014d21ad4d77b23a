#include "baton/worker.hpp"

#include <unistd.h>

#include <array>
#include <utility>

#include "baton/group_consumer.hpp"
#include "baton/inbox_worker.hpp"
#include "client/engine.hpp"

namespace baton {

namespace {

// A name that nobody else has: two workers of one name would think they hold each other's leases.
std::string make_name() {
    std::array<char, 65> host{};
    ::gethostname(host.data(), host.size() - 1);
    return std::string(host.data()) + "-" + std::to_string(::getpid()) + "-" +
           EventId::make().str().substr(24);
}

void check(const std::string& what, const std::string& name, WorkOptions& options) {
    if (name.empty()) throw UsageError(what + " needs a name");
    if (options.batch < 1) throw UsageError("batch must be at least 1");
    if (options.lease < std::chrono::seconds(1)) throw UsageError("lease must be at least a second");
    if (options.idle < std::chrono::milliseconds(1))
        throw UsageError("idle must be at least a millisecond", "it is the longest time between two looks");
    if (options.name.empty()) options.name = make_name();
}

client::QueueOptions queue_options(std::string name, const WorkOptions& options) {
    return {options.conninfo,
            std::move(name),
            options.name,
            options.batch,
            static_cast<int>(options.lease.count()),
            options.tier};
}

std::unique_ptr<client::Engine> make_group_engine(std::string group, WorkOptions options, Handler handler) {
    check("a group", group, options);
    if (!options.tier.empty()) throw UsageError("a group has no tiers", "leave tier empty");
    auto queue = client::make_group_queue(queue_options(std::move(group), options));
    return std::make_unique<client::Engine>(std::move(queue), std::move(options), std::move(handler));
}

std::unique_ptr<client::Engine> make_inbox_engine(std::string inbox, WorkOptions options, Handler handler) {
    check("an inbox", inbox, options);
    auto queue = client::make_inbox_queue(queue_options(std::move(inbox), options));
    return std::make_unique<client::Engine>(std::move(queue), std::move(options), std::move(handler));
}

}  // namespace

Worker::Worker(std::unique_ptr<client::Engine> engine) : engine_(std::move(engine)) {}
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;
Worker::~Worker() = default;

void Worker::run(std::stop_token stop) {
    engine_->run(stop);
}

std::uint64_t Worker::drain(std::stop_token stop) {
    return engine_->drain(stop);
}

WorkCounts Worker::counts() const {
    return engine_->counts();
}

GroupConsumer::GroupConsumer(std::string group, WorkOptions options, Handler handler)
    : Worker(make_group_engine(std::move(group), std::move(options), std::move(handler))) {}

InboxWorker::InboxWorker(std::string inbox, WorkOptions options, Handler handler)
    : Worker(make_inbox_engine(std::move(inbox), std::move(options), std::move(handler))) {}

}  // namespace baton
