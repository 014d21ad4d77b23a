#pragma once
// The headers column: a JSON object that becomes a message's headers.

#include <string_view>

#include "event/event.hpp"

namespace baton {

// Append the members of a JSON object: texts as they are, null as nothing, everything else as its JSON text.
// Throws RenderError when it is no JSON object.
void append_headers(Headers& headers, std::string_view json_object);

// Find a header by name, whatever its case; null when there is none.
const Header* find_header(const Headers& headers, std::string_view name);

}  // namespace baton
