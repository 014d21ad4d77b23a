#pragma once
// The settings of one pipeline, source or sink, wherever they were written: a TOML file or the catalog.
//
// Each value remembers its place, so that an error can say file, line and key. A secret is written as
// ${env:NAME} or ${file:/path}. It is resolved when it is read, never when it is stored or shown.

#include <chrono>
#include <cstdint>
#include <limits>
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
    explicit SettingsError(const std::string& what, const std::string& hint = {}, std::string key = {})
        : UsageError(what, hint), key_(std::move(key)) {}

    // The setting with its tables, like sink.url; empty when it is about none, or about several.
    const std::string& key() const { return key_; }

  private:
    std::string key_;
};

class Settings {
  public:
    using Value = std::variant<std::string, std::int64_t, double, bool, std::vector<std::string>>;

    Settings() = default;
    // `name` is how messages call this group of settings: "pipeline orders, sink".
    explicit Settings(std::string name) : name_(std::move(name)) {}

    // Dotted keys make tables: "kafka.sasl.mechanism".
    void set(const std::string& key, Value value, const std::string& place = {});
    // Note where the group begins, or the table `key` below it: for messages about missing settings.
    void stand_at(const std::string& place, const std::string& key = {});
    // Take a setting out.
    void erase(const std::string& key) { values_.erase(key); }

    bool has(const std::string& key) const { return values_.contains(key); }
    // These throw SettingsError when the value is of another kind. The forms without a default also throw
    // when the key is missing.
    std::string text(const std::string& key) const;
    std::string text(const std::string& key, const std::string& fallback) const;
    std::int64_t number(const std::string& key, std::int64_t fallback) const;
    // A whole number of things, at least 1 and at most `most`.
    std::size_t count(const std::string& key, std::size_t fallback,
                      std::size_t most = std::numeric_limits<std::int64_t>::max()) const;
    double real(const std::string& key, double fallback) const;
    bool boolean(const std::string& key, bool fallback) const;
    // "250ms", "5s", "2m", "1h", or a number of seconds.
    std::chrono::milliseconds duration(const std::string& key, std::chrono::milliseconds fallback) const;
    // The same, above zero.
    std::chrono::milliseconds span(const std::string& key, std::chrono::milliseconds fallback) const;
    std::vector<std::string> list(const std::string& key, std::vector<std::string> fallback = {}) const;
    // Everything below "prefix." as text, for settings that are passed through to a library.
    std::map<std::string, std::string> table(const std::string& prefix) const;
    // The settings below "prefix." as a group of their own.
    Settings below(const std::string& prefix) const;

    // Refuse keys that nobody has read. Call this when all keys are known.
    void refuse_unknown() const;
    // Throw SettingsError about a key, with its place.
    [[noreturn]] void refuse(const std::string& key, const std::string& why,
                             const std::string& hint = {}) const;

    const std::string& name() const { return name_; }
    // Where the group begins; empty when nobody knows.
    std::string place() const { return place_of({}); }
    // Everything as it is written: secrets are not resolved.
    std::map<std::string, Value> values() const;
    // Everything with the secrets of this moment. Throws SettingsError when a secret is missing.
    std::map<std::string, Value> resolved() const;

  private:
    struct Entry {
        Value value;
        std::string place;
    };
    const Entry* find(const std::string& key) const;
    std::string place_of(const std::string& table) const;

    std::string name_;
    std::string tables_;                         // in which the group stands: "sink.tls."
    std::map<std::string, std::string> places_;  // of tables; "" is the group itself
    std::map<std::string, Entry> values_;
    mutable std::set<std::string> read_;
};

// Replace ${env:NAME} and ${file:/path}. Throws SettingsError when a secret is missing.
std::string resolve_secrets(const std::string& text);

}  // namespace baton::relay
