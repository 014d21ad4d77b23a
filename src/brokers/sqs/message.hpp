#pragma once
// A message of SQS as an event. Attributes are headers; those that baton's sink writes come back as what they
// were.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "intake/incoming.hpp"

namespace baton::brokers {

struct SqsBatch final : intake::BrokerBatch {
    std::vector<std::string> handles;  // one for each event
};

// Read the answer to a poll: every message becomes an event of the batch, whatever it holds.
void read_sqs_messages(const nlohmann::json& answer, const std::string& queue, const intake::Decoder& decoder,
                       SqsBatch& batch);

}  // namespace baton::brokers
