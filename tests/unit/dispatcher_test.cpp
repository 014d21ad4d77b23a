// The dispatcher with a sink that fails as it is told.

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "relay/dispatcher.hpp"

using namespace baton;
using namespace baton::relay;
using namespace std::chrono_literals;

namespace {

struct TextBatch : Batch {
    std::deque<std::string> texts;
    std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }
};

// Answers each message by what the test says for it, and writes down what it took.
class ScriptedSink final : public Sink {
  public:
    explicit ScriptedSink(bool keeps_order) : keeps_order_(keeps_order) {}

    SinkTraits traits() const override {
        return {.keeps_order_after_failure = keeps_order_, .max_message_bytes = 1000};
    }
    void check() override {
        ++checks;
        if (down && how_down == Verdict::retry) throw Error("nobody is there");
    }
    std::string trouble() override { return words; }
    void send(std::span<const Message> messages) override {
        for (const auto& message : messages) {
            const std::string id(message.event->event_id);
            sent.push_back(id);
            flying.push_back({message.ticket, id, std::string(message.key)});
            most_in_flight = std::max(most_in_flight, flying.size());
        }
    }
    void collect(std::vector<Delivery>& deliveries, milliseconds) override {
        std::size_t count = 0;
        for (const auto& it : flying) {
            if (count++ == answers_per_collect) break;
            auto& script = scripts[it.id];
            Verdict verdict = down ? how_down : Verdict::delivered;
            if (!script.empty()) {
                verdict = script.front();
                script.pop_front();
            }
            if (keeps_order_ && !it.key.empty() && failed[it.key] && verdict == Verdict::delivered)
                verdict = Verdict::retry;
            if (verdict == Verdict::retry || verdict == Verdict::shut) failed[it.key] = true;
            if (verdict == Verdict::delivered) delivered.push_back(it.id);
            deliveries.push_back(
                {it.ticket, verdict, verdict == Verdict::delivered ? "" : "no " + it.id, {}});
        }
        flying.erase(flying.begin(), flying.begin() + static_cast<std::ptrdiff_t>(deliveries.size()));
        std::erase_if(failed, [this](const auto& entry) {
            return std::none_of(flying.begin(), flying.end(),
                                [&](const Flying& it) { return it.key == entry.first; });
        });
    }

    struct Flying {
        std::uint64_t ticket;
        std::string id;
        std::string key;
    };
    std::map<std::string, std::deque<Verdict>> scripts;
    std::vector<Flying> flying;
    std::map<std::string, bool> failed;
    std::vector<std::string> sent;
    std::vector<std::string> delivered;
    std::size_t answers_per_collect = 1000;
    std::size_t most_in_flight = 0;
    bool down = false;
    Verdict how_down = Verdict::retry;
    std::string words;
    int checks = 0;

  private:
    bool keeps_order_;
};

struct NotedCheckpoint final : Checkpoint {
    void settle(const BatchPtr& batch, std::size_t done, std::vector<Failure> failures) override {
        position = {batch->number, done};
        for (const auto& failure : failures) {
            const char* kind = failure.kind == Failure::Kind::dead    ? "dead"
                               : failure.kind == Failure::Kind::retry ? "retry"
                                                                      : "blocked";
            parked.push_back(std::string(failure.event->event_id) + " " + kind);
        }
        if (!failures.empty()) ++parks;
    }
    void flush() override {}
    std::pair<std::uint64_t, std::size_t> position{0, 0};
    std::vector<std::string> parked;
    std::uint64_t parks = 0;
};

class Dispatching : public testing::TestWithParam<bool> {
  protected:
    void begin(bool keeps_order) {
        sink = std::make_unique<ScriptedSink>(keeps_order);
        policy.backoff = backoff;
        policy.breaker = {1s, 8s};
        dispatcher = std::make_unique<Dispatcher>(
            *sink, checkpoint,
            Transformer{[](const Event& event) { return event.event_type != "unwanted"; },
                        [this](const Event& event, Messages& out, std::string&) {
                            if (event.event_type == "unrenderable") throw Error("cannot be rendered");
                            for (int i = 0; i < parts; ++i) {
                                Message message;
                                message.message_id = event.event_id;
                                message.key = event.key();
                                message.body = event.payload.value_or("");
                                out.push_back(message);
                            }
                        }},
            policy, true);
    }

    // "a1" is the first event of key a; without a letter it has no key.
    std::shared_ptr<TextBatch> batch(const std::vector<std::string>& ids) {
        auto made = std::make_shared<TextBatch>();
        made->number = ++batches;
        made->bytes = 10;
        for (const auto& id : ids) {
            Event event;
            event.event_id = made->keep(id);
            if (std::isalpha(static_cast<unsigned char>(id[0])))
                event.partition_key = event.event_id.substr(0, 1);
            made->events.push_back(event);
        }
        return made;
    }

    // Go on until nothing moves any more, letting the clock run as far as is needed.
    void run(int steps = 200) {
        for (int i = 0; i < steps && !dispatcher->idle(); ++i) {
            dispatcher->step(now, 0ms);
            now += 1ms;
            if (dispatcher->in_flight() == 0 && dispatcher->next_timer())
                now = std::max(now, *dispatcher->next_timer());
        }
    }

    std::vector<std::string> delivered_of(char key) const {
        std::vector<std::string> ids;
        for (const auto& id : sink->delivered)
            if (id[0] == key) ids.push_back(id);
        return ids;
    }

    using Ids = std::vector<std::string>;
    std::unique_ptr<ScriptedSink> sink;
    NotedCheckpoint checkpoint;
    Policy policy;
    Backoff backoff{10ms, 10ms};
    std::unique_ptr<Dispatcher> dispatcher;
    Time now{1000s};
    std::uint64_t batches = 0;
    int parts = 1;
};

}  // namespace

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
