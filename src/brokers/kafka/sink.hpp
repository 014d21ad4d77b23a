#pragma once
// Produces to Kafka with librdkafka: destination = topic, key = partition key.
//
// Idempotent producer, acks=all, no time limit on a message. The library sends again by itself and keeps the
// order of each partition, so many messages of one key may be in flight. When a message is refused for good,
// the messages behind it come back: brokers refuse what comes after a gap, the library ends (gapless
// guarantee), and the sink makes a new producer. openings.hpp is for brokers that do not know the producer
// yet, and so is the rule that a success without a place in the log is believed only where the broker has
// told such a place before: elsewhere the library concludes it from a later message, which such a broker
// takes although the first is missing. While brokers are away, nothing is reported and trouble() says why.
// Unknown topic, not authorised: the topic is shut. Too large, refused by policy: rejected in the broker's
// words. Topics are not created.
//
// A message carries its headers, "content-type", and "message-id" unless "event-id" says the same. An event
// whose payload is NULL becomes a tombstone.
//
//   brokers          "host:9092,other:9092"
//   topic            see relay/transform.hpp
//   connect_timeout  of a check, 10s
//   [properties]     any property of librdkafka: sasl.mechanism, security.protocol, compression.type, ...;
//   those
//                    on which delivery rests cannot be set. Where topics have a max.message.bytes below 1 MB,
//                    set a smaller batch.size: brokers refuse a whole batch, not one message.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_kafka_sink(const relay::Settings& settings);

}  // namespace baton::brokers
