#pragma once
// What a sink says of messages that it gives back because it may not send any more (relay::Sink::send_while).
// A process that was stopped for a while, or that waited to connect, may have lost its source's lease: a sink
// asks before each thing that leaves, also when it kept that until there was room.

namespace baton::brokers {

inline constexpr const char* lease_is_over = "the lease is over, and nothing may be sent";

}  // namespace baton::brokers
