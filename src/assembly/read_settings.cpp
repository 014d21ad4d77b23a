#include "assembly/read_settings.hpp"

namespace baton::assembly {

using relay::Settings;

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
    const Backoff read{settings.span(base, fallback.base), settings.span(limit, fallback.limit)};
    if (read.limit < read.base)
        settings.refuse(settings.has(limit) ? limit : base, "is out of order",
                        limit + " must be at least " + base);
    return read;
}

}  // namespace baton::assembly
