#pragma once
// Takes apart what a NATS server writes about a message.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "intake/incoming.hpp"

namespace baton::brokers {

// The place of a message in its stream, from the subject of its acknowledgement.
struct NatsStanding {
    std::uint64_t sequence = 0;
    std::int64_t nanoseconds = 0;
};
std::optional<NatsStanding> read_nats_standing(std::string_view reply);

// The headers in an answer to STREAM.MSG.GET. Nothing when the text is no such answer. The headers live as
// long as the batch.
std::optional<std::vector<intake::IncomingHeader>> read_stored_headers(std::string_view answer,
                                                                       intake::BrokerBatch& batch);

}  // namespace baton::brokers
