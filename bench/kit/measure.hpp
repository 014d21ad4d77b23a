#pragma once
// Stopwatches and percentiles.

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace baton::bench {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

inline double seconds(const std::function<void()>& action) {
    const auto start = Clock::now();
    action();
    return Seconds(Clock::now() - start).count();
}

// The value below which that part of them lies.
inline double percentile(std::vector<double> values, double part) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    return values[std::min(values.size() - 1,
                           static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

inline double median(std::vector<double> values) {
    return percentile(std::move(values), 0.5);
}

}  // namespace baton::bench
