#pragma once
// Writes JSON lines to standard output. Delivered means: the pipe, terminal or file behind it has the line.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_stdout_sink(const relay::Settings& settings);

}  // namespace baton::brokers
