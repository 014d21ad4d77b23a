#pragma once
// W3C trace context.

#include <string>
#include <string_view>

namespace baton {

// Return a traceparent for an event's trace id, which is a traceparent itself, or 32 hexadecimal digits with
// or without dashes. Empty for anything else. The span id comes from the event's id, so every delivery of an
// event has the same traceparent.
std::string make_traceparent(std::string_view trace_id, std::string_view event_id);

// Return the trace id of a traceparent; empty when the text is no traceparent.
std::string_view trace_id_of(std::string_view traceparent);

}  // namespace baton
