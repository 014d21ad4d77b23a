#pragma once
// What the messages of this broker look like.

#include "relay/transform.hpp"

namespace baton::brokers {

inline const relay::MessageForm http_form{
    .destination = "url", .rules = url_rules, .destination_needed = true, .headers = {"ce-", true}};

}  // namespace baton::brokers
