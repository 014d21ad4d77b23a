#include "wire/url.hpp"

#include <cctype>
#include <charconv>

#include "base/text.hpp"
#include "baton/error.hpp"

namespace baton::wire {

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
        url.path = percent_decoded(text.substr(slash + 1));
        text = text.substr(0, slash);
    }
    if (const auto at = text.rfind('@'); at != std::string_view::npos) {
        const auto login = text.substr(0, at);
        const auto colon = login.find(':');
        url.user = percent_decoded(login.substr(0, colon));
        if (colon != std::string_view::npos) url.password = percent_decoded(login.substr(colon + 1));
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

}  // namespace baton::wire
