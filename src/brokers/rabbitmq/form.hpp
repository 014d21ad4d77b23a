#pragma once
// What the messages of this broker look like.

#include "relay/transform.hpp"

namespace baton::brokers {

// What is wrong with the name, or null.
const char* flaw_of_routing_key(std::string_view key);

inline const relay::MessageForm rabbitmq_form{
    .destination = "routing_key", .rules = {flaw_of_routing_key}, .headers = {"cloudEvents_"}};

}  // namespace baton::brokers
