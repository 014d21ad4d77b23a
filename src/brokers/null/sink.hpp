#pragma once
// Takes everything and keeps nothing, to measure what the rest of a pipeline costs.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_null_sink(const relay::Settings& settings);

}  // namespace baton::brokers
