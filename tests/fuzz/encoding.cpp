// Text forms of bytes and times.

#include "wire/encoding.hpp"
#include "base/text.hpp"

#include "event/envelope.hpp"
#include "event/json.hpp"
#include "fuzz.hpp"

using namespace baton;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text_of(data, size);
    const std::string encoded = wire::base64_encode(text);
    require(wire::base64_decode(encoded) == std::string(text), "base64 reads as what it was");
    std::string piece;
    append_base64(piece, text);
    require(piece == encoded, "both write the same base64");
    if (const auto bytes = wire::base64_decode(text)) {
        const std::string again = wire::base64_encode(*bytes);
        require(again.size() == text.size(), "what is taken for base64 has no other bytes in it");
        require(again.find('=') == text.find('='), "and its padding at the end");
    }
    require(to_hex(text).size() == 2 * text.size(), "a byte has two digits");
    if (const auto time = read_rfc3339(text)) {
        const TimeText written(*time);
        require(read_rfc3339(written) == time, "a time that was read can be written and read again");
    }
    return 0;
}
