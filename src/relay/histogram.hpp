#pragma once
// How many values fell under each of some bounds, and their sum. Adding one costs a few comparisons: it is
// done for every event.

#include <algorithm>
#include <array>
#include <cstdint>

namespace baton::relay {

template <const auto& upper_bounds>
class Histogram {
  public:
    void add(double value) {
        const auto place = std::lower_bound(upper_bounds.begin(), upper_bounds.end(), value);
        ++counts_[static_cast<std::size_t>(place - upper_bounds.begin())];
        sum_ += value;
    }
    Histogram& operator+=(const Histogram& other) {
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
        sum_ += other.sum_;
        return *this;
    }

    static constexpr const auto& bounds() { return upper_bounds; }
    // Values up to bounds()[i] and above the bound before; the last are those above all bounds.
    const auto& counts() const { return counts_; }
    double sum() const { return sum_; }

  private:
    std::array<std::uint64_t, upper_bounds.size() + 1> counts_{};
    double sum_ = 0;
};

inline constexpr std::array latency_bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,  0.25, 0.5,
                                           1.0,   2.5,    5.0,   10.0, 30.0,  60.0, 300., 3600.};
using Latencies = Histogram<latency_bounds>;  // in seconds

inline constexpr std::array size_bounds{1.,   2.,   5.,    10.,   20.,   50.,    100.,
                                        200., 500., 1000., 2000., 5000., 10'000.};
using Sizes = Histogram<size_bounds>;

}  // namespace baton::relay
