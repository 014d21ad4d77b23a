#pragma once
// Gives messages to a baton inbox, on this server or another: destination = inbox.
//
// Batches go through baton.receive_many(), which recognises copies: a message arrives once, however often it
// is sent. Delivered means committed, and flushed even where the server's synchronous_commit is off. One
// batch is under way at a time. When a batch fails for a passing reason, everything in the sink comes back as
// `retry`, so many messages of one key may be in flight. When the server refuses a batch for its content, the
// messages go one by one, and only the message at fault is rejected. An inbox that is missing, or into which
// we may not write, is shut.
//
// A body of JSON goes into the column payload, any other body into payload_raw.
//
// A message from a broker is never rejected. Malformed messages, and messages that the server refuses for
// their content, become dead letters with their bytes. For any other reason, a missing inbox for example,
// messages wait.
//
//   url      connection string or URL of the database
//   inbox    see relay/transform.hpp
//   source   the source of messages as the inbox notes it; default: "baton", or a broker and its topic
//   sequence_header, priority_header
//            headers whose whole number is the inbox's sequence_num and priority
//   timeout  of one batch; 30s

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_postgres_sink(const relay::Settings& settings);

}  // namespace baton::brokers
