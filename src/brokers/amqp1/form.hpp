#pragma once
// What the messages of this broker look like.

#include "relay/transform.hpp"

namespace baton::brokers {

// What is wrong with the address of a queue or a topic, or null.
const char* flaw_of_amqp1_address(std::string_view address);

// CloudEvents attributes are application properties. The binding allows "cloudEvents:" too, which JMS clients
// cannot read.
inline const relay::MessageForm amqp1_form{
    .destination = "address", .rules = {flaw_of_amqp1_address}, .headers = {"cloudEvents_"}};

}  // namespace baton::brokers
