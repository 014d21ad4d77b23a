#pragma once
// What the messages of this broker look like.

#include "relay/transform.hpp"

namespace baton::brokers {

// Say what is wrong with a name; null when nothing is.
const char* flaw_of_topic(std::string_view topic);

inline const relay::MessageForm kafka_form{
    .destination = "topic", .rules = {flaw_of_topic}, .headers = {"ce_"}};

}  // namespace baton::brokers
