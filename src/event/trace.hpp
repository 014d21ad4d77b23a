#pragma once
// W3C trace context.

#include <string>
#include <string_view>

namespace baton {

// Return a traceparent for what an event has as trace id: a traceparent itself, or 32 hexadecimal digits with
// or without dashes; empty when it is neither. The span id comes from the event's id, so that every delivery
// gives the same.
std::string make_traceparent(std::string_view trace_id, std::string_view event_id);

// Return the trace id of a traceparent; empty when it is none.
std::string_view trace_id_of(std::string_view traceparent);

}  // namespace baton
