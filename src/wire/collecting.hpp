#pragma once
// How a sink that sends and hears on one connection of its own collects.

#include <algorithm>
#include <chrono>
#include <iterator>
#include <vector>

#include "baton/error.hpp"
#include "relay/io.hpp"

namespace baton::wire {

// Pump until something is done, nothing is under way or the patience is over; then hand over what is done.
// `pump` and `wait` may throw ConnectionError: `end` gives back what was under way on the connection.
template <class Busy, class Pump, class Wait, class End>
void collect_done(std::vector<relay::Delivery>& done, std::vector<relay::Delivery>& deliveries,
                  std::chrono::milliseconds patience, Busy busy, Pump pump, Wait wait, End end) {
    using Clock = std::chrono::steady_clock;
    using std::chrono::milliseconds;
    const auto deadline = Clock::now() + patience;
    while (busy()) {
        try {
            pump();
            if (!done.empty() || !busy()) break;
            const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
            if (left <= milliseconds(0)) break;
            wait(std::min(left, milliseconds(250)));
        } catch (const ConnectionError& error) {
            end(error);
        }
    }
    std::move(done.begin(), done.end(), std::back_inserter(deliveries));
    done.clear();
}

}  // namespace baton::wire
