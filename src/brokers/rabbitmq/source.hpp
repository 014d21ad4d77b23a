#pragma once
// Consumes a RabbitMQ queue with acknowledgements by hand.
//
// basic.ack follows settling, one for everything up to a delivery tag. At most `prefetch` messages are with
// this reader; while nothing may be read, the socket is left alone and only heartbeats go out. Whatever was
// not acknowledged when the channel closes, the broker puts back where it was. Several readers share a queue;
// the order of the queue holds as long as one reads (x-single-active-consumer lets the others stand by).
//
// A message is known by its message_id property, else by its header message-id or event-id or its CloudEvents
// attributes. A queue has no places: without any id, a digest of routing key, properties, headers and body
// stands for it, so two messages that are alike in all of that count as one. Publishers that send such
// messages should set message_id, or id_header or id_field should say what tells them apart.
//
//   url        "amqp://user:password@host:5672/vhost", amqps:// for TLS
//   queue      its name; it must be there
//   prefetch   2000
//   username, password, heartbeat 10s, connect_timeout 5s, tls_*
//   and what intake/incoming.hpp and intake/broker_feed.hpp know

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_rabbitmq_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
