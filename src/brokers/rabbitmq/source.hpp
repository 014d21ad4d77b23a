#pragma once
// Consumes a RabbitMQ queue with acknowledgements by hand.
//
// Messages are acknowledged after they were settled: one basic.ack stands for everything up to a delivery
// tag. This reader has at most `prefetch` messages. While nothing may be read, only heartbeats go out. When
// the channel closes, the broker puts back every message that was not acknowledged. Several readers share a
// queue. The order of the queue holds as long as one of them reads (with x-single-active-consumer the others
// stand by).
//
// The id of a message comes from its message_id property, else from its header message-id or event-id or its
// CloudEvents attributes. A queue has no positions: for a message without any id, the id is a digest of
// routing key, properties, headers and body. So two messages that are equal in all of these count as one.
// Publishers of such messages should set message_id, or id_header or id_field should name what tells them
// apart.
//
//   url        "amqp://user:password@host:5672/vhost", amqps:// for TLS
//   queue      the queue's name; the queue must exist
//   prefetch   2000
//   username, password, heartbeat 10s, connect_timeout 5s, tls_*
//   and what intake/incoming.hpp and intake/broker_feed.hpp know

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_rabbitmq_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
