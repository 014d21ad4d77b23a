// The auditor's judge: every kind of harm done to a good run is found, and a good run is found good.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "audit/judge.hpp"
#include "baton/error.hpp"
#include "brokers/registry.hpp"

using namespace baton;
using namespace baton::audit;
using namespace std::chrono_literals;

namespace {

// 3 keys with 20 events each, committed 10 ms apart and seen 5 ms later; two events were rolled back.
class Judging : public testing::Test {
  protected:
    Judging() {
        facts.names = Names("event-");
        facts.keys = {"a", "b", "c"};
        for (std::uint32_t number = 1; number <= 20; ++number)
            for (std::uint32_t key = 0; key < 3; ++key) {
                const auto at = start + 10ms * static_cast<int>(facts.events.size());
                facts.arrived.events.push_back(static_cast<Index>(facts.events.size()));
                facts.events.push_back({key, number, at, Fate::committed});
                facts.seen.push_back(at + 5ms);
            }
        facts.events.push_back({1, 8, never, Fate::rolled_back});
        facts.events.push_back({1, 8, never, Fate::rolled_back});
    }
    void fault(Clock::duration from, Clock::duration upto) {
        facts.faults.push_back({"kill", start + from, start + upto});
    }
    // "b7" is the seventh event of key b.
    static Index event(const std::string& name) {
        return static_cast<Index>((std::stoi(name.substr(1)) - 1) * 3 + (name[0] - 'a'));
    }
    auto place(const std::string& name) {
        return std::find(facts.arrived.events.begin(), facts.arrived.events.end(), event(name));
    }
    // Have events arrive once more, before another one.
    void again(const std::vector<std::string>& names, const std::string& before) {
        std::vector<Index> copies;
        for (const auto& name : names) copies.push_back(event(name));
        facts.arrived.events.insert(place(before), copies.begin(), copies.end());
    }

    static constexpr Index rolled_back = 61;
    Clock::time_point start = Clock::now();
    Facts facts;
};

TEST_F(Judging, a_run_in_which_all_went_well_is_good) {
    const auto found = judge(facts);
    EXPECT_TRUE(found.good());
    EXPECT_EQ(found.committed, 60);
    EXPECT_EQ(found.arrived, 60);
    EXPECT_EQ(found.copies, 0);
    EXPECT_EQ(found.rewinds, 0);
    EXPECT_EQ(found.rolled_back, 2);
    EXPECT_EQ(found.calm.events, 60);
    EXPECT_NEAR(found.calm.p50, 5, 0.001);
    EXPECT_NEAR(found.calm.longest, 5, 0.001);
}

TEST_F(Judging, nothing_committed_proves_nothing) {
    EXPECT_FALSE(judge({}).good());
}

TEST_F(Judging, a_dropped_event_is_lost_and_nothing_else_is_wrong) {
    facts.arrived.events.erase(place("b7"));
    const auto found = judge(facts);
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.lost.count, 1);
    EXPECT_EQ(found.lost.examples.at(0), "event-000000000013 (b #7)");
    EXPECT_EQ(found.out_of_order.count + found.leaps.count, 0);
}

TEST_F(Judging, two_swapped_events_of_a_key_are_out_of_order) {
    std::iter_swap(place("b7"), place("b8"));
    const auto found = judge(facts);
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.out_of_order.count, 1);
    EXPECT_EQ(found.lost.count, 0);
}

TEST_F(Judging, swapped_events_of_two_keys_do_no_harm) {
    std::iter_swap(place("b7"), place("c7"));
    EXPECT_TRUE(judge(facts).good());
}

TEST_F(Judging, a_broker_without_order_is_not_held_to_it) {
    facts.ordered = false;
    std::iter_swap(place("b7"), place("b8"));
    EXPECT_TRUE(judge(facts).good());
}

TEST_F(Judging, a_rolled_back_event_that_arrives_is_a_phantom) {
    facts.arrived.events.insert(facts.arrived.events.begin() + 9, rolled_back);
    const auto found = judge(facts);
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.phantom.count, 1);
    EXPECT_EQ(found.phantom.examples.at(0), facts.names.id(rolled_back));
    EXPECT_EQ(found.unknown.count, 0);
}

TEST_F(Judging, an_event_that_nobody_wrote_is_found) {
    facts.arrived.add(facts.names, "stranger");
    facts.arrived.add(facts.names, facts.names.id(62));  // like ours, but never given
    const auto found = judge(facts);
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.unknown.count, 2);
    EXPECT_EQ(found.arrived, 62);
}

TEST_F(Judging, a_copy_without_a_fault_is_a_finding) {
    again({"b7"}, "b7");
    const auto found = judge(facts);
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.copies, 1);
    EXPECT_EQ(found.unexplained_copies.count, 1);
    EXPECT_NEAR(found.copy_rate(), 1.0 / 61, 1e-9);
}

TEST_F(Judging, a_stretch_delivered_again_after_a_crash_is_explained) {
    fault(300ms, 400ms);
    again({"a9", "b9", "c9", "a10", "b10", "c10"}, "a11");
    const auto found = judge(facts);
    EXPECT_TRUE(found.good());
    EXPECT_EQ(found.copies, 6);
    EXPECT_EQ(found.rewinds, 3);
}

TEST_F(Judging, a_broker_that_deduplicates_has_no_excuse_for_copies) {
    fault(300ms, 400ms);
    facts.deduplicates = true;
    again({"a10"}, "a11");
    EXPECT_EQ(judge(facts).unexplained_copies.count, 1);
}

TEST_F(Judging, a_fault_explains_no_copies_of_what_was_committed_long_after_it) {
    facts.recovery = 50ms;
    fault(100ms, 150ms);
    again({"b15"}, "b15");
    EXPECT_EQ(judge(facts).unexplained_copies.count, 1);
}

TEST_F(Judging, a_fault_explains_no_copies_of_what_was_settled_long_before_it) {
    facts.unsettled = 50ms;
    fault(500ms, 550ms);
    again({"a1"}, "b20");
    EXPECT_EQ(judge(facts).unexplained_copies.count, 1);
}

TEST_F(Judging, a_leap_inside_what_is_delivered_again_is_found_although_first_arrivals_are_in_order) {
    fault(300ms, 400ms);
    again({"a7", "a9", "a10"}, "a11");
    const auto found = judge(facts);
    EXPECT_EQ(found.out_of_order.count, 0);
    EXPECT_EQ(found.leaps.count, 1);
    EXPECT_FALSE(found.good());
}

TEST_F(Judging, two_owners_for_a_moment_may_alternate_as_long_as_nothing_is_overtaken) {
    fault(300ms, 400ms);
    again({"a9", "a10"}, "a12");
    EXPECT_TRUE(judge(facts).good());  // ... a11 a9 a10 a12 ...
}

TEST_F(Judging, a_late_copy_in_the_middle_of_what_is_delivered_again_does_no_harm) {
    fault(300ms, 400ms);
    again({"a7", "a8", "a9", "a8", "a10", "a11"}, "a12");
    EXPECT_TRUE(judge(facts).good());
}

TEST_F(Judging, latency_is_told_apart_for_those_that_no_fault_touched) {
    facts.recovery = 0ms;
    fault(300ms, 320ms);
    facts.seen[event("a11")] = start + 900ms;  // committed at 300 ms
    const auto found = judge(facts);
    EXPECT_NEAR(found.all.longest, 600, 0.001);
    EXPECT_NEAR(found.calm.longest, 5, 0.001);
    EXPECT_EQ(found.all.events, 60);
    EXPECT_LT(found.calm.events, 60);
}

TEST_F(Judging, a_commit_whose_answer_was_lost_counts_as_committed_and_has_no_latency) {
    facts.events[event("b7")].committed = never;
    const auto found = judge(facts);
    EXPECT_TRUE(found.good());
    EXPECT_EQ(found.all.events, 59);
}

TEST_F(Judging, an_event_whose_fate_nobody_knows_is_one_that_nobody_wrote) {
    facts.events[event("b20")].fate = Fate::open;
    const auto found = judge(facts);
    EXPECT_EQ(found.unknown.count, 1);
    EXPECT_EQ(found.committed, 59);
}

// The same through a file, as the auditor reads it back.
class JudgingAFile : public Judging {
  protected:
    JudgingAFile() {
        relay::Settings settings("sink");
        settings.set("type", std::string("file"));
        place_ = brokers::make_audit_place({name, settings, settings, folder});
        for (const Index index : std::exchange(facts.arrived.events, {}))
            lines.push_back(R"({"id":")" + facts.names.id(index) + R"(","headers":{},"body":"x"})");
    }
    ~JudgingAFile() override { std::filesystem::remove(folder / (name + ".jsonl")); }
    Judgement read_back() {
        std::ofstream file(folder / (name + ".jsonl"));
        for (const auto& line : lines) file << line << "\n";
        file.close();
        place_->read_ids([this](std::string_view id) { facts.arrived.add(facts.names, id); });
        return judge(facts);
    }

    std::string name = "baton-judged-" + std::to_string(std::random_device{}());
    std::filesystem::path folder = testing::TempDir();
    std::vector<std::string> lines;

  private:
    std::unique_ptr<brokers::AuditPlace> place_;
};

TEST_F(JudgingAFile, that_holds_every_line_once_is_good) {
    const auto found = read_back();
    EXPECT_TRUE(found.good());
    EXPECT_EQ(found.arrived, 60);
}

TEST_F(JudgingAFile, without_one_line_finds_it_lost) {
    lines.erase(lines.begin() + event("b7"));
    const auto found = read_back();
    EXPECT_EQ(found.lost.count, 1);
    EXPECT_FALSE(found.good());
}

TEST_F(JudgingAFile, with_a_line_too_many_finds_it) {
    lines.push_back(lines[event("c20")]);
    lines.insert(lines.begin(), R"({"id":")" + facts.names.id(rolled_back) + R"("})");
    lines.emplace_back(R"({"id":"0198c0de-0000-7000-8000-000000000000"})");
    const auto found = read_back();
    EXPECT_EQ(found.unexplained_copies.count, 1);
    EXPECT_EQ(found.phantom.count, 1);
    EXPECT_EQ(found.unknown.count, 1);
    EXPECT_FALSE(found.good());
}

TEST_F(JudgingAFile, with_two_lines_of_a_key_swapped_finds_them_out_of_order) {
    std::swap(lines[event("b7")], lines[event("b8")]);
    const auto found = read_back();
    EXPECT_EQ(found.out_of_order.count, 1);
    EXPECT_FALSE(found.good());
}

TEST_F(JudgingAFile, with_a_line_that_is_cut_off_or_has_no_id_is_refused) {
    const std::string whole = lines[5];
    lines[5] = whole.substr(0, whole.size() - 1);
    EXPECT_THROW(read_back(), Error);
    lines[5] = R"({"key":"a"})";
    EXPECT_THROW(read_back(), Error);
}

TEST(Naming, an_id_gives_its_event_back_and_no_other_audit_has_it) {
    const Names names = Names::uuids();
    const std::string id = names.id(4'000'000'000);
    EXPECT_EQ(id.size(), 36U);
    EXPECT_EQ(names.find(id), 4'000'000'000);
    EXPECT_EQ(Names::uuids().find(id), std::nullopt);
    for (const auto* other : {"", "x", "-000000000001"})
        EXPECT_EQ(names.find(names.prefix() + other), std::nullopt);
    EXPECT_EQ(names.find(names.prefix() + "00000000000g"), std::nullopt);
    EXPECT_EQ(names.find(names.prefix() + "100000000000"), std::nullopt)
        << "too large for a number of an event";
}

}  // namespace
