// A day in memory.

#include "server/history.hpp"

#include <gtest/gtest.h>

#include "server/watch.hpp"

using namespace baton;
using namespace baton::server;

namespace {

constexpr long long noon = 1'700'000'400;  // begins a minute

Sample with_published(double rate) {
    Sample sample;
    sample.whole[0] = rate;
    return sample;
}

}  // namespace

TEST(History, values_of_one_step_become_their_mean) {
    History history;
    history.add(noon, with_published(2));
    history.add(noon + 5, with_published(4));
    history.add(noon + 10, with_published(7));
    const auto read = history.read(noon, 10);
    EXPECT_EQ(read["times"], nlohmann::json({noon, noon + 10}));
    EXPECT_EQ(read["series"]["published"], nlohmann::json({3.0, 7.0}));
    EXPECT_EQ(read["series"]["delivered"], nlohmann::json({nullptr, nullptr}));
}

TEST(History, of_lags_and_latencies_the_highest_stays) {
    History history;
    Sample sample;
    sample.whole[3] = 10;
    history.add(noon, sample);
    sample.whole[3] = 2;
    history.add(noon + 1, sample);
    EXPECT_EQ(history.read(noon, 10)["series"]["lag_events"], nlohmann::json({10.0}));
}

TEST(History, a_time_of_which_nobody_told_is_unknown) {
    History history;
    history.add(noon, with_published(1));
    history.add(noon + 30, with_published(2));
    EXPECT_EQ(history.read(noon, 10)["series"]["published"], nlohmann::json({1.0, nullptr, nullptr, 2.0}));
}

TEST(History, the_last_hour_is_fine_and_the_day_is_coarse_and_both_end) {
    History history;
    const long long two_days = 2 * 86400;
    for (long long at = 0; at < two_days; at += 10) history.add(noon + at, with_published(1));
    const long long now = noon + two_days - 10;
    EXPECT_EQ(history.read(now - 3500, 0)["step"], 10);
    EXPECT_EQ(history.read(now - 7200, 0)["step"], 60);
    EXPECT_EQ(history.read(0, 10)["times"].size(), 360U);
    const auto day = history.read(0, 0);
    EXPECT_EQ(day["times"].size(), 1440U);
    EXPECT_EQ(day["series"]["published"].size(), 1440U);
    EXPECT_EQ(day["series"]["published"][0], 1.0);
    EXPECT_EQ(history.read(0, 3600)["times"].size(), 24U);
}

TEST(History, after_a_long_silence_nothing_old_is_shown_as_new) {
    History history;
    history.add(noon, with_published(1));
    history.add(noon + 86400 * 3, with_published(2));
    const auto read = history.read(0, 60);
    EXPECT_EQ(read["series"]["published"].back(), 2.0);
    EXPECT_EQ(std::count(read["series"]["published"].begin(), read["series"]["published"].end(), 1.0), 0);
}

TEST(History, the_busiest_names_stay) {
    History history;
    Sample sample;
    for (int i = 0; i < 200; ++i)
        sample.pipelines["p" + std::to_string(i)] = {double(i), 0, unknown, unknown};
    for (int i = 0; i < 200; ++i) sample.groups["g" + std::to_string(i)] = i;
    history.add(noon, sample);
    const auto read = history.read(noon, 10);
    EXPECT_EQ(read["pipelines"].size(), History::most_names);
    EXPECT_EQ(read["groups"].size(), History::most_names);
    EXPECT_TRUE(read["pipelines"].contains("p199"));
    EXPECT_FALSE(read["pipelines"].contains("p0"));
}

TEST(History, an_empty_one_has_every_series) {
    const auto read = History().read(0, 0);
    EXPECT_TRUE(read["times"].empty());
    for (const auto& series : whole_series) EXPECT_TRUE(read["series"][series.name].empty()) << series.name;
}

TEST(Rates, of_a_relay_come_from_its_counters) {
    Rates rates;
    relay::PipelineStatus status;
    status.name = "out";
    rates.sample(100, Rates::Database{50, 0, {}}, std::vector{status});
    status.counts.delivered = 40;
    status.counts.dead = 5;
    for (int i = 0; i < 100; ++i) status.counts.latency.add(0.007);
    const auto sample = rates.sample(110, Rates::Database{70, 3, {{"g", {4, 1.5, 70}}}}, std::vector{status});
    EXPECT_DOUBLE_EQ(sample.whole[0], 2);    // published
    EXPECT_DOUBLE_EQ(sample.whole[1], 4);    // delivered
    EXPECT_DOUBLE_EQ(sample.whole[2], 0.5);  // failed
    EXPECT_DOUBLE_EQ(sample.whole[3], 4);
    EXPECT_DOUBLE_EQ(sample.whole[4], 1.5);
    EXPECT_DOUBLE_EQ(sample.whole[5], 3);
    EXPECT_GT(sample.whole[6], 5);
    EXPECT_LE(sample.whole[7], 10);
    EXPECT_DOUBLE_EQ(sample.pipelines.at("out")[0], 4);
}

TEST(Rates, without_a_relay_come_from_what_the_groups_have_settled) {
    Rates rates;
    rates.sample(0, Rates::Database{100, 0, {{"g", {30, 0, 100}}}}, std::nullopt);
    const auto sample = rates.sample(10, Rates::Database{150, 0, {{"g", {10, 0, 150}}}}, std::nullopt);
    EXPECT_DOUBLE_EQ(sample.whole[0], 5);
    EXPECT_DOUBLE_EQ(sample.whole[1], 7);
}

TEST(Rates, a_counter_that_was_set_back_makes_no_rate) {
    Rates rates;
    rates.sample(0, Rates::Database{100, 0, {}}, std::nullopt);
    EXPECT_TRUE(std::isnan(rates.sample(10, Rates::Database{5, 0, {}}, std::nullopt).whole[0]));
}
