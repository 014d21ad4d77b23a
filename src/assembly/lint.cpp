#include "assembly/lint.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace baton::assembly {

using relay::Settings;
using relay::SettingsError;

namespace {

constexpr std::size_t most_problems = 50;

// What may stand where nobody knows the secret. One of them has the form that the setting needs.
constexpr std::array stand_ins{"unknown", "http://unknown.invalid/", "postgresql://unknown.invalid/d", "1s"};

bool has_reference(const std::string& text) {
    return text.find("${") != std::string::npos;
}

bool has_reference(const Settings::Value& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return has_reference(*text);
    const auto* list = std::get_if<std::vector<std::string>>(&value);
    return list != nullptr &&
           std::any_of(list->begin(), list->end(), [](const auto& item) { return has_reference(item); });
}

// Takes settings out one after the other, until the rest can be.
class Lint {
  public:
    Lint(Settings pipeline, Secrets secrets) : pipeline_(std::move(pipeline)) {
        if (secrets == Secrets::followed) return;
        for (const auto& [key, value] : pipeline_.values())
            if (has_reference(value)) stand_in(key);
    }

    std::vector<SettingsError> run(const RelayIdentity& identity) {
        while (found_.size() < most_problems) {
            try {
                make_parts(pipeline_, identity);
                break;
            } catch (const SettingsError& error) {
                if (!go_on_without(error)) break;
            } catch (const Error& error) {
                found_.emplace_back(error.what(), error.hint());
                break;
            }
        }
        return std::move(found_);
    }

  private:
    bool stand_in(const std::string& key) {
        auto& next = stood_in_[key];
        if (next == stand_ins.size()) return false;
        pipeline_.set(key, std::string(stand_ins.at(next++)));
        return true;
    }

    bool go_on_without(const SettingsError& error) {
        const std::string& key = error.key();
        if (stood_in_.contains(key)) {
            if (!stand_in(key)) take_out(key);
            return true;
        }
        if (!taken_out_.contains(key)) found_.push_back(error);
        if (pipeline_.has(key)) return take_out(key);
        return exchange(key.substr(0, key.find('.')));
    }

    bool take_out(const std::string& key) {
        pipeline_.erase(key);
        stood_in_.erase(key);
        taken_out_.insert(key);
        return true;
    }

    // A table that lacks something says nothing more. Another one takes its place, so that the rest is seen.
    bool exchange(const std::string& table) {
        if ((table != "source" && table != "sink") || !exchanged_.insert(table).second) return false;
        for (const auto& [key, _] : pipeline_.values())
            if (key.starts_with(table + ".")) pipeline_.erase(key);
        pipeline_.set(table == "sink" ? "sink.type" : "source.outbox",
                      std::string(table == "sink" ? "null" : "any"));
        return true;
    }

    Settings pipeline_;
    std::vector<SettingsError> found_;
    std::map<std::string, std::size_t> stood_in_;  // how many of the stand-ins were tried
    std::set<std::string> taken_out_, exchanged_;
};

}  // namespace

std::vector<SettingsError> problems_of(Settings pipeline, const RelayIdentity& identity, Secrets secrets) {
    return Lint(std::move(pipeline), secrets).run(identity);
}

}  // namespace baton::assembly
