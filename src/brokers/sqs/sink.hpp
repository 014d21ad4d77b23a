#pragma once
// Sends to Amazon SQS, or what speaks its JSON protocol: destination = a queue's URL, or its name with
// `account` and `endpoint`. All queues of a sink are on one host; no other gets requests with our signature.
//
// Up to 10 messages and `batch_bytes` go as one SendMessageBatch, signed with AWS Signature Version 4. What
// SQS says is the sender's fault is rejected in its words; a missing queue and credentials that are refused
// or expired mean that the queue is shut; throttling and its own faults are retried. When a whole request is
// refused over one entry, the messages go one by one.
//
// Attributes of a message: message_id, content_type, partition_key, body_encoding and its headers. SQS takes
// 10 attributes of plain text with a value; headers that do not fit are in the attribute "headers", a JSON
// object. A body that is not text SQS takes goes as base64 with body_encoding = "base64"; an empty one, which
// SQS does not take either, as "-" with body_encoding = "empty".
//
// On a FIFO queue (.fifo) the message group is the key, or the message id where there is no key, and the
// deduplication id is the message id; either one is replaced by its SHA-256 where SQS would not take it.
//
// Settings: queue (its template: a URL, or a name), account and endpoint (for names; endpoint is AWS's own
// for the region unless given), region (else from the URL or AWS_REGION), access_key, secret_key,
// session_token (else AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), batch_bytes,
// max_message_bytes, max_concurrent, connect_timeout, timeout, proxy, tls_*. Roles of instances and
// containers are not asked for: give their keys by one of these ways.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_sqs_sink(const relay::Settings& settings);

}  // namespace baton::brokers
