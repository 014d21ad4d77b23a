#pragma once
// Distributed tracing: W3C trace context, spans, and who gets them.
//
// Nothing here is needed to pass a trace on. An event's trace context is its header `traceparent` (and
// `tracestate`), else its trace_id, which may be a traceparent or a trace id alone. Relays, brokers and
// inboxes carry it, and traceparent_of() gives it to a handler.
//
// To see spans as well, give the process a tracer: baton::OtlpTracing in baton/otlp.hpp sends them to an
// OpenTelemetry collector; for another way implement SpanExporter and call use_tracer(). From then on each
// publish() is a span, and so is each call of a handler. A handler's span is the parent of what the handler
// publishes. Without a tracer a publish and a delivery cost one look at an atomic variable more.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "baton/event.hpp"
#include "baton/export.hpp"

namespace baton {

struct TraceId {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    bool valid() const { return (high | low) != 0; }
    friend bool operator==(const TraceId&, const TraceId&) = default;
};

struct SpanId {
    std::uint64_t value = 0;
    bool valid() const { return value != 0; }
    friend bool operator==(const SpanId&, const SpanId&) = default;
};

// 32 or 16 hexadecimal digits in lower case.
BATON_API std::string to_text(TraceId id);
BATON_API std::string to_text(SpanId id);

// A place in a trace.
struct TraceContext {
    TraceId trace = {};
    SpanId span = {};
    std::uint8_t flags = 0;
    std::string state = {};  // tracestate, passed on as it is

    bool valid() const { return trace.valid() && span.valid(); }
    bool sampled() const { return (flags & 1U) != 0; }
};

// Read a traceparent; nothing when the text is none.
BATON_API std::optional<TraceContext> read_traceparent(std::string_view traceparent,
                                                       std::string_view tracestate = {});
// Write a traceparent, version 00.
BATON_API std::string write_traceparent(const TraceContext& context);

// The traceparent of a delivery, for calls that its handler makes; empty when there is none. With a tracer,
// while the handler runs, this is the handler's own span.
BATON_API std::string traceparent_of(const Delivery& delivery);

// Something that took place between two times.
struct Span {
    enum class Kind { internal = 1, server, client, producer, consumer };
    using Time = std::chrono::sys_time<std::chrono::nanoseconds>;
    struct Attribute {
        std::string name;
        std::variant<std::string, std::int64_t, bool> value;
    };

    TraceContext context = {};  // of the span itself
    SpanId parent = {};         // not valid: the span begins a trace
    bool remote_parent = false;
    std::string name = {};
    Kind kind = Kind::internal;
    Time start = {};
    Time end = {};
    std::vector<Attribute> attributes = {};
    std::vector<TraceContext> links = {};
    std::optional<std::string> error = {};  // why it failed
};

// Gets the spans that are sampled, when they have ended.
class BATON_API SpanExporter {
  public:
    virtual ~SpanExporter();
    // Called from any thread, between an application's own steps: must not wait.
    virtual void take(Span span) noexcept = 0;
};

// Decides which traces are told of.
class BATON_API Sampler {
  public:
    // By the names of OTEL_TRACES_SAMPLER: always_on, always_off, traceidratio, and each of them with
    // parentbased_ before it: then the decision of whoever began the trace holds. Throws UsageError.
    static Sampler named(std::string_view name, double ratio = 1);

    bool samples(TraceId trace, const TraceContext* parent) const;

  private:
    bool by_parent_ = true;
    double ratio_ = 1;
};

class BATON_API Tracer {
  public:
    Tracer(Sampler sampler, std::shared_ptr<SpanExporter> exporter);

    // Make the context of a new span below `parent`, or of a new trace where there is no parent.
    TraceContext begin(const TraceContext* parent) const;
    // The same with ids of your own.
    TraceContext begin(const TraceContext* parent, TraceId trace, SpanId span) const;
    // Hand on a span that has ended. A span that is not sampled is dropped.
    void end(Span span) const;

    static SpanId make_span_id();
    static Span::Time now();

  private:
    Sampler sampler_;
    std::shared_ptr<SpanExporter> exporter_;
};

// Trace publishes and handlers of this process from now on; null: no more. Thread-safe.
BATON_API void use_tracer(std::shared_ptr<const Tracer> tracer);
// The tracer of this process; null when there is none.
BATON_API std::shared_ptr<const Tracer> current_tracer();

// As long as this object lives, what its thread publishes belongs to the given span, unless an event has a
// trace context of its own. Use it to hand over the trace of a request that your program serves.
class BATON_API TraceScope {
  public:
    explicit TraceScope(TraceContext context);
    ~TraceScope();
    TraceScope(const TraceScope&) = delete;
    TraceScope& operator=(const TraceScope&) = delete;

    // The innermost scope's context; null when the thread is in none.
    static const TraceContext* current();

  private:
    TraceContext context_;
    const TraceScope* outer_;
};

}  // namespace baton
