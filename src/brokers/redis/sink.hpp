#pragma once
// Appends to Redis Streams: destination = stream, one entry per message.
//
// Fields of an entry: message_id, key and content_type where there are any, each header as "header:NAME",
// then body.
//
// Messages go as transactions of pipelined XADDs, one transaction at a time. A server that is out of memory,
// read-only, loading or gone takes a transaction whole or not at all. When a transaction is not taken,
// everything in the sink comes back as `retry`. So many messages of one key may be in flight, and none
// overtakes another. A stream that is a key of another type, or for which we have no permission, is shut. A
// message that Redis refuses for good is rejected alone. The sink leaves a server that has become a replica
// or is loading: the next try goes to the server that answers under this name then.
//
// How durable an acknowledgement is depends on the configuration of Redis (appendfsync). `wait_replicas` also
// waits for replicas.
//
// Settings: url (redis://user:password@host:port/database, rediss:// for TLS), stream (its template), maxlen,
// maxlen_exact, wait_replicas, wait_timeout, transaction_size, max_message_bytes, connect_timeout,
// response_timeout, tls_*. A refused login is tried again: an operator will mend the password, and no event
// may be a dead letter by then.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_redis_sink(const relay::Settings& settings);

}  // namespace baton::brokers
