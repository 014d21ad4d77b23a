#pragma once
// The sinks by the name that a pipeline's `type` setting gives them.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::sinks {

using MakeSink = std::function<std::unique_ptr<relay::Sink>(const relay::Settings&)>;

// Every sink of this build: "kafka", "nats", "rabbitmq", "redis", "http", "sqs", "postgres", "file",
// "stdout", "null".
const std::map<std::string, MakeSink>& registry();

// Make the sink that settings.text("type") names; throws SettingsError for an unknown type or bad settings.
std::unique_ptr<relay::Sink> make_sink(const relay::Settings& settings);

}  // namespace baton::sinks
