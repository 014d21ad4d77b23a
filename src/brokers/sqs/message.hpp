#pragma once
// Turns a message of SQS into an event. Attributes become headers. Attributes that baton's sink wrote become
// what they were before.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "intake/incoming.hpp"

namespace baton::brokers {

struct SqsBatch final : intake::BrokerBatch {
    std::vector<std::string> handles;  // one for each event
};

// Read the answer to a poll. Every message becomes an event of the batch, whatever the message holds.
void read_sqs_messages(const nlohmann::json& answer, const std::string& queue, const intake::Decoder& decoder,
                       SqsBatch& batch);

}  // namespace baton::brokers
