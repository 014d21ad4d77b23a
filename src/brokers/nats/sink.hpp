#pragma once
// Publishes to NATS JetStream with cnats: destination = subject.
//
// Delivered means: the stream has acknowledged. By Nats-Msg-Id the stream drops copies within its duplicate
// window. A stream may refuse one message and take the next, and a new leader may have lost messages, so one
// message per key should be in flight. No stream for the subject, publishing not permitted: the subject is
// shut. Too large: rejected in the server's words.
//
// A message carries its headers, "content-type", and "partition-key" where it has a key. NATS headers are
// lines of text: a name or value that does not fit into a line is rejected.
//
//   url              "nats://localhost:4222", or several with commas; tls:// for TLS
//   subject          see relay/transform.hpp
//   stream           the stream that takes the messages: a check looks for it, create_stream makes it
//   create_stream    false
//   stream_subjects  what the created stream takes; default: the subject, when it is the same for every event
//   username, password, token, credentials (a file), tls_ca, tls_cert, tls_key (files)
//   ack_timeout 10s, connect_timeout 5s, heartbeat 10s

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_nats_sink(const relay::Settings& settings);

}  // namespace baton::brokers
