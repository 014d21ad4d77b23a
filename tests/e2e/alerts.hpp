#pragma once
// The alert rules in monitoring/ as a test fires them, and which of them fire in a Prometheus.

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "support/cluster.hpp"
#include "support/prometheus.hpp"

namespace baton::test {

// What a pattern's first group finds in a text.
inline std::set<std::string> matches(const std::string& text, const char* pattern) {
    const std::regex wanted(pattern);
    std::set<std::string> found;
    for (auto at = std::sregex_iterator(text.begin(), text.end(), wanted); at != std::sregex_iterator(); ++at)
        found.insert((*at)[1]);
    return found;
}

inline std::set<std::string> alerts_of(const std::string& rules) {
    return matches(rules, "- alert: (\\w+)");
}

// Ages that no test waits for, by their alert: what the rule says, and what the test's copy says.
inline const std::map<std::string, std::pair<std::string, std::string>> shorter_ages{
    {"BatonJobHangs", {"> 3600", "> 10"}},
    {"BatonLongPublisher", {"> 300", "> 10"}},
    {"BatonLongTransaction", {"> 3600", "> 10"}},
};

// The rules as they are, but for their patience (`for:`) and the ages above.
inline std::string shortened(const std::string& rules) {
    const std::regex patience("^ +for: ([0-9]+m)$");
    const std::regex name("^ +- alert: (\\w+)$");
    std::istringstream text(rules);
    std::string made, alert;
    std::size_t replaced = 0;
    for (std::string line; std::getline(text, line);) {
        std::smatch found;
        if (std::regex_match(line, found, name)) alert = found[1];
        if (std::regex_match(line, found, patience))
            line.replace(static_cast<std::size_t>(found.position(1)), std::string::npos, "1s");
        const auto age = shorter_ages.find(alert);
        if (age != shorter_ages.end() && line.starts_with("        expr: ")) {
            const auto& [long_age, short_age] = age->second;
            const auto at = line.find(long_age);
            if (at == std::string::npos || at + long_age.size() != line.size())
                throw Error("the rule " + alert + " does not end in " + long_age);
            line.replace(at, long_age.size(), short_age);
            ++replaced;
        }
        made += line + "\n";
    }
    if (replaced != shorter_ages.size()) throw Error("a rule whose age is shortened is not there");
    return made;
}

// Alerts that several troubles of the test let fire: the one that counts has this label.
inline const std::map<std::string, std::pair<std::string, std::string>> fired_by{
    {"BatonPipelineUnowned", {"pipeline", "held up"}},
};

inline std::string joined(const std::set<std::string>& names) {
    std::string all;
    for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
    return all;
}

// Which alerts fire, and which have not fired yet.
class Alerts {
  public:
    Alerts(const Prometheus& prometheus, std::set<std::string> all)
        : prometheus_(prometheus), missing_(std::move(all)) {}

    std::set<std::string> firing() const {
        std::set<std::string> names;
        const auto alerts = nlohmann::json::parse(prometheus_.ask("/api/v1/alerts"));
        for (const auto& alert : alerts.at("data").at("alerts")) {
            const auto& labels = alert.at("labels");
            const std::string name = labels.at("alertname");
            const auto by = fired_by.find(name);
            if (alert.at("state") == "firing" &&
                (by == fired_by.end() || labels.value(by->second.first, "") == by->second.second))
                names.insert(name);
        }
        return names;
    }
    void wait_for_only(const std::set<std::string>& wanted) {
        wait_until("no alert fires but " + joined(wanted), [&] { return firing() == wanted; });
        note(wanted);
    }
    void wait_for(const std::string& name) {
        wait_until(name + " fires", [&] { return firing().contains(name); });
        note({name});
    }
    void wait_for_end_of(const std::string& name) const {
        wait_until(name + " does not fire any more", [&] { return !firing().contains(name); });
    }
    // Each has fired by now, or fires soon. Returns those that do not.
    std::set<std::string> wait_for_all() {
        try {
            wait_until("every alert fires", [&] {
                note(firing());
                return missing_.empty();
            });
        } catch (const Error&) {
            return missing_;
        }
        return {};
    }

  private:
    void note(const std::set<std::string>& names) {
        for (const auto& name : names) missing_.erase(name);
    }

    const Prometheus& prometheus_;
    std::set<std::string> missing_;
};

}  // namespace baton::test
