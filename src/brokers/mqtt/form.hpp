#pragma once
// What the messages of this broker look like.

#include "relay/transform.hpp"

namespace baton::brokers {

// What is wrong with the name of a topic, or null.
const char* flaw_of_mqtt_topic(std::string_view topic);
// What is wrong with a topic filter, as a subscription has it, or null. Knows shared subscriptions.
const char* flaw_of_mqtt_filter(std::string_view filter);

// CloudEvents attributes are user properties without a prefix.
inline const relay::MessageForm mqtt_form{
    .destination = "topic", .rules = {flaw_of_mqtt_topic}, .headers = {"", false}};

}  // namespace baton::brokers
