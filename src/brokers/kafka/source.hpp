#pragma once
// Consumes from Kafka with librdkafka as a member of a consumer group.
//
// An offset is committed only after all messages before it were settled, never by the library itself. When
// partitions are taken away, the source commits what is settled and forgets the rest: the next owner reads
// the rest again, and the inbox recognises copies. Assignment is eager (the library's range and roundrobin)
// unless properties say partition.assignment.strategy = "cooperative-sticky"; both are handled. While nothing
// may be read for longer than a moment, partitions are paused, so that the member stays in its group.
//
// The id of a message comes from its header message-id or event-id, from its CloudEvents attributes, or from
// topic, partition, offset and timestamp. Messages of one partition come in order.
//
//   brokers          "host:9092,other:9092"
//   topic, topics    one name, or a list; a name that begins with ^ is a regular expression
//   group            the consumer group; default: the pipeline's name
//   start            "earliest" | "latest": where a group begins that has no offset yet
//   connect_timeout  of a check, 10s
//   [properties]     any property of librdkafka, apart from those on which delivery rests
//   and what intake/incoming.hpp and intake/broker_feed.hpp know

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_kafka_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
