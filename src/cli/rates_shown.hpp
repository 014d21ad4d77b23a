#pragma once
// Numbers that grow, as events per second over the last looks.

#include <chrono>
#include <deque>
#include <map>
#include <string>

namespace baton::cli {

constexpr std::size_t looks_shown = 16;

// As wide as it will ever be, so that nothing beside it moves.
std::string sparkline(const std::deque<double>& values);

class Rates {
  public:
    using Clock = std::chrono::steady_clock;

    void note(const std::string& name, double total, Clock::time_point now);
    const std::deque<double>& of(const std::string& name) { return std::get<2>(series_[name]); }

  private:
    std::map<std::string, std::tuple<double, Clock::time_point, std::deque<double>>> series_;
};

}  // namespace baton::cli
