#pragma once
// Sends to queues and topics of an AMQP 1.0 broker: destination = address. One link per address.
//
// Messages go unsettled, as many as the broker gives credit for. Delivered means that the broker answered
// accepted. A broker refuses one message and takes the next, so one message per key should be in flight
// (keeps_order_after_failure is false). Released and modified mean: not now. Rejected is the message's own
// fault, unless the broker gives an error that is the destination's (not found, unauthorized: shut) or that
// passes (a queue is full, the broker is busy). A link that the broker refuses or ends with such an error
// shuts its address alone. A broker that ends link or connection over a message, instead of rejecting it,
// gets one message at a time until the guilty one is found. A connection that breaks gives everything back
// that has no answer.
//
// An address that gets no credit for ack_timeout gives its messages back, and the others go on.
//
//   address            see relay/transform.hpp
//   container_id       "baton-" and something random unless this is set
//   ack_timeout        10s: how long the broker may take for an answer, or for credit
//   max_message_bytes  0: what the broker says
//   and what brokers/amqp1/settings.hpp knows

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_amqp1_sink(const relay::Settings& settings);

}  // namespace baton::brokers
