#pragma once
// W3C trace context of events.

#include <string>
#include <string_view>

#include "baton/trace.hpp"

namespace baton {

// Return a traceparent for an event's trace id, which is a traceparent itself, or 32 hexadecimal digits with
// or without dashes. Empty for anything else. The span id comes from the event's id, so every delivery of an
// event has the same traceparent.
std::string make_traceparent(std::string_view trace_id, std::string_view event_id);

// Return the trace id of a traceparent; empty when the text is no traceparent.
std::string_view trace_id_of(std::string_view traceparent);

// Read 32 hexadecimal digits in any case, with or without dashes; not valid for anything else.
TraceId read_trace_id(std::string_view text);

// The id of the span that tells of the event's publishing, whoever reports this span: known from the event
// alone.
SpanId publish_span_of(std::string_view event_id);

// The trace of an event that came without one. `place` is its outbox or topic: ids of some tables are small
// numbers.
TraceId own_trace_of(std::string_view event_id, std::string_view place);

}  // namespace baton
