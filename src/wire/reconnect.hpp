#pragma once
// When a sink may try to connect again: exponential backoff with jitter.

#include <algorithm>
#include <chrono>
#include <random>

namespace baton::wire {

class Reconnect {
  public:
    using Clock = std::chrono::steady_clock;

    // True when the pause after the last failure is over.
    bool due() const { return Clock::now() >= next_; }

    // How long until the next try; zero when the try is due.
    std::chrono::milliseconds remaining() const {
        return std::max(std::chrono::ceil<std::chrono::milliseconds>(next_ - Clock::now()),
                        std::chrono::milliseconds(0));
    }

    // Note a failed or broken connection: the pause doubles up to five seconds, half of it is random.
    void failed() {
        std::uniform_int_distribution<std::chrono::milliseconds::rep> jitter(pause_.count() / 2,
                                                                             pause_.count());
        next_ = Clock::now() + std::chrono::milliseconds(jitter(random_));
        pause_ = std::min(pause_ * 2, std::chrono::milliseconds(5000));
    }

    // Note that the connection works.
    void succeeded() { pause_ = std::chrono::milliseconds(50); }

  private:
    Clock::time_point next_{};
    std::chrono::milliseconds pause_{50};
    std::minstd_rand random_{std::random_device{}()};
};

}  // namespace baton::wire
