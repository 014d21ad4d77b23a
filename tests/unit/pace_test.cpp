#include "tables/pace.hpp"

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using baton::tables::Pace;
using Time = Pace::Clock::time_point;

// Looks every `interval`, so often that the reader knows its own pace.
Time look_every(Pace& pace, std::chrono::microseconds interval) {
    Time now{1h};
    for (int i = 0; i < 100; ++i) pace.looked(now += interval);
    return now;
}

TEST(Pace, who_is_woken_for_the_first_time_looks_at_once) {
    const Pace pace;
    EXPECT_EQ(pace.next_look(Time{1h}), Time{1h});
}

TEST(Pace, who_is_woken_now_and_then_looks_at_once) {
    Pace pace;
    const Time last = look_every(pace, 10ms);
    EXPECT_EQ(pace.next_look(last + 1ms), last + 1ms);
}

TEST(Pace, who_is_woken_again_and_again_gathers_what_comes) {
    Pace pace;
    const Time last = look_every(pace, 2ms);
    EXPECT_EQ(pace.next_look(last + 1ms), last + Pace::least);
}

TEST(Pace, a_wait_is_counted_from_the_last_look) {
    Pace pace;
    const Time last = look_every(pace, 4ms);
    EXPECT_EQ(pace.next_look(last + 10ms), last + 10ms);
}

TEST(Pace, a_busy_reader_stays_busy_at_the_pace_that_it_keeps) {
    Pace pace;
    look_every(pace, 2ms);
    const Time last = look_every(pace, Pace::least);
    EXPECT_EQ(pace.next_look(last + 1ms), last + Pace::least);
}

TEST(Pace, a_pause_ends_the_haste) {
    Pace pace;
    const Time last = look_every(pace, 2ms) + 1h;
    pace.looked(last);
    EXPECT_EQ(pace.next_look(last + 1ms), last + 1ms);
}

}  // namespace
