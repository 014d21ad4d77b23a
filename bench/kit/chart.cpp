#include "kit/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace baton::bench {

void write_chart(const std::filesystem::path& file, const std::string& title, const std::vector<Bar>& bars) {
    constexpr std::array colours{"#9aa5b1", "#1f6feb", "#d29922", "#2da44e"};
    constexpr int left = 130, width = 560, height = 20, gap = 14, top = 64;
    std::vector<std::string> series;
    double largest = 0;
    for (const auto& bar : bars) {
        if (std::ranges::find(series, bar.series) == series.end()) series.push_back(bar.series);
        largest = std::max(largest, bar.value);
    }
    std::string body;
    int y = top;
    std::string group;
    for (const auto& bar : bars) {
        if (bar.group != group) {
            if (!group.empty()) y += gap;
            body += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", left - 8, y + 15,
                                bar.group);
            body += '\n';
            group = bar.group;
        }
        const auto colour =
            colours[static_cast<std::size_t>(std::ranges::find(series, bar.series) - series.begin()) %
                    colours.size()];
        const double length = largest > 0 ? bar.value / largest * width : 0;
        body += fmt::format(
            R"(<rect x="{}" y="{}" width="{:.1f}" height="{}" fill="{}"/><text x="{:.1f}" y="{}">{}</text>)",
            left, y, length, height - 2, colour, left + length + 6, y + 15, bar.label);
        body += '\n';
        y += height;
    }
    std::string legend;
    int x = left;
    for (std::size_t i = 0; i < series.size(); ++i) {
        legend += fmt::format(
            R"(<rect x="{}" y="36" width="12" height="12" fill="{}"/><text x="{}" y="47">{}</text>)", x,
            colours[i % colours.size()], x + 18, series[i]);
        x += 40 + 8 * static_cast<int>(series[i].size());
    }
    std::ofstream(file) << fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="white"/>
<text x="{2}" y="22" font-size="15" font-weight="bold">{3}</text>
{4}
{5}</svg>
)",
        left + width + 130, y + 16, left, title, legend, body);
}

}  // namespace baton::bench
