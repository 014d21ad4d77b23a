#pragma once
// Sends to Amazon SQS, or to another server with its JSON protocol: destination = a queue's URL, or its name
// with `account` and `endpoint`. All queues of a sink are on one host; no other host gets requests with our
// signature.
//
// Up to 10 messages and `batch_bytes` go as one SendMessageBatch, signed with AWS Signature Version 4. The
// sender's fault, as SQS says: rejected in the words of SQS. Queue missing, credentials refused or expired:
// the queue is shut. Throttling and faults of SQS: retried. When a whole request is refused because of one
// entry, the messages go one by one.
//
// Attributes of a message: message_id, content_type, partition_key, body_encoding and its headers. SQS takes
// 10 attributes of plain text with a value; headers that do not fit are in the attribute "headers", a JSON
// object. A body that SQS does not take as text goes as base64 with body_encoding = "base64". SQS takes no
// empty body either: it goes as "-" with body_encoding = "empty".
//
// On a FIFO queue (.fifo) the message group is the key, or the message id where there is no key. The
// deduplication id is the message id. Where SQS would not take one of the two, its SHA-256 replaces it.
//
// Settings: queue (its template: a URL, or a name), those of brokers/sqs/access.hpp, batch_bytes,
// max_message_bytes, max_concurrent, connect_timeout, timeout, proxy, tls_*.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_sqs_sink(const relay::Settings& settings);

}  // namespace baton::brokers
