#pragma once
// How a thread that waits is called: by a note that another thread left, or by an interruption.

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

    // Both may be called from any thread. Rung once or often before a wait, that wait ends at once.
    void ring();
    void interrupt();
    // Whether somebody has interrupted since the last call.
    bool interrupted() { return interrupted_.exchange(false); }

    // Wait until rung, until one of the others is ready, or for the time. Leaves in `others` what happened to
    // them.
    void wait(Clock::time_point until, std::span<pollfd> others = {});

  private:
    int file_;
    std::atomic<bool> interrupted_{false};
};

}  // namespace baton::tables
