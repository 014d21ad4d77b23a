#pragma once
// A way in, for a test: messages at a broker, a pipeline that reads them, and the inbox where they arrive.

#include <deque>
#include <memory>
#include <set>

#include "conformance/source_fixture.hpp"
#include "event/event.hpp"
#include "relay/pipeline.hpp"

namespace baton::test {

// A message as the inbox has it.
struct Arrived {
    std::string id;
    std::string payload;  // JSON text, or nothing
    std::string bytes;    // payload_raw
    bool has_payload = false;
    bool has_bytes = false;
    std::string headers;
    std::string key;
    std::string error;
    std::string event_type;
};

class WayIn {
  public:
    // A new place at the broker and a new inbox in a new database.
    WayIn(SourceFixture& fixture, Cluster& cluster, bool with_inbox = true);
    ~WayIn();

    // Put a message where the source reads.
    Message& add(const std::string& id, const std::string& key, std::string body,
                 const std::string& type = "application/json");
    // `count` messages over eight keys, numbered within each.
    void add_keyed(std::size_t count, std::size_t padding = 0);
    // Publish what was added since the last time.
    void publish();

    // The settings of the pipeline "in"; `more` is added to them.
    relay::Settings settings(const std::string& reader = "one", const Table& more = {}) const;
    std::unique_ptr<relay::Pipeline> start(const std::string& reader = "one", const Table& more = {}) const;
    // Write the same as a file for `baton relay`.
    void write_config(const std::filesystem::path& file, const Table& more) const;

    std::size_t count() const;  // messages in the inbox
    std::size_t duplicates() const;
    std::vector<Arrived> arrived() const;
    void wait_for(std::size_t count) const;
    // Every message is there once, nothing else is, and the broker holds nothing back.
    void expect_all();
    void expect_key_order() const;

    const std::string& place() const { return place_; }
    const std::string& database() const { return database_; }
    const std::deque<Message>& messages() const { return messages_; }
    std::size_t sent() const { return messages_.size(); }

  private:
    Table table(const std::string& reader, const Table& more) const;

    SourceFixture& fixture_;
    std::string place_;
    std::string database_;
    std::deque<std::string> bytes_;
    std::deque<Event> events_;
    std::deque<Message> messages_;
    std::size_t published_ = 0;
};

}  // namespace baton::test
