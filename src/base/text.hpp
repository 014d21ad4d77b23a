#pragma once
// Text forms of bytes, and the comparison of names.

#include <string>
#include <string_view>

namespace baton {

// The length of the UTF-8 character that begins at `at`, or 0 when none does.
std::size_t utf8_length(std::string_view bytes, std::size_t at);
bool is_utf8(std::string_view bytes);
// True when PostgreSQL can hold the bytes as text: UTF-8 without NUL.
bool is_text(std::string_view bytes);

// Return the text with ASCII letters in lower case.
std::string lower(std::string_view text);
// Compare two names; the case of ASCII letters does not count.
bool same_name(std::string_view a, std::string_view b);

// Append each byte as two hexadecimal digits, in lower case.
void append_hex(std::string& out, std::string_view bytes);
std::string to_hex(std::string_view bytes);
// Append 16 bytes as a UUID: 8-4-4-4-12 digits.
void append_uuid(std::string& out, std::string_view bytes);

void append_base64(std::string& out, std::string_view bytes);

// Append a byte as %XX.
void append_percent(std::string& out, char byte);
// Append a value as it stands within a URL: everything but letters, digits and -._~ becomes %XX.
void append_url_escaped(std::string& out, std::string_view value);
// Replace each %XX by its byte. A percent sign without two digits stays.
std::string percent_decoded(std::string_view text);

}  // namespace baton
