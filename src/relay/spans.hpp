#pragma once
// What a pipeline tells of its events, as spans:
//
//   publish   the event in its outbox, at the time when it occurred. A publisher with libbaton and a tracer
//             tells of this span. For all others the relay does, once.
//   relay     from when the event was read to when it was settled; for an event from a broker: receive
//   send      from when the event was given to the sink to the sink's answer, once for each try. The message
//             carries this span's ids, so what its reader does becomes a child of this span.
//
// An event without a trace gets one that follows from its id: all pipelines that carry it tell of one trace.

#include <array>
#include <atomic>
#include <memory>

#include "baton/trace.hpp"
#include "event/header_reader.hpp"
#include "relay/blame.hpp"
#include "relay/io.hpp"

namespace baton::relay {

// The tracer of a relay, for all of its pipelines.
class Traces {
  public:
    explicit Traces(std::shared_ptr<const Tracer> tracer) : tracer_(std::move(tracer)) {}
    const Tracer& tracer() const { return *tracer_; }
    // True for the first pipeline that asks. Several pipelines that read one outbox at a time tell of an
    // event's publishing once; a pipeline that comes much later tells again, with the same ids.
    bool first_to_tell_of(const TraceContext& publish);

  private:
    std::shared_ptr<const Tracer> tracer_;
    std::array<std::atomic<std::uint64_t>, 4096> told_{};
};

// How the spans of a pipeline call source and sink.
struct TraceNames {
    std::string pipeline;
    std::string source_system;  // "baton", or the broker's type
    std::string source;         // the outbox; empty: the topic of each event
    std::string group;
    std::string sink_system;
};

// An event on its way.
struct EventTrace {
    TraceContext relay;  // the span of the event in this pipeline
    SpanId parent;
    bool remote_parent = false;
    Span::Time read_at{};
    std::string traceparent;  // what the messages carry

    struct Sending {
        TraceContext context;
        Span::Time start{};
        std::string destination;
        std::string message_id;
        std::size_t messages = 0;
        std::size_t bytes = 0;
    };
    Sending sending;
    unsigned tries = 0;
};

// One thread.
class EventSpans {
  public:
    EventSpans(std::shared_ptr<Traces> traces, TraceNames names)
        : traces_(std::move(traces)), names_(std::move(names)) {}

    // Begin the event's way. Null when the event is not sampled and goes on with the context that it has.
    // `again`: it was here before.
    std::unique_ptr<EventTrace> begin(const Event& event, bool again, Span::Time read_at);
    // Set the traceparent of the messages that are made next.
    void prepare(EventTrace& trace) const;
    // Note the messages that go to the sink now.
    void sent(EventTrace& trace, std::span<const Message> messages) const;
    // Tell of a try. `fault` says why messages came back, `error` in the sink's words.
    void came_back(const EventTrace& trace, const std::optional<Fault>& fault, std::string error) const;
    // Tell of the event's way, when the event is settled. `failure` is null when the event was delivered.
    void settled(const EventTrace& trace, const Event& event, const Failure* failure) const;

  private:
    std::optional<TraceContext> context_of(const Event& event);
    TraceContext publish(const Event& event, const std::optional<TraceContext>& given, TraceId trace,
                         bool again);
    void tell_of_publish(const Event& event, const TraceContext& context,
                         const std::optional<TraceContext>& given) const;

    std::shared_ptr<Traces> traces_;
    TraceNames names_;
    HeaderReader reader_;
    Headers headers_;  // of the event at hand
};

}  // namespace baton::relay
