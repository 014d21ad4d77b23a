#pragma once
// The settings of one pipeline, source or sink, wherever they were written: a TOML file or the catalog.
//
// Each value remembers where it stands, so that an error can say file, line and key. Secrets are written as
// ${env:NAME} or
// ${file:/path} and are resolved when they are read, never when they are stored or shown.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "baton/error.hpp"

namespace baton::relay {

// A setting that is missing, of the wrong kind, or unknown; what() names place and key.
class SettingsError : public UsageError {
  public:
    using UsageError::UsageError;
};

class Settings {
  public:
    using Value = std::variant<std::string, std::int64_t, double, bool, std::vector<std::string>>;

    Settings() = default;
    // `name` is how messages call this group of settings: "pipeline orders, sink".
    explicit Settings(std::string name) : name_(std::move(name)) {}

    // Dotted keys make tables: "kafka.sasl.mechanism".
    void set(const std::string& key, Value value, const std::string& place = {});
    // Where the group itself begins, or the table below it that `key` names: for messages about what is
    // missing.
    void stand_at(const std::string& place, const std::string& key = {});

    bool has(const std::string& key) const { return values_.contains(key); }
    // Each throws SettingsError when the key is missing (the forms without a default) or of another kind.
    std::string text(const std::string& key) const;
    std::string text(const std::string& key, const std::string& fallback) const;
    std::int64_t number(const std::string& key, std::int64_t fallback) const;
    double real(const std::string& key, double fallback) const;
    bool boolean(const std::string& key, bool fallback) const;
    // "250ms", "5s", "2m", "1h", or a number of seconds.
    std::chrono::milliseconds duration(const std::string& key, std::chrono::milliseconds fallback) const;
    std::vector<std::string> list(const std::string& key, std::vector<std::string> fallback = {}) const;
    // Everything below "prefix." as text, for settings that are passed through to a library.
    std::map<std::string, std::string> table(const std::string& prefix) const;
    // The settings below "prefix." as a group of their own.
    Settings below(const std::string& prefix) const;

    // Refuse keys that nobody has read: call it when all are known.
    void refuse_unknown() const;
    // Throw SettingsError about a key, with its place.
    [[noreturn]] void refuse(const std::string& key, const std::string& why,
                             const std::string& hint = {}) const;

    const std::string& name() const { return name_; }
    // Where the group begins; empty when nobody knows.
    std::string place() const { return place_of({}); }
    // Everything as it is written: secrets are not resolved.
    std::map<std::string, Value> values() const;
    // Everything as it is meant now, with the secrets that are there at this moment. Throws SettingsError
    // when one is not there.
    std::map<std::string, Value> resolved() const;

  private:
    struct Entry {
        Value value;
        std::string place;
    };
    const Entry* find(const std::string& key) const;
    std::string place_of(const std::string& table) const;

    std::string name_;
    std::map<std::string, std::string> places_;  // of tables; "" is the group itself
    std::map<std::string, Entry> values_;
    mutable std::set<std::string> read_;
};

// Replace ${env:NAME} and ${file:/path}; throws SettingsError when one is not there.
std::string resolve_secrets(const std::string& text);

}  // namespace baton::relay
