#pragma once
// What the messages of this broker look like.

#include "relay/transform.hpp"

namespace baton::brokers {

inline const relay::MessageForm redis_form{.destination = "stream"};

}  // namespace baton::brokers
