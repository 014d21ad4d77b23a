#pragma once
// Wakes a thread that waits: another thread left a note, or interrupts.

#include <atomic>
#include <chrono>
#include <span>

struct pollfd;

namespace baton::tables {

class Wakeup {
  public:
    using Clock = std::chrono::steady_clock;

    Wakeup();
    ~Wakeup();
    Wakeup(const Wakeup&) = delete;
    Wakeup& operator=(const Wakeup&) = delete;

    // Any thread may call these. A ring before a wait makes this wait end at once.
    void ring();
    void interrupt();
    // True when somebody has interrupted since the last call.
    bool interrupted() { return interrupted_.exchange(false); }

    // Wait until somebody rings, one of `others` is ready, or the time has come. `others` say then what
    // happened to them.
    void wait(Clock::time_point until, std::span<pollfd> others = {});

  private:
    int file_;
    std::atomic<bool> interrupted_{false};
};

}  // namespace baton::tables
