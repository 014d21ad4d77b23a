#pragma once
// Straight on a sink's interface: messages by number, and what became of each.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "relay/io.hpp"

namespace baton::test {

// Messages of one key, with ids from m0 and tickets from 1. `body` must outlive them.
std::vector<Message> numbered(std::size_t count, const std::string& destination,
                              std::string_view body = "{}");
// Send and wait until every message is reported, once; in the order of the reports.
std::vector<relay::Delivery> reports_of(relay::Sink& sink, const std::vector<Message>& messages);
// The same, by ticket.
std::map<std::uint64_t, relay::Delivery> deliver(relay::Sink& sink, const std::vector<Message>& messages);
void expect_delivered(relay::Sink& sink, const std::vector<Message>& messages);

}  // namespace baton::test
