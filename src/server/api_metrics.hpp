#pragma once
// What `baton dashboard` says on /metrics: how it fares itself. What belongs to the database is told by
// relays, so that sums count everything once.

#include <prometheus/metric_family.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace baton::server {

class ApiCounts {
  public:
    void add_answer(int status) { ++answers_.at(static_cast<std::size_t>(status) / 100 % answers_.size()); }
    void add_wrong_token() { ++wrong_tokens_; }

    std::vector<prometheus::MetricFamily> families(std::size_t streams) const;

  private:
    std::array<std::atomic<std::uint64_t>, 6> answers_{};  // by the first digit of their status
    std::atomic<std::uint64_t> wrong_tokens_{0};
};

}  // namespace baton::server
