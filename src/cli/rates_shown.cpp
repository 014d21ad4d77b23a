#include "cli/rates_shown.hpp"

#include <algorithm>

namespace baton::cli {

std::string sparkline(const std::deque<double>& values) {
    static const char* const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    double highest = 0;
    for (const double value : values) highest = std::max(highest, value);
    std::string line(looks_shown - std::min(looks_shown, values.size()), ' ');
    for (const double value : values)
        line += highest <= 0
                    ? bars[0]
                    : bars[std::min<std::size_t>(7, static_cast<std::size_t>(value / highest * 7.999))];
    return line;
}

void Rates::note(const std::string& name, double total, Clock::time_point now) {
    auto& [last, at, history] = series_[name];
    if (at != Clock::time_point{}) {
        const double seconds = std::chrono::duration<double>(now - at).count();
        history.push_back(std::max(0.0, (total - last) / std::max(seconds, 0.001)));
        if (history.size() > looks_shown) history.pop_front();
    }
    last = total;
    at = now;
}

}  // namespace baton::cli
