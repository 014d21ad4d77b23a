#pragma once
// Ids of messages: ids that are unique by themselves, and ids for messages that bring none.

#include <string>
#include <string_view>

#include "intake/incoming.hpp"

namespace baton::intake {

// An index takes no longer ids.
constexpr std::size_t longest_id = 512;

// True for UUIDs and ULIDs: nobody makes the same one twice.
bool is_unique_by_itself(std::string_view id);

bool is_uuid(std::string_view id);

// Make a UUID of a digest of the id (version 8: a form of our own).
std::string uuid_of(std::string_view id);

// Digest a message that has neither id nor place. Headers that brokers add when they deliver again do not
// count.
std::string digest_of(const Incoming& message);

}  // namespace baton::intake
