#pragma once
// Takes apart the answers of Redis about a stream. An answer of an unexpected form is refused, never trusted.

#include <hiredis/hiredis.h>

#include <functional>
#include <string>

#include "intake/incoming.hpp"

namespace baton::brokers {

// The entries in an answer to XREADGROUP of one stream; null when there are none. Throws ConnectionError.
const redisReply* entries_of_read(const redisReply& answer);
// The entries in an answer to XAUTOCLAIM, and where to go on. Throws ConnectionError.
const redisReply& entries_of_claim(const redisReply& answer, std::string& cursor);
// The id of the last entry; empty when there is none.
std::string last_id(const redisReply& entries);

// Call one of these functions for each entry: the first when its fields are there, the second when the entry
// was deleted and only its place is left.
void for_each_entry(const redisReply& entries,
                    const std::function<void(std::string id, const redisReply& fields)>& take,
                    const std::function<void(std::string id)>& forget);

// Append an entry to the batch as an event. The fields must live as long as the batch.
void decode_entry(const std::string& id, const redisReply& fields, const std::string& stream,
                  const std::string& body_field, const intake::Decoder& decoder, intake::BrokerBatch& batch);

}  // namespace baton::brokers
