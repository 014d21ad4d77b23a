#pragma once
// Ids of messages: which of them are unique by themselves, and ids for messages that bring none.

#include <string>
#include <string_view>

#include "intake/incoming.hpp"

namespace baton::intake {

// An index takes no longer ones.
constexpr std::size_t longest_id = 512;

// True for UUIDs and ULIDs, which nobody else makes a second time.
bool is_unique_by_itself(std::string_view id);

bool is_uuid(std::string_view id);

// Make a UUID of a digest (version 8: of one's own making).
std::string uuid_of(std::string_view id);

// Digest a message that has neither id nor place. What brokers add when they deliver again stays out.
std::string digest_of(const Incoming& message);

}  // namespace baton::intake
