#pragma once
// librdkafka's configuration and handles, for sink and source alike.

#include <librdkafka/rdkafka.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "relay/settings.hpp"

namespace baton::brokers {

using KafkaProperties = std::map<std::string, std::string>;
using KafkaProperty = std::pair<const char*, const char*>;
using KafkaConf = std::unique_ptr<rd_kafka_conf_t, decltype(&rd_kafka_conf_destroy)>;

// Set one property. Returns the library's complaint, or nothing.
std::string set_kafka_property(rd_kafka_conf_t* conf, const std::string& name, const std::string& value);

// Make the library's configuration, without its log on the terminal. Throws Error with the library's
// complaint.
KafkaConf make_kafka_conf(const KafkaProperties& properties);

// Make a producer or consumer. Throws Error.
rd_kafka_t* make_kafka_handle(rd_kafka_type_t type, KafkaConf conf);

// Read `properties` and `brokers` of a pipeline. The user's properties replace the defaults. Throws
// SettingsError for a property that the library refuses, and for another value of a fixed one.
KafkaProperties read_kafka_properties(const relay::Settings& settings,
                                      std::span<const KafkaProperty> defaults,
                                      std::span<const KafkaProperty> fixed);

}  // namespace baton::brokers
