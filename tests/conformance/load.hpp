#pragma once
// Messages for a sink, what must be said of them when they have arrived, and an outage on their way.

#include <deque>
#include <string>
#include <vector>

#include "conformance/sink_fixture.hpp"

namespace baton::test::conformance {

// Messages with the bytes that they point to.
class Load {
  public:
    explicit Load(std::string destination) : destination_(std::move(destination)) {}

    Message& add(const std::string& id, const std::string& key, std::string body) {
        const std::string& kept_key = bytes_.emplace_back(key);
        const std::string& kept_body = bytes_.emplace_back(std::move(body));
        Event& event = events_.emplace_back();
        const std::string& kept_id = bytes_.emplace_back(id);
        event.event_id = kept_id;
        event.source_id = kept_id;
        event.event_type = "conformance";
        event.aggregate_id = kept_key;
        event.partition_key = kept_key;
        event.payload = kept_body;
        event.payload_kind = PayloadKind::text;
        Message& message = messages_.emplace_back();
        message.message_id = id;
        message.destination = destination_;
        message.key = kept_key;
        message.body = kept_body;
        message.content_type = "application/json";
        message.event = &event;
        return message;
    }

    // `count` messages over eight keys, numbered within each.
    Load& add_keyed(std::size_t count, const std::string& prefix = "m", std::size_t padding = 0) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::string key = "key-" + std::to_string(i % 8);
            std::string body = R"({"key":")" + key + R"(","n":)" + std::to_string(i / 8) + R"(,"pad":")";
            body.append(padding, 'x');
            add(prefix + std::to_string(i), key, body + "\"}").headers.push_back({"n", std::to_string(i)});
        }
        return *this;
    }

    const std::deque<Message>& messages() const { return messages_; }
    std::vector<Message> copy() const { return {messages_.begin(), messages_.end()}; }

  private:
    std::string destination_;
    std::deque<std::string> bytes_;
    std::deque<Event> events_;
    std::deque<Message> messages_;
};

// Compare one message with what came of it.
void expect_same(const SinkFixture& fixture, const Message& sent, const Received& got);

// Every message that was sent is there, unchanged, and nothing else is. Copies are equal to the first.
void expect_all_arrived(SinkFixture& fixture, const std::string& destination, const Load& load);

// With copies left out, each key's messages stand in the order in which they were sent.
void expect_key_order(SinkFixture& fixture, const std::string& destination, const Load& load);

// Make the server unreachable while the object lives; the server itself goes on where a proxy can hide it.
class Outage {
  public:
    explicit Outage(SinkFixture& fixture) : fixture_(fixture) {
        if (fixture_.proxy() != nullptr)
            fixture_.proxy()->refuse();
        else
            fixture_.kill_broker();
    }
    ~Outage() {
        if (fixture_.proxy() != nullptr)
            fixture_.proxy()->heal();
        else
            fixture_.start_broker();
    }
    Outage(const Outage&) = delete;
    Outage& operator=(const Outage&) = delete;

  private:
    SinkFixture& fixture_;
};

}  // namespace baton::test::conformance
