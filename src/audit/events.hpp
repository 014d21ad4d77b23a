#pragma once
// The events of one audit under small numbers, a few bytes for each: an audit may have many millions.

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::audit {

using Clock = std::chrono::steady_clock;
using Index = std::uint32_t;  // an event's place among all that were begun

constexpr Clock::time_point never{};

enum class Fate : std::uint8_t {
    open,         // nobody knows yet
    in_doubt,     // the answer to the commit never came
    committed,    // by the database, or taken by the broker
    rolled_back,  // never to be seen
    taken_back,   // committed, and lost with the server that had it
};

struct Event {
    std::uint32_t key = 0;
    std::uint32_t number = 0;             // within the key, in the order of the transactions
    Clock::time_point committed = never;  // not known when the answer to the commit was lost
    Fate fate = Fate::open;
};

using Events = std::deque<Event>;

// The ids of an audit's events: a beginning that no other audit has, and the event's number.
class Names {
  public:
    explicit Names(std::string prefix) : prefix_(std::move(prefix)) {}
    // Ids that are UUIDs.
    static Names uuids();

    const std::string& prefix() const { return prefix_; }
    static constexpr std::size_t digits = 12;  // hexadecimal, behind the prefix
    std::string id(Index index) const;
    std::optional<Index> find(std::string_view id) const;

  private:
    std::string prefix_;
};

// How often something was found, and the first ids of it.
struct Finding {
    long count = 0;
    std::vector<std::string> examples;

    void add(const std::string& example);
};

// What has come, oldest first within each key.
struct Arrivals {
    std::vector<Index> events;
    Finding strangers;  // nobody here gives such ids

    void add(const Names& names, std::string_view id);
    long count() const { return static_cast<long>(events.size()) + strangers.count; }
};

}  // namespace baton::audit
