#pragma once
// A dispatcher with a sink that fails as it is told.

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "relay/dispatcher.hpp"

namespace baton::relay::test {

using namespace std::chrono_literals;

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
        for (const auto& message : flying) {
            if (count++ == answers_per_collect) break;
            auto& script = scripts[message.id];
            Verdict verdict = down ? how_down : Verdict::delivered;
            if (!script.empty()) {
                verdict = script.front();
                script.pop_front();
            }
            if (keeps_order_ && !message.key.empty() && failed[message.key] && verdict == Verdict::delivered)
                verdict = Verdict::retry;
            if (verdict == Verdict::retry || verdict == Verdict::shut) failed[message.key] = true;
            if (verdict == Verdict::delivered) delivered.push_back(message.id);
            deliveries.push_back(
                {message.ticket, verdict, verdict == Verdict::delivered ? "" : "no " + message.id, {}});
        }
        flying.erase(flying.begin(), flying.begin() + static_cast<std::ptrdiff_t>(deliveries.size()));
        std::erase_if(failed, [this](const auto& entry) {
            return std::none_of(flying.begin(), flying.end(),
                                [&](const Flying& message) { return message.key == entry.first; });
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

}  // namespace baton::relay::test
