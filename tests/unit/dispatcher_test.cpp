// The order of keys, what becomes of events that fail, and what is settled.

#include "scripted_sink.hpp"

using namespace baton;
using namespace baton::relay;
using namespace baton::relay::test;

TEST_P(Dispatching, a_batch_is_settled_once_all_of_it_is_delivered) {
    begin(GetParam());
    dispatcher->add(batch({"a1", "b1", "1"}));
    run();
    EXPECT_EQ(sink->delivered, (Ids{"a1", "b1", "1"}));
    EXPECT_EQ(checkpoint.position, (std::pair<std::uint64_t, std::size_t>{1, 3}));
    EXPECT_TRUE(dispatcher->idle());
    EXPECT_EQ(dispatcher->bytes(), 0u);
}

TEST_P(Dispatching, a_failed_message_is_not_overtaken_by_its_key_and_others_go_on) {
    begin(GetParam());
    sink->scripts["a1"] = {Verdict::retry, Verdict::retry};
    dispatcher->add(batch({"a1", "a2", "b1"}));
    dispatcher->add(batch({"a3", "b2"}));
    run();
    EXPECT_EQ(delivered_of('a'), (Ids{"a1", "a2", "a3"}));
    EXPECT_EQ(delivered_of('b'), (Ids{"b1", "b2"}));
    EXPECT_EQ(checkpoint.position.first, 2u);
}

TEST_P(Dispatching, nothing_behind_an_unsettled_event_is_settled) {
    begin(GetParam());
    sink->scripts["b1"] = {Verdict::retry};
    dispatcher->add(batch({"a1", "b1", "c1"}));
    dispatcher->step(now, 0ms);
    EXPECT_EQ(checkpoint.position, (std::pair<std::uint64_t, std::size_t>{1, 1}));
    run();
    EXPECT_EQ(checkpoint.position, (std::pair<std::uint64_t, std::size_t>{1, 3}));
}

TEST_P(Dispatching, an_event_that_uses_up_its_attempts_is_parked_with_its_key) {
    policy.attempts = 3;
    begin(GetParam());
    sink->scripts["a1"] = std::deque<Verdict>(20, Verdict::retry);
    dispatcher->add(batch({"a1", "a2", "b1"}));
    dispatcher->add(batch({"b2", "a3", "b3"}));
    for (int i = 0; i < 20; ++i) {  // others succeed meanwhile, so it is this event's fault
        dispatcher->add(batch({std::string("c") + char('a' + i)}));
        run(5);
    }
    run();
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 retry", "a2 blocked", "a3 blocked"}));
    EXPECT_EQ(delivered_of('b'), (Ids{"b1", "b2", "b3"}));
    EXPECT_TRUE(delivered_of('a').empty());
    EXPECT_TRUE(dispatcher->idle());
}

TEST_P(Dispatching, a_key_stays_held_back_until_the_source_knows_of_it) {
    policy.attempts = 1;
    begin(GetParam());
    sink->scripts["a1"] = {Verdict::retry};
    dispatcher->add(batch({"b1", "a1"}));
    sink->answers_per_collect = 1;  // b1 is delivered while a1 flies
    run();
    ASSERT_EQ(checkpoint.parked, (Ids{"a1 retry"}));
    dispatcher->add(batch({"a2"}));  // read before that was known
    run();
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 retry", "a2 blocked"}));
    auto again = batch({"a1", "a2"});
    again->parked = true;
    again->parks_heeded = checkpoint.parks;
    dispatcher->add(again);
    auto fresh = batch({"a3"});
    fresh->parks_heeded = checkpoint.parks;
    dispatcher->add(fresh);
    run();
    EXPECT_EQ(delivered_of('a'), (Ids{"a1", "a2", "a3"}));
}

TEST_P(Dispatching, parked_events_go_although_their_key_is_held_back) {
    policy.attempts = 1;
    begin(GetParam());
    sink->scripts["a1"] = {Verdict::retry, Verdict::retry};
    sink->answers_per_collect = 1;
    dispatcher->add(batch({"b1", "a1"}));
    run();
    auto again = batch({"b2", "a1", "a2"});
    again->parked = true;  // leased before a later park was heeded
    dispatcher->add(again);
    run();
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 retry", "a1 retry", "a2 blocked"}));
}

TEST_P(Dispatching, a_rejected_message_is_dead_and_its_key_goes_on) {
    begin(GetParam());
    sink->scripts["a1"] = {Verdict::rejected};
    dispatcher->add(batch({"a1", "a2"}));
    run();
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 dead"}));
    EXPECT_EQ(sink->delivered, (Ids{"a2"}));
}

TEST_P(Dispatching, a_poison_message_blocks_its_key_when_told_so) {
    policy.on_poison = OnPoison::block_key;
    begin(GetParam());
    sink->scripts["a1"] = {Verdict::rejected};
    dispatcher->add(batch({"a1", "a2", "b1"}));
    run();
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 dead", "a2 blocked"}));
    EXPECT_EQ(sink->delivered, (Ids{"b1"}));
}

TEST_P(Dispatching, a_poison_message_halts_when_told_so_and_is_not_settled) {
    policy.on_poison = OnPoison::halt;
    begin(GetParam());
    sink->scripts["b1"] = {Verdict::rejected};
    dispatcher->add(batch({"a1", "b1"}));
    EXPECT_THROW(run(), Halted);
    EXPECT_TRUE(checkpoint.parked.empty());
    EXPECT_LT(checkpoint.position.second, 2u);
}

TEST_P(Dispatching, without_room_for_poison_an_event_is_tried_until_it_is_taken_and_its_key_waits) {
    policy.on_poison = OnPoison::retry;
    policy.attempts = 2;
    begin(GetParam());
    sink->scripts["a1"].assign(30, Verdict::rejected);
    dispatcher->add(batch({"a1", "a2", "b1"}));
    run(1000);
    EXPECT_TRUE(checkpoint.parked.empty());
    EXPECT_EQ(sink->delivered, (Ids{"b1", "a1", "a2"}));
    EXPECT_EQ(checkpoint.position, (std::pair<std::uint64_t, std::size_t>(1, 3)));
}

TEST_P(Dispatching, without_room_for_poison_what_cannot_be_rendered_halts_and_is_not_settled) {
    policy.on_poison = OnPoison::retry;
    begin(GetParam());
    auto made = batch({"a1"});
    made->events[0].event_type = "unrenderable";
    dispatcher->add(made);
    EXPECT_THROW(run(), Halted);
    EXPECT_EQ(checkpoint.position.second, 0u);
}

TEST_P(Dispatching, no_more_than_max_in_flight_are_sent) {
    policy.max_in_flight = 3;
    begin(GetParam());
    sink->answers_per_collect = 1;
    dispatcher->add(batch({"1", "2", "3", "4", "5", "6", "7"}));
    run();
    EXPECT_EQ(sink->most_in_flight, 3u);
    EXPECT_EQ(sink->delivered.size(), 7u);
}

TEST_P(Dispatching, all_that_was_sent_is_settled_at_a_stop_and_nothing_behind_it_is_sent) {
    policy.max_in_flight = 3;
    begin(GetParam());
    sink->answers_per_collect = 0;
    dispatcher->add(batch({"a1", "a2", "a3", "b1", "c1", "a4", "d1", "d2"}));
    dispatcher->step(now, 0ms);
    ASSERT_EQ(sink->flying.size(), 3U);
    sink->answers_per_collect = 1;
    dispatcher->stop_sending();
    for (int steps = 0; !dispatcher->drained() && steps < 100; ++steps) dispatcher->step(now, 0ms);
    EXPECT_TRUE(dispatcher->drained());
    const std::size_t expected = GetParam() ? 3 : 5;  // where order is ours, two of key a were jumped over
    EXPECT_EQ(sink->sent.size(), expected);
    EXPECT_EQ(checkpoint.position.second, expected);
}

TEST_P(Dispatching, only_the_messages_that_failed_are_sent_again) {
    parts = 2;
    begin(GetParam());
    sink->scripts["1"] = {Verdict::delivered, Verdict::retry};
    dispatcher->add(batch({"1"}));
    run();
    EXPECT_EQ(sink->sent.size(), 3u);
    EXPECT_TRUE(dispatcher->idle());
}

TEST_P(Dispatching, what_is_not_wanted_or_cannot_be_rendered_or_is_too_large_does_not_stop_the_rest) {
    begin(GetParam());
    auto made = batch({"a1", "b1", "c1", "d1"});
    made->events[0].event_type = "unwanted";
    made->events[1].event_type = "unrenderable";
    made->events[2].payload = made->keep(std::string(1001, 'x'));
    dispatcher->add(made);
    run();
    EXPECT_EQ(sink->delivered, (Ids{"d1"}));
    EXPECT_EQ(checkpoint.parked, (Ids{"b1 dead", "c1 dead"}));
    EXPECT_EQ(dispatcher->counts().filtered, 1u);
}

TEST_P(Dispatching, a_rate_limit_holds) {
    policy.rate = 10;
    begin(GetParam());
    dispatcher->add(batch({"1", "2", "3", "4", "5"}));
    const auto began = now;
    run();
    EXPECT_EQ(sink->delivered.size(), 5u);
    EXPECT_GE(now - began, 400ms);
}

TEST_P(Dispatching, an_empty_batch_is_settled_in_its_turn) {
    begin(GetParam());
    sink->scripts["a1"] = {Verdict::retry};
    dispatcher->add(batch({"a1"}));
    dispatcher->add(batch({}));
    dispatcher->step(now, 0ms);
    EXPECT_EQ(checkpoint.position.first, 0u);
    run();
    EXPECT_EQ(checkpoint.position.first, 2u);
    EXPECT_TRUE(dispatcher->idle());
}

TEST_P(Dispatching, batches_beyond_the_number_that_fits_into_a_ticket_are_told_apart) {
    begin(GetParam());
    batches = (1ULL << 32) - 3;
    sink->answers_per_collect = 1;  // so that batches on both sides are in flight together
    for (int i = 0; i < 6; ++i) dispatcher->add(batch({"a" + std::to_string(i), "b" + std::to_string(i)}));
    run();
    EXPECT_EQ(delivered_of('a'), (Ids{"a0", "a1", "a2", "a3", "a4", "a5"}));
    EXPECT_EQ(delivered_of('b').size(), 6u);
    EXPECT_EQ(checkpoint.position.first, (1ULL << 32) + 3);
    EXPECT_TRUE(dispatcher->idle());
}

INSTANTIATE_TEST_SUITE_P(Sinks, Dispatching, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "that_keep_order" : "that_do_not"; });
