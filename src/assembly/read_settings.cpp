#include "assembly/read_settings.hpp"

namespace baton::assembly {

using namespace std::chrono_literals;
using relay::Settings;
using std::chrono::milliseconds;

std::int64_t positive(const Settings& settings, const std::string& key, std::int64_t fallback) {
    const auto value = settings.number(key, fallback);
    if (value < 1) settings.refuse(key, "must be at least 1");
    return value;
}

milliseconds positive_time(const Settings& settings, const std::string& key, milliseconds fallback) {
    const auto value = settings.duration(key, fallback);
    if (value < 1ms) settings.refuse(key, "must be above zero");
    return value;
}

std::string one_of(const Settings& settings, const std::string& key, const std::string& fallback,
                   const std::vector<std::string>& known) {
    std::string value = settings.text(key, fallback);
    std::string list;
    for (const auto& word : known) {
        if (value == word) return value;
        list += (list.empty() ? "" : ", ") + word;
    }
    settings.refuse(key, "is \"" + value + "\"", "write one of: " + list);
}

Backoff read_backoff(const Settings& settings, const std::string& base, const std::string& limit,
                     Backoff fallback) {
    const Backoff read{positive_time(settings, base, fallback.base),
                       positive_time(settings, limit, fallback.limit)};
    if (read.limit < read.base)
        settings.refuse(settings.has(limit) ? limit : base, "is out of order",
                        limit + " must be at least " + base);
    return read;
}

}  // namespace baton::assembly
