#pragma once
// The destination that a sink's settings name, as far as the sink can use it itself.

#include <string>

#include "relay/settings.hpp"

namespace baton::brokers {

// Return the setting's text when it names one place for all events; empty when it is a template, which only
// an event can fill, a list, or not there.
inline std::string fixed_destination(const relay::Settings& settings, const std::string& key,
                                     bool commas_divide = true) {
    const std::string text = settings.text(key, "");
    return text.find_first_of(commas_divide ? "{}," : "{}") == std::string::npos ? text : std::string();
}

}  // namespace baton::brokers
