#pragma once
// How long to wait before the next try: the wait doubles from `base` on, up to `limit`. Jitter spreads the
// tries of many clients.

#include <algorithm>
#include <chrono>
#include <random>

namespace baton {

struct Backoff {
    std::chrono::milliseconds base{100};
    std::chrono::milliseconds limit{30000};

    // The wait before attempt number `attempt` + 1: between half and all of the doubled time.
    template <class Random>
    std::chrono::milliseconds delay(unsigned attempt, Random& random) const {
        const std::chrono::milliseconds doubled(base.count() << std::min(attempt > 0 ? attempt - 1 : 0, 20U));
        const auto full = std::max(std::min(doubled, limit), std::chrono::milliseconds(1));
        return std::chrono::milliseconds(
            std::uniform_int_distribution<long long>((full.count() + 1) / 2, full.count())(random));
    }
};

}  // namespace baton
