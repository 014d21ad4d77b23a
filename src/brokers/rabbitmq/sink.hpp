#pragma once
// Publishes to RabbitMQ: destination = routing key, one exchange per sink (the default one sends to the queue
// of that name).
//
// Persistent messages, publisher confirms, mandatory: delivered means that every queue it was routed to has
// it safely; where no queue is bound, the routing key is shut. A message carries message-id,
// content type, its headers, "partition-key" where it has a key, and the event's time. Confirms may come in
// any order and a queue may refuse one message and take the next, so one message per key should be in flight.
//
// The library waits inside its calls, so a thread of the sink's own makes them; send() and collect() never
// wait for the broker. When the broker closes the channel over a message (too large, no permission), the
// unconfirmed ones are published again one by one until the culprit is found: it is rejected, or shut where
// it is a right that is missing, and the others go on. An exchange that is not there is shut for all.
//
// Settings: url (amqp://user:password@host:port/vhost, amqps:// for TLS), exchange, routing_key (its
// template), mandatory, heartbeat, connect_timeout, confirm_timeout, max_message_bytes, tls_*.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_rabbitmq_sink(const relay::Settings& settings);

}  // namespace baton::brokers
