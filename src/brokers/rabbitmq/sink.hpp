#pragma once
// Publishes to RabbitMQ: destination = routing key, one exchange per sink (the default exchange sends to the
// queue with the name of the routing key).
//
// Persistent messages, publisher confirms, mandatory. Delivered means: every queue to which the message was
// routed has it safely. Where no queue is bound, the routing key is shut. A message carries message-id,
// content type, its headers, "partition-key" where it has a key, and the event's time. Confirms may come in
// any order, and a queue may refuse one message and take the next, so one message per key should be in
// flight.
//
// The library waits inside its calls, so the sink has a thread of its own for them; send() and collect()
// never wait for the broker. When the broker closes the channel because of a message (too large, no
// permission), the unconfirmed messages are published again one by one until the message at fault is found.
// It is rejected, or shut when a right is missing, and the others go on. When the exchange is missing,
// everything is shut.
//
// Settings: url (amqp://user:password@host:port/vhost, amqps:// for TLS), exchange, routing_key (its
// template), mandatory, heartbeat, connect_timeout, confirm_timeout, max_message_bytes, tls_*.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_rabbitmq_sink(const relay::Settings& settings);

}  // namespace baton::brokers
