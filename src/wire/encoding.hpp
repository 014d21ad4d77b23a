#pragma once
// Digests and text forms of bytes, on OpenSSL.

#include <optional>
#include <string>
#include <string_view>

namespace baton::wire {

std::string base64_encode(std::string_view bytes);
// Nothing when the text is not base64 with padding.
std::optional<std::string> base64_decode(std::string_view text);
// Both return raw bytes.
std::string sha256(std::string_view bytes);
std::string hmac_sha256(std::string_view key, std::string_view bytes);

}  // namespace baton::wire
