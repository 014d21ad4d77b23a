#pragma once
// Lanes: the messages of a key wait in a line of their own for the messages before them.
//
// A lane exists as long as one of its messages waits or is in flight. A lane is ready to send, or waits for a
// time, or waits for its messages in flight.

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace baton::relay {

using Time = std::chrono::steady_clock::time_point;

// An event: the number of its batch, and its place in the batch. Earlier events compare less.
struct Ref {
    std::uint64_t work;
    std::uint32_t slot;
    auto operator<=>(const Ref&) const = default;
};

// Events in order. In most lanes no event waits, so an empty line costs nothing.
class Line {
  public:
    bool empty() const { return first_ == refs_.size(); }
    Ref front() const { return refs_[first_]; }
    void push_back(Ref ref) { refs_.push_back(ref); }
    void pop_front();
    void insert(Ref ref);
    // Take out the events behind `ref`.
    std::vector<Ref> cut_behind(Ref ref);

  private:
    std::vector<Ref> refs_;
    std::size_t first_ = 0;
};

struct Lane {
    Line waiting;
    std::size_t flying = 0;
    bool failed = false;  // waits until none of its messages is in flight, then begins again
    Time not_before{};
    // Set while the lane waits because the sink was down, not because of its own event: when the lane may go
    // once the sink is back.
    std::optional<Time> when_back;
    bool queued = false;  // among the lanes that are ready
};

// Maps that are searched without making a string.
struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
};
template <class T>
using ByName = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

class Lanes {
  public:
    // `one_at_a_time`: a message in flight holds up the others of its lane.
    explicit Lanes(bool one_at_a_time) : one_at_a_time_(one_at_a_time) {}

    Lane& make(std::string_view name);
    Lane* find(std::string_view name);
    bool can_send(const Lane& lane) const;

    // A lane has changed: put it among the ready lanes, let it wait for its time, or drop it.
    void offer(std::string_view name, Time now);
    // Do the same for lanes whose time has come.
    void wake(Time now);
    // Let lanes go on that waited for the sink.
    void welcome_back(Time now);

    std::size_t ready() const { return ready_.size(); }
    // True when a ready lane begins with an event before `end`.
    bool ready_before(Ref end) const;
    // Take a ready lane. Null when the lane does not exist any more.
    Lane* take_ready(std::string& name);
    std::optional<Time> next_timer() const;

    bool anything_waits() const;
    void clear();

  private:
    using Map = ByName<Lane>;
    using Timer = std::pair<Time, std::string>;

    void offer(Map::iterator found, Time now);

    const bool one_at_a_time_;
    Map lanes_;
    std::deque<std::string> ready_;
    std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
};

}  // namespace baton::relay
