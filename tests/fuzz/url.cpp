// Addresses, which users write.

#include "wire/url.hpp"

#include "base/text.hpp"
#include "baton/error.hpp"
#include "fuzz.hpp"

using namespace baton;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text_of(data, size);
    try {
        const auto url = wire::parse_url(text);
        require(!url.host.empty(), "an address has a host");
        require(url.port >= 0 && url.port <= 65535, "a port is one");
        require(url.has_path || url.path.empty(), "a path is there or not");
    } catch (const UsageError&) {
    }
    std::string encoded;
    append_url_escaped(encoded, text);
    require(
        encoded.find_first_of("/:@[]% ", 0) == std::string::npos || encoded.find('%') != std::string::npos,
        "nothing but letters, digits and %XX is left");
    const auto url = wire::parse_url("x://" + encoded + ":" + encoded + "@host:1/" + encoded);
    require(url.user == text && url.password == text && url.path == text,
            "what was encoded is read as it was");
    return 0;
}
