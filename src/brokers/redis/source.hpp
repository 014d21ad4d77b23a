#pragma once
// Reads a Redis stream as a consumer of a group (Redis 6.2 or later).
//
// An entry is acknowledged (XACK) after it was settled. First the source reads entries that an earlier reader
// of the same name had read and not acknowledged. It claims entries of other readers once they have been idle
// for claim_idle. While an entry is under way, the source keeps other readers from claiming it. Several
// readers share a stream. The order of a key holds as long as one of them reads.
//
// baton's redis sink writes entries with message_id, key, content_type, body and header:NAME. In entries of
// other programs body_field is the body and the other fields are headers. An entry without a body becomes a
// JSON object of its fields. The id of a message comes from message_id, else from stream and entry id.
//
//   url         "redis://user:password@host:6379/0", rediss:// for TLS
//   stream      the stream's key
//   group       the consumer group, which is made when it is missing; default: the pipeline's name
//   consumer    this reader's name; default: the host's name. Readers at the same time need different names
//   start       "earliest" | "latest": where a new group begins
//   body_field  "body"
//   claim_idle  60s
//   connect_timeout 5s, response_timeout 15s, tls_*
//   and what intake/incoming.hpp and intake/broker_feed.hpp know

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_redis_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
