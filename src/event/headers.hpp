#pragma once
// The headers column: a JSON object that becomes a message's headers.

#include <string_view>

#include "event/event.hpp"

namespace baton {

// Append the members of a JSON object: a text as it is, null as an empty value, everything else as JSON text.
// Throws RenderError when the text is no JSON object.
void append_headers(Headers& headers, std::string_view json_object);

// Compare names, whatever their case.
bool is_named(const Header& header, std::string_view name);
bool begins_with(std::string_view name, std::string_view beginning);

// True when a later header has the same name. Where a name may stand only once, the last header counts.
bool comes_again(const Headers& headers, std::size_t place);

// Find a header by name, whatever its case; null when there is none.
const Header* find_header(const Headers& headers, std::string_view name);

}  // namespace baton
