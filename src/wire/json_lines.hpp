#pragma once
// A message as one line of JSON.
//
// A body that carries everything itself (the json envelope, structured CloudEvents) is the line. Any other
// body is wrapped:
//   {"id":"..","destination":"..","key":"..","headers":{..},"content_type":"..","body":<json>}
// with "body_text" or "body_base64" in place of "body" when the body is no JSON.

#include <string>

#include "event/event.hpp"

namespace baton::wire {

// Append the line with its line break.
void append_json_line_of(std::string& out, const Message& message);

}  // namespace baton::wire
