// The answers of Redis about a stream, from the wire on.

#include <cstdlib>
#include <memory>
#include <string>

#include "baton/error.hpp"
#include "brokers/redis/entry.hpp"
#include "event/json.hpp"
#include "fuzz.hpp"

using namespace baton;
using fuzz::require;

namespace {

using Reply = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;

void decode(const redisReply& entries) {
    const intake::Decoder decoder(relay::Settings("fuzz"), "redis", {});
    intake::BrokerBatch batch;
    std::size_t taken = 0;
    brokers::for_each_entry(
        entries,
        [&](const std::string& id, const redisReply& fields) {
            brokers::decode_entry(id, fields, "orders", "body", decoder, batch);
            ++taken;
        },
        [](const std::string&) {});
    require(batch.events.size() == taken, "each entry is an event");
    for (const auto& event : batch.events)
        require(!event.event_id.empty() && is_text(event.event_id), "an event has an id");
}

void take(const redisReply& answer) {
    try {
        if (const auto* entries = brokers::entries_of_read(answer)) {
            decode(*entries);
            brokers::last_id(*entries);
        }
    } catch (const ConnectionError&) {
    }
    try {
        std::string cursor;
        decode(brokers::entries_of_claim(answer, cursor));
    } catch (const ConnectionError&) {
    }
}

// The library makes room for as many elements as a list announces: one that lies by millions is its business.
bool announces_too_much(std::string_view bytes) {
    for (std::size_t at = bytes.find('*'); at != std::string_view::npos; at = bytes.find('*', at + 1))
        if (std::atoll(std::string(bytes.substr(at + 1, 20)).c_str()) > 100'000) return true;
    return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (announces_too_much(fuzz::text_of(data, size))) return 0;
    const std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader(redisReaderCreate(),
                                                                          &redisReaderFree);
    redisReaderFeed(reader.get(), reinterpret_cast<const char*>(data), size);
    for (;;) {
        void* raw = nullptr;
        if (redisReaderGetReply(reader.get(), &raw) != REDIS_OK || raw == nullptr) return 0;
        take(*Reply(static_cast<redisReply*>(raw), &freeReplyObject));
    }
}
