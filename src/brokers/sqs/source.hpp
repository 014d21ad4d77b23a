#pragma once
// Reads a queue of Amazon SQS, or of another server with its JSON protocol.
//
// The source asks for messages by long polling, and deletes messages, ten at a time, after they were settled.
// Until then a message stays invisible to others: the source extends its time. When the relay stops, messages
// that are not settled become visible at once; when the relay dies, after `visibility`.
//
// The attributes of a message become its headers. Attributes that baton's sink wrote become what they were
// before: message_id, content_type, partition_key, body_encoding, headers. On a FIFO queue the message group
// is the key of a message without a key.
//
// Settings: those of brokers/sqs/access.hpp; wait (up to 20s, how long a poll waits), visibility (30s),
// receivers (2, polls under way at once); those of incoming.hpp and broker_feed.hpp; timeout,
// connect_timeout, max_concurrent, proxy, tls_*.

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_sqs_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
