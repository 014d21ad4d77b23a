#include "wire/url.hpp"

#include <cctype>
#include <charconv>

#include "baton/error.hpp"

namespace baton::wire {

namespace {

std::string percent_decode(std::string_view text) {
    std::string decoded;
    for (std::size_t at = 0; at < text.size(); ++at) {
        unsigned value = 0;
        if (text[at] == '%' && at + 2 < text.size() &&
            std::from_chars(text.data() + at + 1, text.data() + at + 3, value, 16).ptr ==
                text.data() + at + 3) {
            decoded += static_cast<char>(value);
            at += 2;
        } else {
            decoded += text[at];
        }
    }
    return decoded;
}

}  // namespace

Url parse_url(std::string_view text) {
    Url url;
    const auto scheme_end = text.find("://");
    if (scheme_end == std::string_view::npos)
        throw UsageError("an address must look like scheme://host:port",
                         "write the scheme and :// before the host");
    url.scheme = text.substr(0, scheme_end);
    text.remove_prefix(scheme_end + 3);
    const auto slash = text.find('/');
    if (slash != std::string_view::npos) {
        url.has_path = true;
        url.path = percent_decode(text.substr(slash + 1));
        text = text.substr(0, slash);
    }
    if (const auto at = text.rfind('@'); at != std::string_view::npos) {
        const auto login = text.substr(0, at);
        const auto colon = login.find(':');
        url.user = percent_decode(login.substr(0, colon));
        if (colon != std::string_view::npos) url.password = percent_decode(login.substr(colon + 1));
        text.remove_prefix(at + 1);
    }
    const auto bracket = text.rfind(']');
    const auto colon = text.rfind(':');
    const bool has_port =
        colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
    if (has_port) {
        const auto digits = text.substr(colon + 1);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
        if (error != std::errc{} || end != digits.data() + digits.size() || url.port < 1 || url.port > 65535)
            throw UsageError("the address has no valid port: " + std::string(digits));
        text = text.substr(0, colon);
    }
    if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
    url.host = text;
    if (url.host.empty()) throw UsageError("the address names no host");
    return url;
}

std::string percent_encode(std::string_view text) {
    constexpr char digits[] = "0123456789ABCDEF";
    std::string encoded;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~') {
            encoded += c;
        } else {
            encoded += '%';
            encoded += digits[byte >> 4];
            encoded += digits[byte & 15];
        }
    }
    return encoded;
}

}  // namespace baton::wire
