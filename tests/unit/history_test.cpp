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

// Pipeline "out" of a relay: since when it counts, when it said so, and how many events it has delivered.
NotedPipeline noted(const char* relay, double began, double noted_at, double delivered = 0) {
    NotedPipeline one;
    one.relay = relay;
    one.pipeline = "out";
    one.state = "running";
    one.delivered = delivered;
    one.began = began;
    one.noted_at = noted_at;
    return one;
}

Rates::Database at(double now, std::vector<NotedPipeline> pipelines) {
    return {.published = 0, .dead_letters = 0, .groups = {}, .noted = std::move(pipelines), .now = now};
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
    NotedPipeline out = noted("here", 0, 0);
    out.group = "g";
    rates.sample(100, Rates::Database{50, 0, {}}, Rates::Inside{"here", {out}});
    out.delivered = 40;
    out.failed = 5;
    out.latency[3] = 100;  // from 5 to 10 ms
    const auto sample =
        rates.sample(110, Rates::Database{70, 3, {{"g", {4, 1.5, 70}}}}, Rates::Inside{"here", {out}});
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

TEST(Rates, of_several_relays_are_summed_from_their_notes) {
    Rates rates;
    rates.sample(0, at(1000, {noted("one", 900, 1000), noted("two", 900, 998)}), std::nullopt);
    auto one = noted("one", 900, 1010, 50);
    auto two = noted("two", 900, 1003, 30);
    one.latency[3] = 50;
    two.latency[5] = 950;  // from 10 to 25 ms, in half the time
    two.failed = 5;
    const auto sample = rates.sample(10, at(1010, {one, two}), std::nullopt);
    EXPECT_DOUBLE_EQ(sample.whole[1], 50 / 10. + 30 / 5.);
    EXPECT_DOUBLE_EQ(sample.whole[2], 1);
    EXPECT_GT(sample.whole[6], 10);
    EXPECT_LE(sample.whole[6], 50);
    EXPECT_DOUBLE_EQ(sample.pipelines.at("out")[0], 11);
    EXPECT_DOUBLE_EQ(rates.flows().at({"two", "out"}).delivered, 6);
}

TEST(Rates, hold_from_one_note_to_the_next) {
    Rates rates;
    rates.sample(0, at(1000, {noted("one", 900, 1000)}), std::nullopt);
    rates.sample(6, at(1006, {noted("one", 900, 1005, 20)}), std::nullopt);
    EXPECT_DOUBLE_EQ(rates.sample(8, at(1008, {noted("one", 900, 1005, 20)}), std::nullopt).whole[1], 4);
    EXPECT_DOUBLE_EQ(rates.sample(11, at(1011, {noted("one", 900, 1010, 20)}), std::nullopt).whole[1], 0);
}

TEST(Rates, of_a_relay_that_notes_nothing_more_are_none) {
    Rates rates;
    rates.sample(0, at(1000, {noted("one", 900, 1000), noted("two", 900, 1000)}), std::nullopt);
    rates.sample(10, at(1010, {noted("one", 900, 1010, 20), noted("two", 900, 1010, 70)}), std::nullopt);
    const auto one_left = rates.sample(20, at(1020, {noted("one", 900, 1020, 40)}), std::nullopt);
    EXPECT_DOUBLE_EQ(one_left.whole[1], 2);
    EXPECT_TRUE(std::isnan(rates.sample(30, at(1030, {}), std::nullopt).whole[2]));
    // One that was frozen goes on, and what it did meanwhile is spread over the time.
    const auto back = rates.sample(60, at(1060, {noted("two", 900, 1060, 120)}), std::nullopt);
    EXPECT_DOUBLE_EQ(back.whole[1], 1);
}

TEST(Rates, of_a_relay_that_begins_count_from_its_beginning_and_of_an_old_one_from_the_first_look) {
    Rates rates;
    rates.sample(0, at(1000, {noted("old", 1, 999, 5'000'000)}), std::nullopt);
    const auto later = at(1010, {noted("old", 1, 1009, 5'000'100), noted("new", 1003, 1008, 100),
                                 noted("unknown", 1, 1009, 7'000'000)});
    const auto sample = rates.sample(10, later, std::nullopt);
    EXPECT_DOUBLE_EQ(sample.whole[1], 10 + 10);
}

TEST(Rates, of_a_pipeline_that_was_made_anew_count_from_its_beginning) {
    Rates rates;
    rates.sample(0, at(1000, {noted("one", 900, 1000, 500)}), std::nullopt);
    const auto sample = rates.sample(10, at(1010, {noted("one", 1000, 1010, 30)}), std::nullopt);
    EXPECT_DOUBLE_EQ(sample.whole[1], 3);
}

TEST(Rates, of_the_relay_inside_do_not_come_from_its_notes_as_well) {
    Rates rates;
    const auto inside = [](double delivered) {
        return Rates::Inside{"here", {noted("here", 900, 0, delivered)}};
    };
    rates.sample(0, at(1000, {noted("here", 900, 1000), noted("there", 900, 1000)}), inside(0));
    const auto sample =
        rates.sample(10, at(1010, {noted("here", 900, 1010, 40), noted("there", 900, 1010, 10)}), inside(40));
    EXPECT_DOUBLE_EQ(sample.whole[1], 5);
}

TEST(Rates, of_groups_that_no_relay_reads_come_on_top) {
    Rates rates;
    auto read = noted("one", 900, 1000);
    read.group = "relayed";
    auto before = at(1000, {read});
    before.groups = {{"relayed", {100, 0, 100}}, {"polled", {100, 0, 100}}};
    rates.sample(0, before, std::nullopt);
    EXPECT_TRUE(std::isnan(rates.sample(1, before, std::nullopt).whole[1])) << "a part is not the whole";
    read.noted_at = 1010;
    read.delivered = 50;
    auto after = at(1010, {read});
    after.groups = {{"relayed", {50, 0, 100}}, {"polled", {70, 0, 100}}};
    EXPECT_DOUBLE_EQ(rates.sample(11, after, std::nullopt).whole[1], 5 + 3);
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
