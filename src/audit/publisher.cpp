#include "audit/publisher.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/error.hpp"
#include "brokers/registry.hpp"

namespace baton::audit {

using namespace std::chrono_literals;

Publisher::Publisher(relay::Settings sink, std::string destination, PublisherPlan plan)
    : sink_(std::move(sink)), destination_(std::move(destination)), plan_(plan) {}

void Publisher::start() {
    thread_ = std::thread([this] {
        try {
            run();
        } catch (const std::exception& error) {
            const std::lock_guard lock(mutex_);
            failure_ = error.what();
        }
    });
}

void Publisher::stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
}

std::string Publisher::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

// In rounds of at most one message per key: whatever the broker refuses for now, nothing of its key is behind
// it.
void Publisher::run() {
    const auto sink = brokers::make_sink(sink_);
    std::mt19937 random(plan_.seed);
    std::vector<long> numbers(static_cast<std::size_t>(plan_.keys));
    std::vector<Letter> before;
    auto next = Clock::now();
    for (long round = 0; !stopping_; ++round) {
        std::vector<Letter> letters;
        for (std::size_t key = 0; key < numbers.size(); ++key) {
            if (random() % 2 == 0) continue;
            const long number = ++numbers[key];
            const Index event = begin_event(key, number);
            letters.push_back(
                {event, names_.id(event), fmt::format("key-{}", key),
                 fmt::format(R"({{"key": "key-{}", "number": {}, "padding": "{}"}})", key, number,
                             std::string(static_cast<std::size_t>(plan_.payload_bytes), 'x'))});
        }
        publish(*sink, letters);
        if (round % 20 == 7 && !before.empty()) {
            publish(*sink, before);
            repeated_ += static_cast<long>(before.size());
        }
        next += std::chrono::microseconds(
            static_cast<long>(1e6 * static_cast<double>(letters.size()) / std::max(plan_.rate, 0.1)));
        next = std::max(next, Clock::now() - 1s);
        std::this_thread::sleep_until(next);
        before = std::move(letters);
    }
}

Index Publisher::begin_event(std::size_t key, long number) {
    const std::lock_guard lock(mutex_);
    Event& event = events_.emplace_back();
    event.key = static_cast<std::uint32_t>(key);
    event.number = static_cast<std::uint32_t>(number);
    return static_cast<Index>(events_.size() - 1);
}

// Send until the broker has all of them.
void Publisher::publish(relay::Sink& sink, const std::vector<Letter>& letters) {
    std::vector<Message> waiting;
    for (std::size_t i = 0; i < letters.size(); ++i) {
        Message& message = waiting.emplace_back();
        message.ticket = i;
        message.message_id = letters[i].id;
        message.destination = destination_;
        message.key = letters[i].key;
        message.body = letters[i].body;
        message.content_type = "application/json";
        message.headers = {{"event-type", "audited"}};
    }
    while (!waiting.empty()) {
        sink.send(waiting);
        std::vector<relay::Delivery> deliveries;
        while (deliveries.size() < waiting.size()) sink.collect(deliveries, 50ms);
        std::vector<Message> again;
        for (const auto& delivery : deliveries) {
            const Letter& letter = letters[delivery.ticket];
            if (delivery.verdict == relay::Verdict::rejected)
                throw Error("the broker refuses " + letter.id + ": " + delivery.error);
            const auto found = std::find_if(
                waiting.begin(), waiting.end(),
                [&delivery](const Message& message) { return message.ticket == delivery.ticket; });
            if (delivery.verdict != relay::Verdict::delivered) {
                again.push_back(std::move(*found));
            } else {
                const std::lock_guard lock(mutex_);
                Event& event = events_[letter.event];
                if (event.fate == Fate::open) event.committed = Clock::now();
                event.fate = Fate::committed;
            }
        }
        waiting = std::move(again);
        if (!waiting.empty()) std::this_thread::sleep_for(50ms);
    }
}

void Publisher::testify(Facts& facts) {
    const std::lock_guard lock(mutex_);
    facts.names = names_;
    for (int key = 0; key < plan_.keys; ++key) facts.keys.push_back("key-" + std::to_string(key));
    facts.events = std::exchange(events_, {});
}

}  // namespace baton::audit
