#include "conformance/deliveries.hpp"

#include <gtest/gtest.h>

#include "support/cluster.hpp"

namespace baton::test {

std::vector<Message> numbered(std::size_t count, const std::string& destination, std::string_view body) {
    std::vector<Message> made(count);
    for (std::size_t i = 0; i < count; ++i) {
        made[i].ticket = i + 1;
        made[i].message_id = "m" + std::to_string(i);
        made[i].destination = destination;
        made[i].key = "k";
        made[i].body = body;
    }
    return made;
}

std::vector<relay::Delivery> reports_of(relay::Sink& sink, const std::vector<Message>& messages) {
    std::vector<relay::Delivery> deliveries;
    sink.send(messages);
    wait_until("every message is reported", [&] {
        sink.collect(deliveries, std::chrono::milliseconds(50));
        return deliveries.size() >= messages.size();
    });
    EXPECT_EQ(deliveries.size(), messages.size());
    return deliveries;
}

std::map<std::uint64_t, relay::Delivery> deliver(relay::Sink& sink, const std::vector<Message>& messages) {
    std::map<std::uint64_t, relay::Delivery> fates;
    for (auto& delivery : reports_of(sink, messages)) fates.emplace(delivery.ticket, std::move(delivery));
    EXPECT_EQ(fates.size(), messages.size());
    return fates;
}

void expect_delivered(relay::Sink& sink, const std::vector<Message>& messages) {
    for (const auto& [ticket, delivery] : deliver(sink, messages))
        EXPECT_EQ(delivery.verdict, relay::Verdict::delivered) << ticket << " " << delivery.error;
}

}  // namespace baton::test
