#pragma once
// How long connections wait for their server.
//
// A frozen server closes no connection, and neither does a network that swallows everything: without a limit
// a wait would last for ever. Connections that belong together share one Patience. The Patience ends when the
// lease of their owner ends, and any thread may end it. A wait that is under way notices the end within a
// tenth of a second.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>

namespace baton::postgres {

class Patience {
  public:
    using Clock = std::chrono::steady_clock;

    // For questions that a healthy server answers at once.
    static constexpr std::chrono::milliseconds short_work{30'000};
    static constexpr std::chrono::milliseconds usual = std::chrono::minutes(5);
    // For statements that work through much data, like installing or maintenance.
    static constexpr std::chrono::milliseconds long_work = std::chrono::hours(1);
    static constexpr std::chrono::seconds connect{10};

    // `answer`: how long the server may take for one statement.
    explicit Patience(std::chrono::milliseconds answer = usual) : answer_(answer) {}

    // Set the end of the owner's lease. A statement that is asked later fails at once.
    void lasts_until(Clock::time_point end) { lease_ = end.time_since_epoch().count(); }
    // Whatever the lease says, nobody waits beyond this time.
    void end_by(Clock::time_point end) { end_ = std::min(end_.load(), end.time_since_epoch().count()); }
    Clock::time_point end() const {
        return Clock::time_point(Clock::duration(std::min(lease_.load(), end_.load())));
    }
    bool over() const { return Clock::now() >= end(); }

    // Until when to wait for the answer to a statement.
    Clock::time_point limit(Clock::time_point asked) const { return std::min(asked + answer_, end()); }

    // How long a wait lasts before it looks at the end again.
    static constexpr std::chrono::milliseconds glance{100};

  private:
    const std::chrono::milliseconds answer_;
    std::atomic<Clock::rep> lease_{Clock::time_point::max().time_since_epoch().count()};
    std::atomic<Clock::rep> end_{Clock::time_point::max().time_since_epoch().count()};
};

// A time as messages say it: "2.3 s".
inline std::string in_words(Patience::Clock::duration time) {
    const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace baton::postgres
