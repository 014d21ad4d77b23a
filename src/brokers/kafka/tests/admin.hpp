#pragma once
// What an operator of Kafka does. Throws Error in the broker's words.

#include <librdkafka/rdkafka.h>

#include <string>

namespace baton::test {

// Let a user ("User:relay") do this with every topic.
void grant(const std::string& broker, const char* user, rd_kafka_AclOperation_t what);
// Change a topic's setting; empty: back to the default.
void alter_topic(const std::string& broker, const std::string& topic, const char* name, const char* value);

}  // namespace baton::test
