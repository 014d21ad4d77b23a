#pragma once
// What the messages of this broker look like.

#include "relay/transform.hpp"

namespace baton::brokers {

inline const relay::MessageForm sqs_form{
    .destination = "queue", .rules = url_rules, .destination_needed = true};

}  // namespace baton::brokers
