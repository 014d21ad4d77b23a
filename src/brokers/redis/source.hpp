#pragma once
// Reads a Redis stream as a consumer of a group (Redis 6.2 or later).
//
// XACK follows settling. What an earlier reader of the same name had read and not acknowledged is read first;
// what readers that are gone left behind is claimed once it has been idle for claim_idle. Entries that are
// under way are kept from others in the meantime. Several readers share a stream; the order of a key holds as
// long as one reads.
//
// An entry is what baton's redis sink writes: message_id, key, content_type, body and header:NAME. In one of
// somebody else's, body_field is the body and the other fields are headers; an entry without a body is a JSON
// object of its fields. It is known by its message_id, else by stream and entry id.
//
//   url         "redis://user:password@host:6379/0", rediss:// for TLS
//   stream      its key
//   group       the consumer group, made when it is missing; the pipeline's name
//   consumer    this reader's name; the host's. Readers at the same time need different names
//   start       "earliest" | "latest": where a new group begins
//   body_field  "body"
//   claim_idle  60s
//   connect_timeout 5s, response_timeout 15s, tls_*
//   and what intake/incoming.hpp and intake/broker_feed.hpp know

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_redis_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
