#pragma once
// Appends to Redis Streams: destination = stream, one entry per message.
//
// Fields of an entry: message_id, key and content_type where there are any, each header as "header:NAME",
// then body.
//
// Messages go as transactions of pipelined XADDs, one transaction under way at a time. Redis takes a
// transaction whole or not at all when it is out of memory, read-only, loading or gone, and whenever one is
// not taken, everything the sink holds comes back as `retry`: so many messages of one key may be in flight
// and none overtakes another. A stream that is a key of another type, or that we have no permission for, is
// shut; what Redis refuses for good is rejected alone. A server that has become a replica, or is loading, is
// left: the next try goes to whoever answers under its name then.
//
// Redis acknowledges as durably as it is configured (appendfsync); `wait_replicas` also waits for replicas.
//
// Settings: url (redis://user:password@host:port/database, rediss:// for TLS), stream (its template), maxlen,
// maxlen_exact, wait_replicas, wait_timeout, transaction_size, max_message_bytes, connect_timeout,
// response_timeout, tls_*. A login that is refused is retried: passwords are mended by operators, and the
// backlog must not be dead by then.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_redis_sink(const relay::Settings& settings);

}  // namespace baton::brokers
