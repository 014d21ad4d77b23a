#pragma once
// Hands messages over to a baton inbox, on this server or another: destination = inbox.
//
// Batches go through baton.receive_many(), which knows a message that it has had, so that however often one
// is sent, it arrives once. Delivered means committed, and flushed even where the server's synchronous_commit
// is off. One batch is under way at a time; when one fails for a passing reason, everything the sink holds
// comes back as `retry`, so many messages of one key may be in flight. A batch that the server refuses for
// its content is sent again one by one, and only the message at fault is rejected. An inbox that is missing
// or not ours to write to is shut.
//
// A body of JSON becomes the inbox's payload, any other its payload_raw.
//
// What comes from a broker is never rejected: malformed messages, and those that the server refuses for their
// content, become dead letters with their bytes; when the inbox is missing, say, everything waits until it is
// there.
//
//   url      connection string or URL of the database
//   inbox    see relay/transform.hpp
//   source   what the inbox is told as the source of its messages; "baton", or a broker and its topic
//   sequence_header, priority_header
//            headers whose whole number is the inbox's sequence_num and priority
//   timeout  of one batch; 30s

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_postgres_sink(const relay::Settings& settings);

}  // namespace baton::brokers
