#pragma once
// A message of SQS as an event. Attributes are headers; those that baton's sink writes come back as what they
// were.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sources/incoming.hpp"

namespace baton::sources {

struct SqsBatch final : BrokerBatch {
    std::vector<std::string> handles;  // one for each event
};

// Read the answer to a poll: every message becomes an event of the batch, whatever it holds.
void read_sqs_messages(const nlohmann::json& answer, const std::string& queue, const Decoder& decoder,
                       SqsBatch& batch);

}  // namespace baton::sources
