#include <gtest/gtest.h>

#include <random>

#include "relay/breaker.hpp"

using namespace baton::relay;
using namespace std::chrono_literals;

namespace {

class Breaking : public testing::Test {
  protected:
    void fail(int times) {
        for (int i = 0; i < times; ++i) {
            breaker.sent();
            breaker.failed(now, random);
        }
    }

    std::mt19937_64 random{1};
    Time now{1000s};
    Breaker breaker{3, {1s, 8s}};
};

}  // namespace

TEST_F(Breaking, fewer_failures_than_the_threshold_stop_nothing) {
    fail(2);
    EXPECT_FALSE(breaker.open());
    EXPECT_TRUE(breaker.allows(now, 100));
}

TEST_F(Breaking, failures_count_only_in_a_row) {
    fail(2);
    breaker.delivered();
    fail(2);
    EXPECT_FALSE(breaker.open());
}

TEST_F(Breaking, an_open_circuit_lets_one_probe_through_after_its_pause) {
    fail(3);
    ASSERT_TRUE(breaker.open());
    EXPECT_FALSE(breaker.allows(now, 0));
    now = *breaker.until();
    EXPECT_FALSE(breaker.allows(now, 1)) << "something of before is still in flight";
    EXPECT_TRUE(breaker.allows(now, 0));
    breaker.sent();
    EXPECT_FALSE(breaker.allows(now, 0)) << "the probe is under way";
}

TEST_F(Breaking, what_fails_late_does_not_lengthen_the_pause) {
    fail(3);
    const auto until = breaker.until();
    now += 500ms;
    breaker.failed(now, random);
    EXPECT_EQ(breaker.until(), until);
}

TEST_F(Breaking, each_failed_probe_makes_the_next_pause_longer_up_to_a_limit) {
    fail(3);
    auto longest = *breaker.until() - now;
    EXPECT_LE(longest, 1s);
    for (int i = 0; i < 20; ++i) {
        now = *breaker.until();
        fail(1);
        const auto pause = *breaker.until() - now;
        EXPECT_LE(pause, 8s);
        longest = std::max(longest, pause);
    }
    EXPECT_GT(longest, 4s);
    EXPECT_EQ(breaker.pauses(), 21U);
}

TEST_F(Breaking, a_delivery_closes_it_and_tells_once_that_the_sink_was_down) {
    fail(3);
    EXPECT_TRUE(breaker.delivered());
    EXPECT_FALSE(breaker.open());
    EXPECT_EQ(breaker.pauses(), 0U);
    EXPECT_FALSE(breaker.delivered());
}

TEST_F(Breaking, a_probe_that_is_rejected_shows_that_the_sink_is_up) {
    fail(3);
    breaker.rejected();
    EXPECT_TRUE(breaker.open()) << "that was no probe: it says nothing about the sink now";
    now = *breaker.until();
    breaker.sent();
    breaker.rejected();
    EXPECT_FALSE(breaker.open());
}

TEST(Rate, without_a_limit_everything_goes) {
    RateLimit rate(0);
    for (int i = 0; i < 1000; ++i) {
        EXPECT_TRUE(rate.allows(Time{}));
        rate.sent();
    }
}

TEST(Rate, as_many_go_as_the_limit_says_and_no_more_than_a_tenth_of_a_second_is_saved) {
    RateLimit rate(100);
    Time now{1000s};
    int sent = 0;
    const auto take_all = [&] {
        while (rate.allows(now)) {
            rate.sent();
            ++sent;
        }
    };
    now += 1h;
    take_all();
    EXPECT_EQ(sent, 10);
    for (int i = 0; i < 1000; ++i) {
        now += 1ms;
        take_all();
    }
    EXPECT_NEAR(sent, 110, 1);
    EXPECT_GT(rate.next(), now);
}

TEST(Rate, less_than_one_in_a_second_goes_too) {
    RateLimit rate(0.5);
    Time now{1000s};
    int sent = 0;
    for (int i = 0; i < 100; ++i, now += 100ms)
        if (rate.allows(now)) {
            rate.sent();
            ++sent;
        }
    EXPECT_NEAR(sent, 5, 1);
}
