// The table in brokers/kafka/openings.hpp.

#include <gtest/gtest.h>

#include "brokers/kafka/openings.hpp"

using namespace baton;
using namespace baton::brokers;
using Turn = KafkaOpenings::Turn;
using namespace std::chrono_literals;

namespace {

Message message(std::uint64_t ticket, const char* key, const char* topic = "t") {
    Message made;
    made.ticket = ticket;
    made.destination = topic;
    made.key = key;
    return made;
}

std::vector<std::uint64_t> tickets(const std::vector<Message>& messages) {
    std::vector<std::uint64_t> all;
    for (const auto& message : messages) all.push_back(message.ticket);
    return all;
}

using Tickets = std::vector<std::uint64_t>;

}  // namespace

TEST(KafkaOpenings, those_behind_the_first_of_a_key_wait_for_it_and_then_go_in_order) {
    KafkaOpenings openings;
    EXPECT_EQ(openings.enter(message(1, "a")), Turn::opens);
    EXPECT_EQ(openings.enter(message(2, "a")), Turn::waits);
    EXPECT_EQ(openings.enter(message(3, "b")), Turn::opens);
    EXPECT_EQ(openings.enter(message(4, "a")), Turn::waits);
    EXPECT_EQ(tickets(openings.end(1, true)), (Tickets{2, 4}));
    EXPECT_EQ(openings.enter(message(5, "a")), Turn::goes);
    EXPECT_EQ(openings.enter(message(6, "b")), Turn::waits);
}

TEST(KafkaOpenings, when_the_first_comes_back_so_do_those_behind_and_the_next_opens_again) {
    KafkaOpenings openings;
    openings.enter(message(1, "a"));
    openings.enter(message(2, "a"));
    EXPECT_EQ(tickets(openings.end(1, false)), Tickets{2});
    EXPECT_EQ(openings.enter(message(1, "a")), Turn::opens);
    EXPECT_EQ(openings.enter(message(2, "a")), Turn::waits);
}

TEST(KafkaOpenings, a_key_is_known_in_its_topic_only_and_for_a_while_only) {
    KafkaOpenings openings;
    const auto now = KafkaOpenings::Clock::now();
    openings.enter(message(1, "a"), now);
    openings.end(1, true, now);
    EXPECT_EQ(openings.enter(message(2, "a", "other"), now), Turn::opens);
    EXPECT_EQ(openings.enter(message(3, "a"), now + 59min), Turn::goes);
    EXPECT_EQ(openings.enter(message(4, "a"), now + 61min), Turn::opens);
}

TEST(KafkaOpenings, a_new_producer_is_known_nowhere) {
    KafkaOpenings openings;
    openings.enter(message(1, "a"));
    openings.end(1, true);
    openings.forget_all();
    EXPECT_EQ(openings.enter(message(2, "a")), Turn::opens);
}

TEST(KafkaOpenings, messages_that_opened_nothing_hold_nothing_up) {
    KafkaOpenings openings;
    openings.enter(message(1, "a"));
    openings.enter(message(2, "a"));
    EXPECT_TRUE(openings.end(2, true).empty());
    EXPECT_TRUE(openings.end(77, false).empty());
}
