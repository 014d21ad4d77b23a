#pragma once
// Text forms of bytes, and comparing names: what several rooms need.

#include <string>
#include <string_view>

namespace baton {

// The length of the UTF-8 character that begins at `at`, or 0 when none does.
std::size_t utf8_length(std::string_view bytes, std::size_t at);
bool is_utf8(std::string_view bytes);
// True when PostgreSQL can hold it as text: UTF-8 without NUL.
bool is_text(std::string_view bytes);

// Letters of ASCII in lower case.
std::string lower(std::string_view text);
// Whether two names are the same but for the case of ASCII's letters.
bool same_name(std::string_view a, std::string_view b);

// Two digits for a byte, in lower case.
void append_hex(std::string& out, std::string_view bytes);
std::string to_hex(std::string_view bytes);
// 16 bytes as 8-4-4-4-12 digits.
void append_uuid(std::string& out, std::string_view bytes);

void append_base64(std::string& out, std::string_view bytes);

// A byte as %XX.
void append_percent(std::string& out, char byte);
// Everything but letters, digits and -._~ as %XX: a value within a URL.
void append_url_escaped(std::string& out, std::string_view value);
// %XX as the byte that it stands for; a percent sign without two digits stays.
std::string percent_decoded(std::string_view text);

}  // namespace baton
