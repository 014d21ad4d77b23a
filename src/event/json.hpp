#pragma once
// JSON is written piece by piece into a buffer, without a tree. Only what the hot path needs is here.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace baton {

// Append a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view value);
// Append JSON text on one line: line breaks between its tokens become spaces. The text must be valid.
void append_json_line(std::string& out, std::string_view json);

bool is_json(std::string_view text);
// True for application/json and everything that ends in +json, with or without parameters.
bool is_json_type(std::string_view content_type);
// Take a JSON object apart: names of members, each with its value as it is written. The text must be valid
// JSON. For JSON that is no object the result is empty.
std::vector<std::pair<std::string, std::string_view>> json_members(std::string_view object);

}  // namespace baton
