#include "brokers/mqtt/form.hpp"

#include <algorithm>

#include "brokers/mqtt/packet.hpp"
#include "event/json.hpp"

namespace baton::brokers {

namespace {

const char* flaw_of_name(std::string_view name) {
    if (name.empty()) return "is empty";
    if (name.size() > mqtt_longest_text) return "is longer than the 65535 bytes that a topic may have";
    if (!is_text(name)) return "is not UTF-8, or has a zero in it";
    return nullptr;
}

}  // namespace

const char* flaw_of_mqtt_topic(std::string_view topic) {
    if (const char* flaw = flaw_of_name(topic)) return flaw;
    return topic.find_first_of("+#") == std::string_view::npos ? nullptr : "has a wildcard";
}

const char* flaw_of_mqtt_filter(std::string_view filter) {
    if (const char* flaw = flaw_of_name(filter)) return flaw;
    constexpr std::string_view shared = "$share/";
    if (filter.starts_with(shared)) {
        filter.remove_prefix(shared.size());
        const auto slash = filter.find('/');
        if (slash == 0 || slash == std::string_view::npos || slash + 1 == filter.size())
            return "must be $share/GROUP/TOPIC";
        if (filter.substr(0, slash).find_first_of("+#") != std::string_view::npos)
            return "has a wildcard in its group";
        filter.remove_prefix(slash + 1);
    }
    for (;;) {
        const auto slash = std::min(filter.find('/'), filter.size());
        const auto level = filter.substr(0, slash);
        const bool last = slash == filter.size();
        if (level.find_first_of("+#") != std::string_view::npos && level != "+" && !(level == "#" && last))
            return "has a wildcard that does not stand alone between slashes, or a # before its end";
        if (last) return nullptr;
        filter.remove_prefix(slash + 1);
    }
}

}  // namespace baton::brokers
