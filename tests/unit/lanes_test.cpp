#include <gtest/gtest.h>

#include <random>
#include <set>

#include "relay/lanes.hpp"

using namespace baton::relay;
using namespace std::chrono_literals;

namespace {

std::vector<std::uint32_t> slots(Line line) {
    std::vector<std::uint32_t> all;
    for (; !line.empty(); line.pop_front()) all.push_back(line.front().slot);
    return all;
}

class Waiting : public testing::Test {
  protected:
    void wait(const std::string& name, std::uint32_t slot) {
        lanes.make(name).waiting.push_back({1, slot});
        lanes.offer(name, now);
    }
    // Take one event as the dispatcher does; the name of its lane, or nothing.
    std::string send_one() {
        std::string name;
        while (lanes.ready() > 0) {
            Lane* lane = lanes.take_ready(name);
            if (lane == nullptr || lane->waiting.empty() || !lanes.can_send(*lane)) continue;
            lane->waiting.pop_front();
            ++lane->flying;
            lanes.offer(name, now);
            return name;
        }
        return {};
    }
    void comes_back(const std::string& name) {
        --lanes.find(name)->flying;
        lanes.offer(name, now);
    }

    Time now{1000s};
    Lanes lanes{true};
};

}  // namespace

TEST(Line, keeps_its_order_whatever_goes_in_and_out) {
    std::mt19937 random(7);
    for (int round = 0; round < 50; ++round) {
        Line line;
        std::set<std::uint32_t> expected;
        for (int step = 0; step < 500; ++step) {
            const auto slot = static_cast<std::uint32_t>(random() % 10'000);
            switch (random() % 4) {
                case 0:
                case 1:
                    if (expected.insert(slot).second) line.insert({1, slot});
                    break;
                case 2:
                    if (expected.empty()) break;
                    ASSERT_EQ(line.front().slot, *expected.begin());
                    line.pop_front();
                    expected.erase(expected.begin());
                    break;
                default:
                    if (random() % 50 != 0) break;
                    const auto cut = line.cut_behind({1, slot});
                    const auto from = expected.upper_bound(slot);
                    ASSERT_EQ(cut.size(), static_cast<std::size_t>(std::distance(from, expected.end())));
                    expected.erase(from, expected.end());
            }
            ASSERT_EQ(line.empty(), expected.empty());
        }
        ASSERT_EQ(slots(line), std::vector<std::uint32_t>(expected.begin(), expected.end()));
    }
}

TEST_F(Waiting, one_of_a_key_flies_at_a_time_and_the_next_follows) {
    wait("a", 1);
    wait("a", 2);
    EXPECT_EQ(send_one(), "a");
    EXPECT_EQ(send_one(), "");
    comes_back("a");
    EXPECT_EQ(send_one(), "a");
    comes_back("a");
    EXPECT_EQ(lanes.find("a"), nullptr) << "an empty lane is no lane";
}

TEST_F(Waiting, keys_take_turns) {
    for (std::uint32_t i = 1; i <= 4; ++i) wait(i % 2 == 0 ? "a" : "b", i);
    EXPECT_EQ(send_one(), "b");
    EXPECT_EQ(send_one(), "a");
    EXPECT_EQ(send_one(), "");
    comes_back("a");
    comes_back("b");
    EXPECT_EQ(send_one(), "a");
    EXPECT_EQ(send_one(), "b");
}

TEST_F(Waiting, a_lane_that_pauses_is_ready_when_its_time_has_come) {
    lanes.make("a").not_before = now + 5s;
    wait("a", 1);
    EXPECT_EQ(lanes.ready(), 0U);
    EXPECT_EQ(lanes.next_timer(), now + 5s);
    now += 4s;
    lanes.wake(now);
    EXPECT_EQ(lanes.ready(), 0U);
    now += 1s;
    lanes.wake(now);
    EXPECT_EQ(send_one(), "a");
}

TEST_F(Waiting, those_that_waited_for_the_sink_go_when_it_is_back_and_others_wait_on) {
    for (const auto* name : {"sink", "own"}) {
        lanes.make(name).not_before = now + 1h;
        wait(name, 1);
    }
    lanes.find("sink")->when_back = now;
    lanes.welcome_back(now);
    EXPECT_EQ(send_one(), "sink");
    EXPECT_EQ(send_one(), "");
}

TEST_F(Waiting, where_several_fly_a_failed_lane_begins_again_when_all_are_back) {
    Lanes many(false);
    Lane& lane = many.make("a");
    lane.flying = 3;
    lane.failed = true;
    lane.waiting.push_back({1, 4});
    for (int back = 0; back < 2; ++back) {
        --lane.flying;
        many.offer("a", now);
        EXPECT_EQ(many.ready(), 0U);
    }
    --lane.flying;
    many.offer("a", now);
    EXPECT_EQ(many.ready(), 1U);
}

TEST_F(Waiting, what_is_ready_before_an_event_is_known) {
    wait("a", 5);
    EXPECT_TRUE(lanes.ready_before({1, 6}));
    EXPECT_TRUE(lanes.ready_before({2, 0}));
    EXPECT_FALSE(lanes.ready_before({1, 5}));
    lanes.make("b").not_before = now + 1s;
    wait("b", 1);
    EXPECT_FALSE(lanes.ready_before({1, 5})) << "that one pauses";
}
