#include "relay/spans.hpp"

#include "event/headers.hpp"
#include "event/template.hpp"
#include "event/trace.hpp"

namespace baton::relay {

namespace {

// The attributes that all spans about a message have, by the conventions of OpenTelemetry.
Span::Attribute text(const char* name, std::string_view value) {
    return {name, std::string(value)};
}

void describe(Span& span, std::string_view system, std::string_view operation, std::string_view type,
              std::string_view destination) {
    span.name.assign(operation).append(destination.empty() ? "" : " ").append(destination);
    span.attributes.reserve(12);
    span.attributes = {text("messaging.system", system), text("messaging.operation.name", operation),
                       text("messaging.operation.type", type)};
    if (!destination.empty()) span.attributes.push_back(text("messaging.destination.name", destination));
}

void describe_event(Span& span, const Event& event) {
    span.attributes.push_back(text("messaging.message.id", event.event_id));
    if (event.correlation_id)
        span.attributes.push_back(text("messaging.message.conversation_id", *event.correlation_id));
    if (event.event_type) span.attributes.push_back(text("baton.event.type", *event.event_type));
}

const char* outcome_of(const Failure* failure) {
    if (failure == nullptr) return "delivered";
    switch (failure->kind) {
        case Failure::Kind::retry:
            return "parked";
        case Failure::Kind::dead:
            return "dead";
        case Failure::Kind::blocked:
            return "blocked";
    }
    return "";
}

}  // namespace

bool Traces::first_to_tell_of(const TraceContext& publish) {
    const std::uint64_t name = publish.span.value ^ publish.trace.low;
    return told_[name % told_.size()].exchange(name, std::memory_order_relaxed) != name;
}

// The context in the event's headers, else in its trace id.
std::optional<TraceContext> EventSpans::context_of(const Event& event) {
    std::optional<TraceContext> found;
    if (event.headers) try {
            headers_.clear();
            reader_.append(headers_, *event.headers);
            const Header* state = find_header(headers_, "tracestate");
            if (const Header* parent = find_header(headers_, "traceparent"))
                found = read_traceparent(parent->value, state == nullptr ? "" : state->value);
        } catch (const RenderError&) {  // so it cannot be sent either
        }
    if (!found && event.trace_id) found = read_traceparent(*event.trace_id);
    return found;
}

std::unique_ptr<EventTrace> EventSpans::begin(const Event& event, bool again, Span::Time read_at) {
    const auto given = context_of(event);
    TraceId trace = given ? given->trace : event.trace_id ? read_trace_id(*event.trace_id) : TraceId{};
    const std::string_view place = names_.source.empty() ? event.topic.value_or("") : names_.source;
    if (!trace.valid()) trace = own_trace_of(event.event_id, place);
    const Tracer& tracer = traces_->tracer();
    if (given && !given->sampled() && !tracer.begin(&*given, trace, given->span).sampled()) return nullptr;
    auto made = std::make_unique<EventTrace>();
    if (event.from_broker) {
        made->relay = tracer.begin(given ? &*given : nullptr, trace, Tracer::make_span_id());
        if (given) made->parent = given->span;
    } else {
        const TraceContext published = publish(event, given, trace, again);
        made->relay = tracer.begin(&published, trace, Tracer::make_span_id());
        made->parent = published.span;
    }
    made->remote_parent = made->parent.valid();
    made->read_at = read_at;
    made->traceparent = write_traceparent(made->relay);
    return made;
}

// The context of the event's publishing; tell of it where nobody else does.
TraceContext EventSpans::publish(const Event& event, const std::optional<TraceContext>& given, TraceId trace,
                                 bool again) {
    const SpanId span = publish_span_of(event.event_id);
    if (given && given->span == span) return *given;  // its publisher has told
    TraceContext context = traces_->tracer().begin(given ? &*given : nullptr, trace, span);
    if (context.sampled() && !again && traces_->first_to_tell_of(context))
        tell_of_publish(event, context, given);
    return context;
}

void EventSpans::tell_of_publish(const Event& event, const TraceContext& context,
                                 const std::optional<TraceContext>& given) const {
    Span span;
    span.context = context;
    if (given) span.parent = given->span;
    span.remote_parent = given.has_value();
    span.kind = Span::Kind::producer;
    span.start = span.end = event.occurred_at;
    describe(span, names_.source_system, "publish", "send", names_.source);
    describe_event(span, event);
    traces_->tracer().end(std::move(span));
}

void EventSpans::prepare(EventTrace& trace) const {
    if (!trace.relay.sampled()) return;
    trace.sending.context = traces_->tracer().begin(&trace.relay);
    trace.traceparent = write_traceparent(trace.sending.context);
}

void EventSpans::sent(EventTrace& trace, std::span<const Message> messages) const {
    if (!trace.relay.sampled() || messages.empty()) return;
    ++trace.tries;
    auto& sending = trace.sending;
    sending.start = Tracer::now();
    sending.messages = messages.size();
    sending.message_id = messages.front().message_id;
    sending.bytes = messages.front().body.size();
    sending.destination.clear();
    for (const auto& message : messages)
        sending.destination.append(sending.destination.empty() ? "" : ",").append(message.destination);
}

void EventSpans::came_back(const EventTrace& trace, const std::optional<Fault>& fault,
                           std::string error) const {
    if (!trace.relay.sampled()) return;
    const auto& sending = trace.sending;
    Span span;
    span.context = sending.context;
    span.parent = trace.relay.span;
    span.kind = Span::Kind::producer;
    span.start = sending.start;
    span.end = Tracer::now();
    describe(span, names_.sink_system, "send", "send", sending.destination);
    span.attributes.push_back(text("messaging.message.id", sending.message_id));
    span.attributes.push_back({"messaging.message.body.size", static_cast<std::int64_t>(sending.bytes)});
    if (sending.messages > 1)
        span.attributes.push_back(
            {"messaging.batch.message_count", static_cast<std::int64_t>(sending.messages)});
    span.attributes.push_back(text("baton.pipeline", names_.pipeline));
    if (trace.tries > 1) span.attributes.push_back({"baton.try", static_cast<std::int64_t>(trace.tries)});
    if (fault) {
        span.attributes.push_back(text("error.type", name_of(*fault)));
        span.error = std::move(error);
    }
    traces_->tracer().end(std::move(span));
}

void EventSpans::settled(const EventTrace& trace, const Event& event, const Failure* failure) const {
    if (!trace.relay.sampled()) return;
    Span span;
    span.context = trace.relay;
    span.parent = trace.parent;
    span.remote_parent = trace.remote_parent;
    span.kind = Span::Kind::consumer;
    span.start = trace.read_at;
    span.end = Tracer::now();
    const bool came_in = event.from_broker;
    describe(span, names_.source_system, came_in ? "receive" : "relay", came_in ? "receive" : "process",
             names_.source.empty() ? event.topic.value_or("") : names_.source);
    describe_event(span, event);
    if (!names_.group.empty()) span.attributes.push_back(text("messaging.consumer.group.name", names_.group));
    span.attributes.push_back(text("baton.pipeline", names_.pipeline));
    span.attributes.push_back(text("baton.outcome", outcome_of(failure)));
    if (event.attempt > 1)
        span.attributes.push_back({"baton.attempt", static_cast<std::int64_t>(event.attempt)});
    if (failure != nullptr) {
        span.attributes.push_back(text("error.type", outcome_of(failure)));
        span.error = failure->kind == Failure::Kind::blocked ? "an earlier event of its key is parked"
                                                             : failure->error;
    }
    traces_->tracer().end(std::move(span));
}

}  // namespace baton::relay
