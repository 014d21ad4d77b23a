#pragma once
// The lines in which messages wait for those before them: one for each key.
//
// A lane is there as long as something of it waits or flies. It is either ready to send, on the clock, or
// held up by what flies of it.

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

// An event: its batch's number, and its place in it. Earlier events compare less.
struct Ref {
    std::uint64_t work;
    std::uint32_t slot;
    auto operator<=>(const Ref&) const = default;
};

// Events in order. Most lanes have none that wait, so an empty line costs nothing.
class Line {
  public:
    bool empty() const { return first_ == refs_.size(); }
    Ref front() const { return refs_[first_]; }
    void push_back(Ref ref) { refs_.push_back(ref); }
    void pop_front();
    void insert(Ref ref);
    // Take out those behind `ref`.
    std::vector<Ref> cut_behind(Ref ref);

  private:
    std::vector<Ref> refs_;
    std::size_t first_ = 0;
};

struct Lane {
    Line waiting;
    std::size_t flying = 0;
    bool failed = false;  // waits until nothing of it flies, then begins again
    Time not_before{};
    // It waits because the sink was down, not because of its own event: when it may go once the sink is back.
    std::optional<Time> when_back;
    bool queued = false;  // among those that are ready
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
    // `one_at_a_time`: what flies of a lane holds up what waits in it.
    explicit Lanes(bool one_at_a_time) : one_at_a_time_(one_at_a_time) {}

    Lane& make(std::string_view name);
    Lane* find(std::string_view name);
    bool can_send(const Lane& lane) const;

    // Something has changed in a lane: put it among those that are ready, on the clock, or away.
    void offer(std::string_view name, Time now);
    // Do that for those whose time has come.
    void wake(Time now);
    // Let those go on that waited for the sink.
    void welcome_back(Time now);

    std::size_t ready() const { return ready_.size(); }
    // Whether one of those that are ready begins with an event before `end`.
    bool ready_before(Ref end) const;
    // Take one of those that are ready. Null when it is not there any more.
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
