#pragma once
// Two reasons to send nothing for a while: a sink that takes nothing, and a limit on the rate. The time is an
// argument.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/backoff.hpp"

namespace baton::relay {

using Time = std::chrono::steady_clock::time_point;

// After several failures in a row nothing is sent for a while, then one message as a probe. Each probe that
// fails makes the next pause longer.
class Breaker {
  public:
    Breaker(unsigned threshold, Backoff pauses) : threshold_(threshold), pauses_(pauses) {}

    bool open() const { return until_.has_value(); }
    std::optional<Time> until() const { return until_; }
    // How many pauses there were since something was delivered.
    unsigned pauses() const { return count_; }
    bool allows(Time now, std::size_t in_flight) const {
        return !until_ || (now >= *until_ && !probing_ && in_flight == 0);
    }

    void sent() { probing_ = until_.has_value(); }
    // Note a delivery. True when the sink was down between the last delivery and this one.
    bool delivered() {
        failures_ = 0;
        count_ = 0;
        until_.reset();
        probing_ = false;
        return std::exchange(was_down_, false);
    }
    // Note that the sink refused a message for its content: so the sink is up.
    void rejected() {
        if (!std::exchange(probing_, false)) return;
        until_.reset();
    }
    template <class Random>
    void failed(Time now, Random& random) {
        if (++failures_ < threshold_ && !probing_) return;
        if (until_ && !probing_) return;
        probing_ = false;
        was_down_ = true;
        until_ = now + pauses_.delay(++count_, random);
    }

  private:
    const unsigned threshold_;
    const Backoff pauses_;
    unsigned failures_ = 0;  // in a row
    unsigned count_ = 0;
    std::optional<Time> until_;
    bool probing_ = false;
    bool was_down_ = false;
};

// So many messages per second, evenly. What was not used is saved for a tenth of a second.
class RateLimit {
  public:
    explicit RateLimit(double per_second) : per_second_(per_second) {}

    bool limited() const { return per_second_ > 0; }
    bool allows(Time now) {
        if (!limited()) return true;
        const double passed = std::chrono::duration<double>(now - at_).count();
        tokens_ = std::min(tokens_ + passed * per_second_, std::max(1.0, per_second_ / 10));
        at_ = now;
        return tokens_ >= 1;
    }
    void sent() {
        if (limited()) tokens_ -= 1;
    }
    // When the next message may go.
    Time next() const {
        return at_ + std::chrono::microseconds(static_cast<std::int64_t>(1e6 / per_second_));
    }

  private:
    const double per_second_;
    double tokens_ = 0;
    Time at_{};
};

}  // namespace baton::relay
