#pragma once
// When a reader that is woken looks. Events that come one by one, and often, are cheaper together: each look
// is a statement, and each wake-up costs the writer who rings. So a reader that was woken again and again
// waits a few milliseconds since its last look, and one that is woken now and then looks at once.

#include <algorithm>
#include <chrono>

namespace baton::tables {

class Pace {
  public:
    using Clock = std::chrono::steady_clock;

    static constexpr std::chrono::milliseconds least{4};  // between two looks of a busy reader
    static constexpr std::chrono::milliseconds busy{6};   // a reader is busy whose looks are nearer than this

    // The reader looks now.
    void looked(Clock::time_point now) {
        const auto since = std::min<Clock::duration>(now - last_, longest);
        average_ += (since - average_) / 8;
        last_ = now;
    }
    // When a reader looks who is woken now.
    Clock::time_point next_look(Clock::time_point now) const {
        return average_ < busy ? std::max(now, last_ + least) : now;
    }

  private:
    static constexpr Clock::duration longest = std::chrono::milliseconds(100);

    Clock::time_point last_{};
    Clock::duration average_ = longest;  // time between two looks
};

}  // namespace baton::tables
