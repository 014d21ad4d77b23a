#include "cli/updates.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <regex>
#include <sstream>

namespace fs = std::filesystem;

namespace baton::cli {

namespace {

std::vector<long> numbers_of(const std::string& version) {
    std::vector<long> numbers;
    std::istringstream parts(version);
    for (std::string part; std::getline(parts, part, '.');)
        numbers.push_back(std::strtol(part.c_str(), nullptr, 10));
    while (!numbers.empty() && numbers.back() == 0) numbers.pop_back();  // 1.0 is 1.0.0
    return numbers;
}

struct Step {
    std::string from;
    std::string to;
    fs::path script;
};

std::vector<Step> steps_in(const fs::path& folder) {
    static const std::regex name_form("baton--(.+)--(.+)\\.sql");
    std::vector<Step> steps;
    if (!fs::is_directory(folder)) return steps;
    for (const auto& entry : fs::directory_iterator(folder)) {
        std::smatch parts;
        const std::string name = entry.path().filename().string();
        if (std::regex_match(name, parts, name_form)) steps.push_back({parts[1], parts[2], entry.path()});
    }
    return steps;
}

}  // namespace

int compare_versions(const std::string& left, const std::string& right) {
    const auto a = numbers_of(left);
    const auto b = numbers_of(right);
    if (a == b) return 0;
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end()) ? -1 : 1;
}

std::optional<std::vector<fs::path>> find_updates(const fs::path& folder, const std::string& from,
                                                  const std::string& to) {
    const auto steps = steps_in(folder);
    std::map<std::string, Step> reached_by{{from, {}}};
    std::deque<std::string> frontier{from};
    while (!frontier.empty() && !reached_by.contains(to)) {  // breadth first finds the shortest way
        const std::string version = frontier.front();
        frontier.pop_front();
        for (const auto& step : steps)
            if (step.from == version && reached_by.emplace(step.to, step).second) frontier.push_back(step.to);
    }
    if (!reached_by.contains(to)) return std::nullopt;
    std::vector<fs::path> scripts;
    for (std::string version = to; version != from; version = reached_by.at(version).from)
        scripts.push_back(reached_by.at(version).script);
    std::reverse(scripts.begin(), scripts.end());
    return scripts;
}

}  // namespace baton::cli
