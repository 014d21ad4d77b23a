#pragma once
// Reads a NATS JetStream stream through a durable pull consumer.
//
// A message is acknowledged after it was settled. Of several acknowledgements the server confirms the last. A
// message that is under way for longer than a third of the consumer's ack_wait is reported as in progress, so
// that nobody else gets it. When the source leaves, it gives back at once what was read and not settled.
// Several readers share a consumer. Messages come in the stream's order, but a message that is delivered
// again comes after later ones.
//
// The id of a message comes from its Nats-Msg-Id, else from its header message-id or event-id or its
// CloudEvents attributes, else from stream, sequence and time.
//
//   url              "nats://localhost:4222", or several with commas; tls:// for TLS
//   stream           the stream's name
//   durable          the consumer's name; default: the pipeline's name
//   subject          for a consumer that is made: which messages it gives; default: all
//   create_consumer  true: make the consumer when it is missing
//   start            "earliest" | "latest", ack_wait 30s, max_ack_pending 20000: of a consumer that is made
//   username, password, token, credentials (a file), tls_ca, tls_cert, tls_key (files)
//   connect_timeout 5s, heartbeat 10s
//   and what intake/incoming.hpp and intake/broker_feed.hpp know

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_nats_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
