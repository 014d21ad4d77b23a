#include "client/spans.hpp"

#include "base/text.hpp"
#include "event/trace.hpp"

namespace baton::client {

namespace {

using Texts = std::map<std::string, std::string>;

const std::string* find(const Texts& headers, std::string_view name) {
    for (const auto& [key, value] : headers)
        if (same_name(key, name)) return &value;
    return nullptr;
}

void set(Texts& headers, const std::string& name, const std::string& value) {
    for (auto& [key, old] : headers)
        if (same_name(key, name)) {
            old = value;
            return;
        }
    headers[name] = value;
}

// The context that headers and trace id give. A trace id alone is none.
std::optional<TraceContext> context_of(const Texts& headers, const std::optional<std::string>& trace_id) {
    const std::string* parent = find(headers, "traceparent");
    const std::string* state = find(headers, "tracestate");
    if (parent != nullptr)
        if (auto found = read_traceparent(*parent, state == nullptr ? "" : *state)) return found;
    return trace_id ? read_traceparent(*trace_id) : std::nullopt;
}

// The name of a table without quotes and the usual schema, so that all who tell of it name it alike.
std::string as_people_write(std::string table) {
    std::erase(table, '"');
    return table.starts_with("public.") ? table.substr(7) : table;
}

Span describe(std::string_view operation, std::string_view type, const std::string& destination) {
    Span span;
    span.name = std::string(operation) + " " + destination;
    span.attributes = {{"messaging.system", std::string("baton")},
                       {"messaging.operation.name", std::string(operation)},
                       {"messaging.operation.type", std::string(type)},
                       {"messaging.destination.name", destination}};
    span.start = Tracer::now();
    return span;
}

void add_text(Span& span, const char* name, const std::optional<std::string>& value) {
    if (value && !value->empty()) span.attributes.push_back({name, *value});
}

}  // namespace

std::unique_ptr<PublishSpans> PublishSpans::begin(const std::string& outbox,
                                                  std::span<const NewEvent> events) {
    auto tracer = current_tracer();
    if (!tracer && TraceScope::current() == nullptr) return nullptr;
    std::unique_ptr<PublishSpans> made(new PublishSpans(outbox, events));
    return made;
}

PublishSpans::PublishSpans(const std::string& outbox, std::span<const NewEvent> events)
    : tracer_(current_tracer()), events_(events.begin(), events.end()) {
    const std::string name = as_people_write(outbox);
    for (auto& event : events_) {
        if (!event.id) event.id = EventId::make();
        SpanId parent;
        const TraceContext context = begin_one(event, parent);
        if (!context.valid()) continue;
        set(event.headers, "traceparent", write_traceparent(context));
        if (!context.state.empty()) set(event.headers, "tracestate", context.state);
        if (!event.trace_id) event.trace_id = to_text(context.trace);
        if (!tracer_ || !context.sampled()) continue;
        Span span = describe("publish", "send", name);
        span.context = context;
        span.parent = parent;
        span.kind = Span::Kind::producer;
        add_text(span, "messaging.message.id", event.id->str());
        add_text(span, "messaging.message.conversation_id", event.correlation_id);
        add_text(span, "baton.event.type", event.type);
        spans_.push_back(std::move(span));
    }
}

// Find the event's place in a trace, and its parent. Not valid when the event keeps what it has.
TraceContext PublishSpans::begin_one(NewEvent& event, SpanId& parent) const {
    auto given = context_of(event.headers, event.trace_id);
    const TraceId trace = !given && event.trace_id ? read_trace_id(*event.trace_id) : TraceId{};
    if (!given && !event.trace_id && TraceScope::current() != nullptr) {
        given = *TraceScope::current();
        if (!tracer_) return *given;
    }
    if (!tracer_) return {};
    const SpanId own = publish_span_of(event.id->str());
    if (given && given->span == own) return {};  // somebody told of it already
    if (given) {
        parent = given->span;
        return tracer_->begin(&*given, given->trace, own);
    }
    return tracer_->begin(nullptr, trace.valid() ? trace : tracer_->begin(nullptr).trace, own);
}

void PublishSpans::end(const std::optional<std::string>& error, bool duplicate) {
    for (auto& span : spans_) {
        span.end = Tracer::now();
        span.error = error;
        if (error) span.attributes.push_back({"error.type", std::string("sql")});
        if (duplicate) span.attributes.push_back({"baton.duplicate", true});
        tracer_->end(std::move(span));
    }
    spans_.clear();
}

HandlerSpans::HandlerSpans(std::shared_ptr<const Tracer> tracer, QueueNames names)
    : tracer_(std::move(tracer)), names_(std::move(names)) {
    names_.destination = as_people_write(names_.destination);
}

HandlerSpans::~HandlerSpans() {
    for (auto& span : spans_) {
        if (span.end == Span::Time{}) span.end = Tracer::now();
        if (!span.error) {
            span.error = "its transaction was undone";
            span.attributes.push_back({"error.type", std::string("undone")});
        }
    }
    tell();
}

TraceContext HandlerSpans::begin(std::span<const Delivery> deliveries) {
    Span span = describe("process", "process", names_.destination);
    span.kind = Span::Kind::consumer;
    add_text(span, "messaging.consumer.group.name", names_.group);
    if (deliveries.size() == 1) {
        const Delivery& one = deliveries.front();
        const auto given = context_of(one.headers, one.trace_id);
        const TraceId trace = !given && one.trace_id ? read_trace_id(*one.trace_id) : TraceId{};
        if (trace.valid()) {
            span.parent = publish_span_of(one.id.str());
            span.context = tracer_->begin(nullptr, trace, Tracer::make_span_id());
        } else {
            if (given) span.parent = given->span;
            span.context = tracer_->begin(given ? &*given : nullptr);
        }
        span.remote_parent = span.parent.valid();
        add_text(span, "messaging.message.id", one.id.str());
        add_text(span, "messaging.message.conversation_id", one.correlation_id);
        add_text(span, "baton.event.type", one.type);
        if (one.attempt > 1) span.attributes.push_back({"baton.attempt", std::int64_t{one.attempt}});
    } else {
        std::optional<TraceContext> sampled;
        for (const auto& delivery : deliveries) {
            auto given = context_of(delivery.headers, delivery.trace_id);
            if (!given) continue;
            if (!sampled && given->sampled()) sampled = given;
            span.links.push_back(std::move(*given));
        }
        // A trace of its own, told of when one of the others is.
        if (sampled) sampled->state.clear();
        const TraceId trace = tracer_->begin(nullptr).trace;
        span.context = tracer_->begin(sampled ? &*sampled : nullptr, trace, Tracer::make_span_id());
        span.attributes.push_back(
            {"messaging.batch.message_count", static_cast<std::int64_t>(deliveries.size())});
    }
    TraceContext context = span.context;
    spans_.push_back(std::move(span));
    return context;
}

void HandlerSpans::end(const std::optional<Failure>& failure) {
    Span& span = spans_.back();
    span.end = Tracer::now();
    if (!failure) return;
    span.error = failure->error;
    span.attributes.push_back({"error.type", std::string(failure->permanent ? "rejected" : "failed")});
}

void HandlerSpans::committed() {
    tell();
}

void HandlerSpans::tell() {
    for (auto& span : spans_) tracer_->end(std::move(span));
    spans_.clear();
}

}  // namespace baton::client

namespace baton {

std::string traceparent_of(const Delivery& delivery) {
    if (const TraceContext* scope = TraceScope::current()) return write_traceparent(*scope);
    const std::string* header = client::find(delivery.headers, "traceparent");
    if (header != nullptr && !trace_id_of(*header).empty()) return *header;
    return delivery.trace_id ? make_traceparent(*delivery.trace_id, delivery.id.str()) : std::string();
}

}  // namespace baton
