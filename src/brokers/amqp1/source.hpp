#pragma once
// Reads a queue of an AMQP 1.0 broker, or a subscription that the broker has under an address.
//
// A message is accepted after settling, never before. At most `credit` messages are with this reader and not
// accepted. When the reader leaves, it releases what was not settled; when it dies, the broker finds out and
// gives the same messages again. Several readers share a queue; the order of the queue holds as long as one
// reads, and the order of a key where the broker gives a group to one reader at a time.
//
// A broker counts deliveries, and some set a message aside that was delivered too often: a relay that is
// killed again and again would lose messages to that. Let the queue have no such limit.
//
// A message is known by its message-id, else by what intake/incoming.hpp knows, else by its sequence number
// (Azure Service Bus), else by a digest of it: two messages that are alike in all then count as one.
//
//   address       of the queue, or of the subscription: "orders::billing" (ActiveMQ Artemis),
//                 "orders/Subscriptions/billing" (Azure Service Bus), with kind = "any"
//   credit        1000
//   container_id  "baton-PIPELINE-" and the relay's name
//   and what brokers/amqp1/settings.hpp, intake/incoming.hpp and intake/broker_feed.hpp know

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_amqp1_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
