#pragma once
// A destination that is the same for all events.

#include <string>

#include "relay/settings.hpp"

namespace baton::brokers {

// Return the setting's text when it names one place for all events. Empty when the setting is missing, a
// list, or a template, which only an event can fill.
inline std::string fixed_destination(const relay::Settings& settings, const std::string& key,
                                     bool commas_divide = true) {
    const std::string text = settings.text(key, "");
    return text.find_first_of(commas_divide ? "{}," : "{}") == std::string::npos ? text : std::string();
}

}  // namespace baton::brokers
