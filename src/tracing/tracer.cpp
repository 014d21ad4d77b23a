#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <random>

#include "baton/error.hpp"
#include "baton/trace.hpp"

namespace baton {

namespace {

std::atomic<unsigned> forks{1};

// A generator of the thread's own, seeded by the system. After a fork parent and child would draw the same
// numbers, so a child begins anew.
std::uint64_t random_number() {
    struct Generator {
        unsigned forks = 0;
        std::mt19937_64 numbers;
    };
    static thread_local Generator generator;
    static const int watched = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
    if (watched != 0 || generator.forks != forks) {
        std::random_device device;
        std::seed_seq seed{device(), device(), device(), device()};
        generator.numbers.seed(seed);
        generator.forks = forks;
    }
    return generator.numbers();
}

struct Process {
    std::mutex mutex;
    std::shared_ptr<const Tracer> tracer;
    std::atomic<bool> traced{false};
};

// Never destroyed: threads may publish while the process ends.
Process& process() {
    static Process& one = *new Process;
    return one;
}

thread_local const TraceScope* innermost = nullptr;

}  // namespace

SpanExporter::~SpanExporter() = default;

Sampler Sampler::named(std::string_view name, double ratio) {
    constexpr std::string_view prefix = "parentbased_";
    Sampler made;
    made.by_parent_ = name.starts_with(prefix);
    const std::string_view root = made.by_parent_ ? name.substr(prefix.size()) : name;
    if (root == "always_on")
        made.ratio_ = 1;
    else if (root == "always_off")
        made.ratio_ = 0;
    else if (root == "traceidratio")
        made.ratio_ = ratio;
    else
        throw UsageError(
            "there is no sampler \"" + std::string(name) + "\"",
            "samplers are always_on, always_off, traceidratio, and these with parentbased_ before them");
    if (!(made.ratio_ >= 0 && made.ratio_ <= 1))
        throw UsageError("the ratio of a sampler lies between 0 and 1",
                         "0.01 samples one trace in a hundred");
    return made;
}

bool Sampler::samples(TraceId trace, const TraceContext* parent) const {
    if (by_parent_ && parent != nullptr) return parent->sampled();
    if (ratio_ >= 1) return true;
    // By the id alone, so that all who see the trace decide alike; 63 bits, as other libraries do.
    return static_cast<double>(trace.low >> 1U) < std::ldexp(ratio_, 63);
}

Tracer::Tracer(Sampler sampler, std::shared_ptr<SpanExporter> exporter)
    : sampler_(sampler), exporter_(std::move(exporter)) {}

TraceContext Tracer::begin(const TraceContext* parent) const {
    if (parent != nullptr) return begin(parent, parent->trace, make_span_id());
    return begin(nullptr, {random_number(), std::max<std::uint64_t>(random_number(), 1)}, make_span_id());
}

TraceContext Tracer::begin(const TraceContext* parent, TraceId trace, SpanId span) const {
    TraceContext made{.trace = trace, .span = span};
    if (parent != nullptr) {
        made.flags = parent->flags & 0xFEU;
        made.state = parent->state;
    }
    if (sampler_.samples(trace, parent)) made.flags |= 1U;
    return made;
}

void Tracer::end(Span span) const {
    if (span.context.sampled()) exporter_->take(std::move(span));
}

SpanId Tracer::make_span_id() {
    return {std::max<std::uint64_t>(random_number(), 1)};
}

Span::Time Tracer::now() {
    return std::chrono::floor<std::chrono::nanoseconds>(std::chrono::system_clock::now());
}

void use_tracer(std::shared_ptr<const Tracer> tracer) {
    Process& one = process();
    const std::lock_guard lock(one.mutex);
    one.tracer.swap(tracer);
    one.traced = one.tracer != nullptr;
}

std::shared_ptr<const Tracer> current_tracer() {
    Process& one = process();
    if (!one.traced.load(std::memory_order_relaxed)) return nullptr;
    const std::lock_guard lock(one.mutex);
    return one.tracer;
}

TraceScope::TraceScope(TraceContext context) : context_(std::move(context)), outer_(innermost) {
    innermost = this;
}

TraceScope::~TraceScope() {
    innermost = outer_;
}

const TraceContext* TraceScope::current() {
    return innermost == nullptr ? nullptr : &innermost->context_;
}

}  // namespace baton
