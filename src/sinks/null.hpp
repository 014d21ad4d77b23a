#pragma once
// Takes everything and keeps nothing: for measuring what the rest costs.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::sinks {

std::unique_ptr<relay::Sink> make_null(const relay::Settings& settings);

}  // namespace baton::sinks
