#pragma once
// Reads a queue of Amazon SQS, or of what speaks its JSON protocol.
//
// Messages are asked for by long polling, and deleted, ten at a time, after they were settled. While they are
// on their way they stay invisible to others: their time is extended until they are settled. What is not
// settled when the relay stops is made visible at once; when it dies, after `visibility`.
//
// The attributes of a message are its headers. Those that baton's sink writes come back as what they were:
// message_id, content_type, partition_key, body_encoding, headers. On a FIFO queue the message group is the
// key of a message that has none.
//
// Settings: those of brokers/sqs/access.hpp; wait (up to 20s, how long a poll waits), visibility (30s),
// receivers (2, polls under way at once); those of incoming.hpp and broker_feed.hpp; timeout,
// connect_timeout, max_concurrent, proxy, tls_*.

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_sqs_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
