#pragma once
// A bar chart as an SVG picture.

#include <filesystem>
#include <string>
#include <vector>

namespace baton::bench {

struct Bar {
    std::string group;   // bars of one group stand together
    std::string series;  // and have the colour of their series
    double value;
    std::string label;
};

void write_chart(const std::filesystem::path& file, const std::string& title, const std::vector<Bar>& bars);

}  // namespace baton::bench
