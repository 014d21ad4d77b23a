#include "relay/workload.hpp"

#include <gtest/gtest.h>

#include <random>

#include "relay/parked_keys.hpp"

using namespace baton;
using namespace baton::relay;

namespace {

BatchPtr batch(std::uint64_t number, std::size_t events) {
    auto made = std::make_shared<Batch>();
    made->number = number;
    made->bytes = 10 * events;
    made->events.resize(events);
    return made;
}

Ref begin(Workload& workload) {
    const Ref ref = workload.next();
    workload.begin_next();
    return ref;
}

}  // namespace

TEST(Workload, gives_events_in_order_across_batches_and_jumps_over_empty_ones) {
    Workload workload;
    EXPECT_FALSE(workload.has_next());
    workload.add(batch(7, 2));
    workload.add(batch(8, 0));
    workload.add(batch(9, 1));
    std::vector<Ref> begun;
    while (workload.has_next()) begun.push_back(begin(workload));
    EXPECT_EQ(begun, (std::vector<Ref>{{7, 0}, {7, 1}, {9, 0}}));
    EXPECT_EQ(workload.unsettled(), 3U);
    EXPECT_EQ(workload.bytes(), 30U);
}

TEST(Workload, settles_a_batch_from_its_beginning_and_batches_in_turn) {
    Workload workload;
    workload.add(batch(1, 3));
    workload.add(batch(2, 0));
    workload.add(batch(3, 1));
    while (workload.has_next()) begin(workload);
    workload.slot({1, 2}).finish();
    workload.slot({3, 0}).finish();
    EXPECT_FALSE(workload.take_settled());
    workload.slot({1, 0}).finish();
    auto part = workload.take_settled();
    ASSERT_TRUE(part);
    EXPECT_EQ(part->done, 1U);
    EXPECT_FALSE(workload.take_settled());
    workload.fail({1, 1}, "no", Failure::Kind::dead);
    std::vector<std::pair<std::uint64_t, std::size_t>> rest;
    while ((part = workload.take_settled())) {
        rest.emplace_back(part->batch->number, part->done);
        EXPECT_EQ(part->failures.size(), part->batch->number == 1 ? 1U : 0U);
    }
    EXPECT_EQ(rest, (std::vector<std::pair<std::uint64_t, std::size_t>>{{1, 3}, {2, 0}, {3, 1}}));
    EXPECT_TRUE(workload.empty());
    EXPECT_EQ(workload.bytes(), 0U);
}

TEST(Workload, tells_failures_in_order_each_with_the_part_it_lies_in) {
    Workload workload;
    workload.add(batch(1, 6));
    while (workload.has_next()) begin(workload);
    for (const std::uint32_t slot : {4U, 1U, 3U}) workload.fail({1, slot}, "no", Failure::Kind::retry);
    for (const std::uint32_t slot : {0U, 2U}) workload.slot({1, slot}).finish();
    auto part = workload.take_settled();
    ASSERT_TRUE(part);
    EXPECT_EQ(part->done, 5U);
    std::vector<std::ptrdiff_t> places;
    for (const auto& failure : part->failures) places.push_back(failure.event - part->batch->events.data());
    EXPECT_EQ(places, (std::vector<std::ptrdiff_t>{1, 3, 4}));
}

TEST(Workload, loses_and_doubles_nothing_however_events_come_home) {
    std::mt19937 random(3);
    for (int round = 0; round < 200; ++round) {
        Workload workload;
        std::uint64_t added = 0;
        std::size_t events = 0, settled = 0, last = 0;
        std::uint64_t last_batch = 0;
        std::vector<Ref> away;
        const auto settle = [&] {
            while (auto part = workload.take_settled()) {
                ASSERT_GE(part->batch->number, last_batch);
                if (part->batch->number != last_batch) last = 0;
                settled += part->done - last;
                last = part->done;
                last_batch = part->batch->number;
            }
        };
        for (int step = 0; step < 200; ++step) {
            if (random() % 5 == 0) {
                const std::size_t size = random() % 4;
                workload.add(batch(++added, size));
                events += size;
            }
            if (workload.has_next() && random() % 2 == 0) away.push_back(begin(workload));
            if (!away.empty() && random() % 2 == 0) {
                std::swap(away[random() % away.size()], away.back());
                workload.slot(away.back()).finish();
                away.pop_back();
            }
            settle();
            ASSERT_EQ(workload.unsettled(), events - settled);
        }
        while (workload.has_next()) away.push_back(begin(workload));
        for (const Ref ref : away) workload.slot(ref).finish();
        settle();
        EXPECT_EQ(settled, events);
        EXPECT_TRUE(workload.empty());
    }
}

TEST(Workload, a_ticket_names_its_event_also_when_numbers_of_batches_outgrow_it) {
    for (const std::uint64_t first : {1ULL, 0xffffffffULL, 0x1fffffffeULL}) {
        Workload workload;
        for (std::uint64_t i = 0; i < 3; ++i) workload.add(batch(first + i, 300));
        while (workload.has_next()) {
            const Ref ref = begin(workload);
            const auto ticket = ticket_of(ref, 255);
            ASSERT_EQ(workload.of_ticket(ticket), ref);
            ASSERT_EQ(part_of(ticket), 255U);
        }
    }
}

TEST(ParkedKeys, hold_back_what_was_read_before_the_source_knew) {
    ParkedKeys keys;
    keys.gave_up("a", 1);
    EXPECT_TRUE(keys.hold_back("a", 2, false));
    EXPECT_FALSE(keys.hold_back("b", 2, false));
    keys.settled("a", 1);
    keys.heeded(0);
    EXPECT_TRUE(keys.hold_back("a", 2, false)) << "that batch was read before the key was parked";
    keys.heeded(1);
    EXPECT_TRUE(keys.empty());
}

TEST(ParkedKeys, are_not_forgotten_while_one_of_them_is_not_parked_yet) {
    ParkedKeys keys;
    keys.gave_up("a", 1);
    keys.gave_up("a", 2);
    keys.settled("a", 1);
    keys.heeded(5);
    EXPECT_TRUE(keys.hold_back("a", 3, false));
    keys.settled("a", 6);
    keys.heeded(5);
    EXPECT_TRUE(keys.hold_back("a", 3, false));
    keys.heeded(6);
    EXPECT_FALSE(keys.hold_back("a", 3, false));
}

TEST(ParkedKeys, let_those_go_that_are_due_again_unless_one_of_their_batch_failed) {
    ParkedKeys keys;
    keys.gave_up("a", 1);
    EXPECT_FALSE(keys.hold_back("a", 2, true));
    EXPECT_TRUE(keys.hold_back("a", 1, true));
}
