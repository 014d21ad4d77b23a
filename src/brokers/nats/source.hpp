#pragma once
// Reads a NATS JetStream stream through a durable pull consumer.
//
// Acknowledgements follow settling, each by itself, and the last of several is asked to be confirmed. What is
// under way for longer than a third of the consumer's ack_wait is reported as in progress, so that it is not
// given to others. On leaving, what was read and not settled is given back at once. Several readers share a
// consumer. Messages come in the stream's order, but one that is delivered again comes after later ones.
//
// A message is known by its Nats-Msg-Id, else by its header message-id or event-id or its CloudEvents
// attributes, else by stream, sequence and time.
//
//   url              "nats://localhost:4222", or several with commas; tls:// for TLS
//   stream           its name
//   durable          the consumer's name; the pipeline's
//   subject          with a consumer that is made: what of the stream it gives; everything
//   create_consumer  true: make it when it is missing
//   start            "earliest" | "latest", ack_wait 30s, max_ack_pending 20000: of a consumer that is made
//   username, password, token, credentials (a file), tls_ca, tls_cert, tls_key (files)
//   connect_timeout 5s, heartbeat 10s
//   and what intake/incoming.hpp and intake/broker_feed.hpp know

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_nats_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
