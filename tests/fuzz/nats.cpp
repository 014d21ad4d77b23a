// What a NATS server writes about a message.

#include "brokers/nats/message.hpp"

#include "fuzz.hpp"
#include "wire/encoding.hpp"

using namespace baton;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text_of(data, size);
    brokers::read_nats_standing(text);
    intake::BrokerBatch batch;
    brokers::read_stored_headers(text, batch);
    // As the server stores them, the headers being whatever a publisher wrote.
    const auto headers = brokers::read_stored_headers(
        R"({"message": {"hdrs": ")" + wire::base64_encode(text) + R"("}})", batch);
    require(headers.has_value(), "stored headers are read");
    for (const auto& header : *headers) {
        require(header.name.find(':') == std::string_view::npos, "a name has no colon");
        require(header.value.find("\r\n") == std::string_view::npos, "a value is one line");
    }
    return 0;
}
