#pragma once
// What libbaton tells of its work, as spans: each publish, and each call of a handler.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "baton/event.hpp"
#include "baton/trace.hpp"
#include "client/queue.hpp"

namespace baton::client {

// The events of one statement. They get the context of their spans, which have the ids that follow from the
// events' own: so a relay knows that somebody told of them. Without a tracer they get the context of the
// thread's scope.
class PublishSpans {
  public:
    // Null when there is neither a tracer nor a scope: then the events go as they are.
    static std::unique_ptr<PublishSpans> begin(const std::string& outbox, std::span<const NewEvent> events);

    std::span<const NewEvent> events() const { return events_; }
    // Tell of the spans. `error` says why nothing was published.
    void end(const std::optional<std::string>& error = {}, bool duplicate = false);

  private:
    PublishSpans(const std::string& outbox, std::span<const NewEvent> events);
    TraceContext begin_one(NewEvent& event, SpanId& parent) const;

    std::shared_ptr<const Tracer> tracer_;
    std::vector<NewEvent> events_;
    std::vector<Span> spans_;
};

// The calls of a handler in one transaction. They are told of when the transaction has ended: as failed,
// unless committed() was called.
class HandlerSpans {
  public:
    HandlerSpans(std::shared_ptr<const Tracer> tracer, QueueNames names);
    ~HandlerSpans();
    HandlerSpans(const HandlerSpans&) = delete;
    HandlerSpans& operator=(const HandlerSpans&) = delete;

    // Begin the span of a call. Several deliveries are linked to it.
    TraceContext begin(std::span<const Delivery> deliveries);
    void end(const std::optional<Failure>& failure);
    void committed();

  private:
    void tell();

    std::shared_ptr<const Tracer> tracer_;
    QueueNames names_;
    std::vector<Span> spans_;
};

}  // namespace baton::client
