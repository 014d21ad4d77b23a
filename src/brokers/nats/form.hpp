#pragma once
// What the messages of this broker look like.

#include "relay/transform.hpp"

namespace baton::brokers {

// What is wrong with the name, or null.
const char* flaw_of_subject(std::string_view subject);

inline const relay::MessageForm nats_form{
    .destination = "subject", .rules = {flaw_of_subject}, .headers = {"ce-", true}};

}  // namespace baton::brokers
