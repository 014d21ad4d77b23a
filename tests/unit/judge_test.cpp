// The auditor's judge: every kind of harm done to a good run is found, and a good run is found good.

#include <gtest/gtest.h>

#include "audit/judge.hpp"

using namespace baton::audit;
using namespace std::chrono_literals;

namespace {

// 3 keys with 20 events each, committed 10 ms apart and seen 5 ms later; two events were rolled back.
class Judging : public testing::Test {
  protected:
    Judging() {
        for (long number = 1; number <= 20; ++number)
            for (const char* key : {"a", "b", "c"}) {
                const std::string id = key + std::to_string(number);
                const auto at = start + 10ms * static_cast<int>(facts.arrived.size());
                facts.committed[id] = {key, number, at};
                facts.seen[id] = at + 5ms;
                facts.arrived.push_back(id);
            }
        facts.rolled_back = {"rolled back 1", "rolled back 2"};
    }
    void fault(Clock::duration from, Clock::duration upto) {
        facts.faults.push_back({"kill", start + from, start + upto});
    }
    std::size_t place(const std::string& id) const {
        return static_cast<std::size_t>(std::find(facts.arrived.begin(), facts.arrived.end(), id) -
                                        facts.arrived.begin());
    }

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
    facts.arrived.erase(facts.arrived.begin() + static_cast<long>(place("b7")));
    const auto found = judge(facts);
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.lost.count, 1);
    EXPECT_EQ(found.lost.examples.at(0), "b7 (b #7)");
    EXPECT_EQ(found.out_of_order.count + found.leaps.count, 0);
}

TEST_F(Judging, two_swapped_events_of_a_key_are_out_of_order) {
    std::swap(facts.arrived[place("b7")], facts.arrived[place("b8")]);
    const auto found = judge(facts);
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.out_of_order.count, 1);
    EXPECT_EQ(found.lost.count, 0);
}

TEST_F(Judging, swapped_events_of_two_keys_do_no_harm) {
    std::swap(facts.arrived[place("b7")], facts.arrived[place("c7")]);
    EXPECT_TRUE(judge(facts).good());
}

TEST_F(Judging, a_broker_without_order_is_not_held_to_it) {
    facts.ordered = false;
    std::swap(facts.arrived[place("b7")], facts.arrived[place("b8")]);
    EXPECT_TRUE(judge(facts).good());
}

TEST_F(Judging, a_rolled_back_event_that_arrives_is_a_phantom) {
    facts.arrived.insert(facts.arrived.begin() + 9, "rolled back 2");
    const auto found = judge(facts);
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.phantom.count, 1);
    EXPECT_EQ(found.phantom.examples.at(0), "rolled back 2");
    EXPECT_EQ(found.unknown.count, 0);
}

TEST_F(Judging, an_event_that_nobody_wrote_is_found) {
    facts.arrived.emplace_back("stranger");
    const auto found = judge(facts);
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.unknown.count, 1);
}

TEST_F(Judging, a_copy_without_a_fault_is_a_finding) {
    facts.arrived.insert(facts.arrived.begin() + static_cast<long>(place("b7")), "b7");
    const auto found = judge(facts);
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.copies, 1);
    EXPECT_EQ(found.unexplained_copies.count, 1);
    EXPECT_NEAR(found.copy_rate(), 1.0 / 61, 1e-9);
}

TEST_F(Judging, a_stretch_delivered_again_after_a_crash_is_explained) {
    fault(300ms, 400ms);
    const std::vector<std::string> again{"a9", "b9", "c9", "a10", "b10", "c10"};
    facts.arrived.insert(facts.arrived.begin() + static_cast<long>(place("a11")), again.begin(), again.end());
    const auto found = judge(facts);
    EXPECT_TRUE(found.good());
    EXPECT_EQ(found.copies, 6);
    EXPECT_EQ(found.rewinds, 3);
}

TEST_F(Judging, a_broker_that_deduplicates_has_no_excuse_for_copies) {
    fault(300ms, 400ms);
    facts.deduplicates = true;
    facts.arrived.insert(facts.arrived.begin() + static_cast<long>(place("a11")), "a10");
    EXPECT_EQ(judge(facts).unexplained_copies.count, 1);
}

TEST_F(Judging, a_fault_explains_no_copies_of_what_was_committed_long_after_it) {
    facts.recovery = 50ms;
    fault(100ms, 150ms);
    facts.arrived.insert(facts.arrived.begin() + static_cast<long>(place("b15")), "b15");
    EXPECT_EQ(judge(facts).unexplained_copies.count, 1);
}

TEST_F(Judging, a_fault_explains_no_copies_of_what_was_settled_long_before_it) {
    facts.unsettled = 50ms;
    fault(500ms, 550ms);
    facts.arrived.insert(facts.arrived.begin() + static_cast<long>(place("b20")), "a1");
    EXPECT_EQ(judge(facts).unexplained_copies.count, 1);
}

TEST_F(Judging, a_leap_inside_what_is_delivered_again_is_found_although_first_arrivals_are_in_order) {
    fault(300ms, 400ms);
    const std::vector<std::string> again{"a7", "a9", "a10"};
    facts.arrived.insert(facts.arrived.begin() + static_cast<long>(place("a11")), again.begin(), again.end());
    const auto found = judge(facts);
    EXPECT_EQ(found.out_of_order.count, 0);
    EXPECT_EQ(found.leaps.count, 1);
    EXPECT_FALSE(found.good());
}

TEST_F(Judging, two_owners_for_a_moment_may_alternate_as_long_as_nothing_is_overtaken) {
    fault(300ms, 400ms);
    const std::vector<std::string> again{"a9", "a10"};
    facts.arrived.insert(facts.arrived.begin() + static_cast<long>(place("a12")), again.begin(), again.end());
    EXPECT_TRUE(judge(facts).good());  // ... a11 a9 a10 a12 ...
}

TEST_F(Judging, a_late_copy_in_the_middle_of_what_is_delivered_again_does_no_harm) {
    fault(300ms, 400ms);
    const std::vector<std::string> again{"a7", "a8", "a9", "a8", "a10", "a11"};
    facts.arrived.insert(facts.arrived.begin() + static_cast<long>(place("a12")), again.begin(), again.end());
    EXPECT_TRUE(judge(facts).good());
}

TEST_F(Judging, latency_is_told_apart_for_those_that_no_fault_touched) {
    facts.recovery = 0ms;
    fault(300ms, 320ms);
    facts.seen["a11"] = start + 900ms;  // committed at 300 ms
    const auto found = judge(facts);
    EXPECT_NEAR(found.all.longest, 600, 0.001);
    EXPECT_NEAR(found.calm.longest, 5, 0.001);
    EXPECT_EQ(found.all.events, 60);
    EXPECT_LT(found.calm.events, 60);
}

TEST_F(Judging, a_commit_whose_answer_was_lost_counts_as_committed_and_has_no_latency) {
    facts.committed["b7"].committed.reset();
    const auto found = judge(facts);
    EXPECT_TRUE(found.good());
    EXPECT_EQ(found.all.events, 59);
}

}  // namespace
