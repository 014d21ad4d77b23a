#include "relay/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>
#include <utility>

namespace baton::relay {

namespace {

const char* kind_of(const Settings::Value& value) {
    constexpr const char* kinds[] = {"text", "a whole number", "a number", "true or false", "a list"};
    return kinds[value.index()];
}

std::string secret(const std::string& reference) {
    if (reference.starts_with("env:")) {
        const char* value = std::getenv(reference.c_str() + 4);
        if (value == nullptr)
            throw SettingsError("the environment variable " + reference.substr(4) + " is not set",
                                "set it where the relay is started");
        return value;
    }
    if (reference.starts_with("file:")) {
        std::ifstream file(reference.substr(5));
        if (!file) throw SettingsError("the secret's file " + reference.substr(5) + " cannot be read");
        std::ostringstream text;
        text << file.rdbuf();
        std::string value = text.str();
        while (!value.empty() && (value.back() == '\n' || value.back() == '\r')) value.pop_back();
        return value;
    }
    throw SettingsError("unknown reference ${" + reference + "}", "write ${env:NAME} or ${file:/path}");
}

constexpr double longest_duration =
    100.0 * 365 * 24 * 3'600'000;  // in milliseconds; can be added to any time

std::optional<std::chrono::milliseconds> parse_duration(const std::string& text) {
    double amount = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
    if (error != std::errc{}) return std::nullopt;
    const std::string unit(end, text.data() + text.size());
    const std::map<std::string, double> factors{
        {"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60'000}, {"h", 3'600'000}};
    const auto factor = factors.find(unit);
    if (factor == factors.end()) return std::nullopt;
    const double milliseconds = amount * factor->second;
    if (!(milliseconds >= 0 && milliseconds <= longest_duration)) return std::nullopt;  // nan is neither
    return std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds));
}

// How many letters must be added, left out or exchanged to make one word the other.
std::size_t difference(const std::string& one, const std::string& other) {
    std::vector<std::size_t> row(other.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 0; i < one.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < other.size(); ++j) {
            const std::size_t exchanged = diagonal + (one[i] == other[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({exchanged, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

// The candidate that a slip of the hand may have made of the word; empty when none is near.
template <class Words>
std::string nearest(const std::string& word, const Words& candidates) {
    std::string best;
    std::size_t least = std::min<std::size_t>(2, word.size() / 3) + 1;
    for (const std::string& candidate : candidates) {
        if (candidate.size() >= word.size() + least || word.size() >= candidate.size() + least) continue;
        const std::size_t apart = difference(word, candidate);
        if (apart == 0 || apart >= least) continue;
        least = apart;
        best = candidate;
    }
    return best;
}

}  // namespace

std::string resolve_secrets(const std::string& text) {
    std::string resolved;
    std::size_t from = 0;
    for (;;) {
        const auto start = text.find("${", from);
        const auto end = start == std::string::npos ? start : text.find('}', start);
        if (end == std::string::npos) return resolved + text.substr(from);
        resolved += text.substr(from, start - from) + secret(text.substr(start + 2, end - start - 2));
        from = end + 1;
    }
}

void Settings::set(const std::string& key, Value value, const std::string& place) {
    values_[key] = Entry{std::move(value), place};
}

void Settings::stand_at(const std::string& place, const std::string& key) {
    places_[key] = place;
}

std::string Settings::place_of(const std::string& table) const {
    const auto found = places_.find(table);
    if (found != places_.end()) return found->second;
    const auto own = places_.find("");
    return own == places_.end() ? "" : own->second;
}

const Settings::Entry* Settings::find(const std::string& key) const {
    read_.insert(key);
    const auto entry = values_.find(key);
    return entry == values_.end() ? nullptr : &entry->second;
}

void Settings::refuse(const std::string& key, const std::string& why, const std::string& hint) const {
    const auto entry = values_.find(key);
    std::string place = entry == values_.end() ? std::string() : entry->second.place;
    if (place.empty()) place = this->place();
    if (!place.empty()) place += ": ";
    throw SettingsError(place + name_ + ": " + key + " " + why, hint, tables_ + key);
}

std::string Settings::text(const std::string& key) const {
    if (has(key)) return text(key, {});
    std::vector<std::string> unread;
    for (const auto& [written, entry] : values_)
        if (!read_.contains(written)) unread.push_back(written);
    const std::string slip = nearest(key, unread);
    refuse(key, "is missing", slip.empty() ? "" : "there is " + slip + ": did you mean " + key + "?");
}

std::string Settings::text(const std::string& key, const std::string& fallback) const {
    const Entry* entry = find(key);
    if (entry == nullptr) return fallback;
    const auto* value = std::get_if<std::string>(&entry->value);
    if (value == nullptr) refuse(key, std::string("must be text, not ") + kind_of(entry->value));
    try {
        return resolve_secrets(*value);
    } catch (const SettingsError& error) {
        refuse(key, std::string("cannot be resolved: ") + error.what(), error.hint());
    }
}

std::int64_t Settings::number(const std::string& key, std::int64_t fallback) const {
    const Entry* entry = find(key);
    if (entry == nullptr) return fallback;
    const auto* value = std::get_if<std::int64_t>(&entry->value);
    if (value == nullptr) refuse(key, std::string("must be a whole number, not ") + kind_of(entry->value));
    return *value;
}

std::size_t Settings::count(const std::string& key, std::size_t fallback, std::size_t most) const {
    const auto value = number(key, static_cast<std::int64_t>(fallback));
    const bool limited = most < std::numeric_limits<std::int64_t>::max();
    if (value < 1 || static_cast<std::size_t>(value) > most)
        refuse(key, limited ? "must be between 1 and " + std::to_string(most) : "must be at least 1");
    return static_cast<std::size_t>(value);
}

double Settings::real(const std::string& key, double fallback) const {
    const Entry* entry = find(key);
    if (entry == nullptr) return fallback;
    if (const auto* whole = std::get_if<std::int64_t>(&entry->value)) return static_cast<double>(*whole);
    const auto* value = std::get_if<double>(&entry->value);
    if (value == nullptr) refuse(key, std::string("must be a number, not ") + kind_of(entry->value));
    return *value;
}

bool Settings::boolean(const std::string& key, bool fallback) const {
    const Entry* entry = find(key);
    if (entry == nullptr) return fallback;
    const auto* value = std::get_if<bool>(&entry->value);
    if (value == nullptr) refuse(key, std::string("must be true or false, not ") + kind_of(entry->value));
    return *value;
}

std::chrono::milliseconds Settings::duration(const std::string& key,
                                             std::chrono::milliseconds fallback) const {
    const Entry* entry = find(key);
    if (entry == nullptr) return fallback;
    std::optional<std::chrono::milliseconds> parsed;
    if (const auto* seconds = std::get_if<std::int64_t>(&entry->value))
        parsed = parse_duration(std::to_string(*seconds));
    else if (const auto* written = std::get_if<std::string>(&entry->value))
        parsed = parse_duration(*written);
    if (!parsed) refuse(key, "is no duration", "write 250ms, 5s, 2m or 1h, up to a hundred years");
    return *parsed;
}

std::chrono::milliseconds Settings::span(const std::string& key, std::chrono::milliseconds fallback) const {
    const auto value = duration(key, fallback);
    if (value.count() < 1) refuse(key, "must be above zero");
    return value;
}

std::vector<std::string> Settings::list(const std::string& key, std::vector<std::string> fallback) const {
    const Entry* entry = find(key);
    if (entry == nullptr) return fallback;
    if (const auto* one = std::get_if<std::string>(&entry->value)) return {resolve_secrets(*one)};
    const auto* value = std::get_if<std::vector<std::string>>(&entry->value);
    if (value == nullptr) refuse(key, std::string("must be a list of texts, not ") + kind_of(entry->value));
    std::vector<std::string> resolved;
    for (const auto& item : *value) resolved.push_back(resolve_secrets(item));
    return resolved;
}

std::map<std::string, std::string> Settings::table(const std::string& prefix) const {
    std::map<std::string, std::string> entries;
    for (const auto& [key, entry] : values_) {
        if (!key.starts_with(prefix + ".")) continue;
        read_.insert(key);
        const std::string name = key.substr(prefix.size() + 1);
        if (const auto* text = std::get_if<std::string>(&entry.value))
            entries[name] = resolve_secrets(*text);
        else if (const auto* whole = std::get_if<std::int64_t>(&entry.value))
            entries[name] = std::to_string(*whole);
        else if (const auto* flag = std::get_if<bool>(&entry.value))
            entries[name] = *flag ? "true" : "false";
        else
            refuse(key, std::string("must be a single value, not ") + kind_of(entry.value));
    }
    return entries;
}

Settings Settings::below(const std::string& prefix) const {
    Settings group(name_.empty() ? prefix : name_ + ", " + prefix);
    group.tables_ = tables_ + prefix + ".";
    for (const auto& [key, entry] : values_) {
        if (!key.starts_with(prefix + ".")) continue;
        read_.insert(key);
        group.values_[key.substr(prefix.size() + 1)] = entry;
    }
    if (const std::string place = place_of(prefix); !place.empty()) group.stand_at(place);
    for (const auto& [key, place] : places_)
        if (key.starts_with(prefix + ".")) group.places_[key.substr(prefix.size() + 1)] = place;
    return group;
}

std::map<std::string, Settings::Value> Settings::values() const {
    std::map<std::string, Value> all;
    for (const auto& [key, entry] : values_) all.emplace(key, entry.value);
    return all;
}

std::map<std::string, Settings::Value> Settings::resolved() const {
    std::map<std::string, Value> all = values();
    for (auto& [key, value] : all) {
        if (auto* text = std::get_if<std::string>(&value)) {
            *text = resolve_secrets(*text);
        } else if (auto* list = std::get_if<std::vector<std::string>>(&value)) {
            for (auto& item : *list) item = resolve_secrets(item);
        }
    }
    return all;
}

void Settings::refuse_unknown() const {
    for (const auto& [key, entry] : values_)
        if (!read_.contains(key)) {
            const std::string meant = nearest(key, read_);
            refuse(key, "is not a setting known here",
                   meant.empty() ? "check its spelling and its table" : "did you mean " + meant + "?");
        }
}

}  // namespace baton::relay
