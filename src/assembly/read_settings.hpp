#pragma once
// Settings that must make sense: one of some words, in order.

#include <string>
#include <vector>

#include "base/backoff.hpp"
#include "relay/settings.hpp"

namespace baton::assembly {

// Each throws SettingsError with place and key.
std::string one_of(const relay::Settings& settings, const std::string& key, const std::string& fallback,
                   const std::vector<std::string>& known);
Backoff read_backoff(const relay::Settings& settings, const std::string& base, const std::string& limit,
                     Backoff fallback);

}  // namespace baton::assembly
