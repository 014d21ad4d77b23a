// A dispatcher whose sink is down, shut, or takes nothing: what is blamed on whom.

#include "scripted_sink.hpp"

using namespace baton;
using namespace baton::relay;
using namespace baton::relay::test;

TEST_P(Dispatching, a_sink_that_keeps_messages_and_does_not_answer_is_in_trouble) {
    begin(GetParam());
    sink->answers_per_collect = 0;
    sink->words = "cannot connect";
    dispatcher->step(now, 0ms);
    now += 100s;  // nothing to be sent is no silence
    dispatcher->add(batch({"a1", "b1"}));
    dispatcher->step(now, 0ms);
    EXPECT_EQ(dispatcher->trouble().words, "") << "it is given a moment";
    now += 2s;
    dispatcher->step(now, 0ms);
    EXPECT_EQ(dispatcher->trouble().words, "cannot connect");
    sink->words.clear();
    EXPECT_EQ(dispatcher->trouble().words, "");
    now += 10s;
    dispatcher->step(now, 0ms);
    EXPECT_NE(dispatcher->trouble().words.find("not answered"), std::string::npos);
    sink->words = "what was said before";
    sink->answers_per_collect = 1;
    dispatcher->step(now, 0ms);
    EXPECT_EQ(dispatcher->trouble().words, "") << "it answers";
}

TEST_P(Dispatching, a_sink_that_takes_nothing_costs_no_event_an_attempt) {
    policy.attempts = 2;
    begin(GetParam());
    sink->down = true;
    dispatcher->add(batch({"a1", "b1", "1", "a2"}));
    run(500);
    EXPECT_TRUE(checkpoint.parked.empty());
    EXPECT_TRUE(dispatcher->circuit_open());
    const auto tries = sink->sent.size();
    dispatcher->step(now, 0ms);
    EXPECT_LE(sink->sent.size(), tries + 1) << "an open circuit lets one probe through";
    EXPECT_EQ(dispatcher->trouble().words.substr(0, 3), "no ");
    sink->down = false;
    run();
    EXPECT_FALSE(dispatcher->circuit_open());
    EXPECT_EQ(delivered_of('a'), (Ids{"a1", "a2"}));
    EXPECT_EQ(checkpoint.position.second, 4u);
}

TEST_P(Dispatching, a_sink_that_is_down_is_waited_for_and_not_asked_all_the_time) {
    backoff = {10ms, 10min};
    begin(GetParam());
    sink->down = true;
    dispatcher->add(batch({"a1", "b1"}));
    for (int i = 0; i < 60; ++i) {
        dispatcher->step(now, 0ms);
        ASSERT_EQ(dispatcher->in_flight(), 0u);
        ASSERT_TRUE(dispatcher->next_timer());
        if (i > 20) {
            ASSERT_GT(*dispatcher->next_timer(), now) << i;
        }
        now = std::max(now, *dispatcher->next_timer());
    }
}

TEST_P(Dispatching, after_an_outage_a_failure_waits_no_longer_than_a_first_one) {
    backoff = {10ms, 10min};
    begin(GetParam());
    sink->down = true;
    dispatcher->add(batch({"a1", "b1"}));
    run(100);
    ASSERT_GT(sink->sent.size(), 40u);
    sink->down = false;
    sink->scripts["a1"] = {Verdict::retry, Verdict::retry, Verdict::retry};
    dispatcher->add(batch({"c1", "d1", "e1"}));
    now = std::max(now, *dispatcher->next_timer());
    const Time back = now;
    for (int i = 0; i < 200 && sink->delivered.size() < 5; ++i) {
        dispatcher->step(now += 1ms, 0ms);
        if (sink->delivered.size() < 5 && dispatcher->next_timer())
            now = std::max(now, *dispatcher->next_timer());
    }
    EXPECT_EQ(sink->delivered.size(), 5u);
    EXPECT_LT(now - back, 1min);
}

TEST_P(Dispatching, keys_that_waited_for_a_sink_that_was_down_go_as_soon_as_it_is_back) {
    backoff = {10min, 10min};
    begin(GetParam());
    Ids ids;
    for (char key = 'a'; key <= 'p'; ++key) ids.push_back({key, '1'});
    dispatcher->add(batch(ids));
    sink->down = true;
    run(6);
    sink->down = false;
    dispatcher->add(batch({"z1"}));
    for (int i = 0; i < 3; ++i) dispatcher->step(now += 1ms, 0ms);
    EXPECT_EQ(sink->delivered.size(), 17u);
    EXPECT_TRUE(dispatcher->idle());
}

TEST_P(Dispatching, an_event_that_failed_while_others_went_waits_its_time) {
    backoff = {10min, 10min};
    policy.breaker_threshold = 1;
    begin(GetParam());
    sink->scripts["a1"] = {Verdict::retry};
    dispatcher->add(batch({"b1", "a1"}));
    for (int i = 0; i < 2; ++i) dispatcher->step(now += 1ms, 0ms);
    dispatcher->add(batch({"c1"}));
    now += 10s;  // the circuit may be tried again
    for (int i = 0; i < 3; ++i) dispatcher->step(now += 1ms, 0ms);
    EXPECT_EQ(sink->delivered, (Ids{"b1", "c1"})) << "it is its own fault, not the sink's";
}

TEST_P(Dispatching, a_lone_event_that_cannot_go_is_parked_when_the_sink_says_that_it_is_up) {
    policy.attempts = 3;
    begin(GetParam());
    sink->scripts["a1"] = std::deque<Verdict>(1000, Verdict::retry);
    dispatcher->add(batch({"a1", "a2"}));
    run();
    EXPECT_EQ(std::count(sink->sent.begin(), sink->sent.end(), "a1"), 3);
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 retry", "a2 blocked"}));
    EXPECT_EQ(checkpoint.position.second, 2u);
    EXPECT_GE(sink->checks, 1);
}

TEST_P(Dispatching, a_lone_event_waits_for_a_sink_that_is_down) {
    policy.attempts = 3;
    begin(GetParam());
    sink->down = true;
    dispatcher->add(batch({"a1", "a2"}));
    run(300);
    EXPECT_TRUE(checkpoint.parked.empty());
    sink->down = false;
    run();
    EXPECT_TRUE(checkpoint.parked.empty());
    EXPECT_EQ(delivered_of('a'), (Ids{"a1", "a2"}));
}

TEST_P(Dispatching, a_sink_that_is_up_and_takes_nothing_parks_nothing_while_there_is_something_to_compare) {
    policy.attempts = 2;
    begin(GetParam());
    for (const auto* id : {"a1", "b1"}) sink->scripts[id] = std::deque<Verdict>(1000, Verdict::retry);
    dispatcher->add(batch({"a1", "b1"}));
    run(500);
    EXPECT_TRUE(checkpoint.parked.empty());
    EXPECT_EQ(sink->checks, 0);
}

TEST_P(Dispatching, one_event_that_cannot_go_does_not_keep_the_circuit_open) {
    policy.attempts = 3;
    policy.breaker_threshold = 2;
    begin(GetParam());
    sink->scripts["a1"] = std::deque<Verdict>(1000, Verdict::retry);
    dispatcher->add(batch({"a1"}));
    run(2);
    dispatcher->step(now, 0ms);
    for (int i = 0; i < 10; ++i) {
        dispatcher->add(batch({"b" + std::to_string(i)}));
        run(20);
    }
    run();
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 retry"}));
    EXPECT_EQ(delivered_of('b').size(), 10u);
}

TEST_P(Dispatching, a_stop_does_not_wait_for_a_sink_that_is_down) {
    begin(GetParam());
    sink->down = true;
    dispatcher->add(batch({"a1", "a2", "b1", "c1", "a3"}));
    for (int steps = 0; !dispatcher->circuit_open() && steps < 100; ++steps)
        dispatcher->step(now += 10s, 0ms);
    ASSERT_TRUE(dispatcher->circuit_open());
    dispatcher->stop_sending();
    dispatcher->step(now, 0ms);
    EXPECT_TRUE(dispatcher->drained());
}

TEST_P(Dispatching, a_destination_that_is_shut_costs_no_event_its_place_however_long) {
    policy.attempts = 2;
    begin(GetParam());
    sink->down = true;
    sink->how_down = Verdict::shut;
    dispatcher->add(batch({"a1", "a2", "b1", "1"}));
    run(500);
    EXPECT_TRUE(checkpoint.parked.empty());
    EXPECT_EQ(dispatcher->trouble().fault, Fault::destination);
    EXPECT_TRUE(dispatcher->circuit_open());
    sink->down = false;
    run();
    EXPECT_EQ(delivered_of('a'), (Ids{"a1", "a2"}));
    EXPECT_TRUE(checkpoint.parked.empty());
    EXPECT_TRUE(dispatcher->idle());
    EXPECT_TRUE(dispatcher->trouble().empty());
}

TEST_P(Dispatching, a_lone_event_is_not_blamed_for_a_destination_that_is_shut) {
    policy.attempts = 2;
    begin(GetParam());
    sink->down = true;
    sink->how_down = Verdict::shut;
    dispatcher->add(batch({"a1"}));
    run(300);
    EXPECT_TRUE(checkpoint.parked.empty());
    EXPECT_EQ(sink->checks, 0);
}

TEST_P(Dispatching, one_shut_destination_among_others_is_parked_and_not_dead) {
    policy.attempts = 3;
    begin(GetParam());
    sink->scripts["a1"] = std::deque<Verdict>(100, Verdict::shut);
    dispatcher->add(batch({"a1", "a2"}));
    for (int i = 0; i < 20; ++i) {
        dispatcher->add(batch({std::string("c") + char('a' + i)}));
        run(5);
    }
    run();
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 retry", "a2 blocked"}));
}

TEST_P(Dispatching, rejections_in_a_row_stop_the_burying_until_one_is_delivered) {
    policy.give_up_limit = 3;
    begin(GetParam());
    sink->down = true;
    sink->how_down = Verdict::rejected;
    Ids ids;
    for (char key = 'a'; key <= 'p'; ++key) ids.push_back({key, '1'});
    for (char key = 'a'; key <= 'p'; ++key) ids.push_back({key, '2'});
    dispatcher->add(batch(ids));
    run(500);
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 dead", "b1 dead", "c1 dead"}));
    EXPECT_EQ(checkpoint.position.second, 3u);
    EXPECT_EQ(dispatcher->trouble().fault, Fault::event);
    EXPECT_NE(dispatcher->trouble().words.find("3 events in a row"), std::string::npos);
    const auto tries = sink->sent.size();
    dispatcher->step(now, 0ms);
    EXPECT_LE(sink->sent.size(), tries + 1) << "it is asked now and then, not all the time";
    sink->down = false;
    run();
    EXPECT_EQ(checkpoint.parked.size(), 3u);
    EXPECT_EQ(sink->delivered.size(), ids.size() - 3);
    EXPECT_EQ(delivered_of('d'), (Ids{"d1", "d2"}));
    EXPECT_TRUE(dispatcher->trouble().empty());
    EXPECT_TRUE(dispatcher->idle());
}

TEST_P(Dispatching, a_crowd_of_poison_is_passed_once_something_behind_it_is_taken) {
    policy.give_up_limit = 2;
    begin(GetParam());
    Ids ids;
    for (char key = 'a'; key <= 'j'; ++key) {
        ids.push_back({key, '1'});
        sink->scripts[ids.back()] = std::deque<Verdict>(1000, Verdict::rejected);
    }
    for (char key = 'k'; key <= 'z'; ++key) ids.push_back({key, '1'});
    dispatcher->add(batch(ids));
    run(5000);
    EXPECT_EQ(sink->delivered.size(), 16u);
    EXPECT_GE(checkpoint.parked.size(), 2u);
    for (const auto& it : checkpoint.parked) EXPECT_NE(it.find("dead"), std::string::npos) << it;
}

TEST_P(Dispatching, the_next_session_knows_how_many_were_given_up_in_a_row) {
    policy.give_up_limit = 3;
    begin(GetParam());
    sink->down = true;
    sink->how_down = Verdict::rejected;
    dispatcher->add(batch({"a1", "b1"}));
    run();
    const Streak streak = dispatcher->streak();
    EXPECT_FALSE(streak.full());
    begin(GetParam());
    dispatcher->resume(streak);
    sink->down = true;
    sink->how_down = Verdict::rejected;
    dispatcher->add(batch({"c1", "d1"}));
    run(100);
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 dead", "b1 dead", "c1 dead"}));
}

TEST_P(Dispatching, what_cannot_be_rendered_stops_the_burying_too_and_nobody_is_asked_all_the_time) {
    policy.give_up_limit = 2;
    begin(GetParam());
    auto made = batch({"a1", "b1", "a2", "c1", "d1"});
    for (auto& event : made->events) event.event_type = "unrenderable";
    dispatcher->add(made);
    run(50);
    EXPECT_EQ(checkpoint.parked, (Ids{"a1 dead", "b1 dead"}));
    ASSERT_TRUE(dispatcher->next_timer());
    EXPECT_GT(*dispatcher->next_timer(), now - 2ms);
    dispatcher->add(batch({"e1"}));
    run(500);
    EXPECT_EQ(sink->delivered, (Ids{"e1"}));
    EXPECT_EQ(dispatcher->counts().dead, 4u) << "two more after one was delivered";
}

INSTANTIATE_TEST_SUITE_P(Sinks, Dispatching, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "that_keep_order" : "that_do_not"; });
