#pragma once
// What a sink reports for messages that it gives back because it may not send any more
// (relay::Sink::send_while). A process that was stopped for a while, or that waited to connect, may have lost
// the source's lease. So a sink asks before everything that it sends, also when a message had to wait in the
// sink.

namespace baton::brokers {

inline constexpr const char* lease_is_over = "the lease is over, and nothing may be sent";

}  // namespace baton::brokers
