#pragma once
// Making topics and reading them back, straight at the broker.

#include <map>
#include <string>
#include <vector>

#include "conformance/sink_fixture.hpp"

namespace baton::test {

void create_topic(const std::string& brokers, const std::string& topic, int partitions,
                  const std::map<std::string, std::string>& settings = {});

// Every message of the topic, partition after partition, up to the end that each had when the reading began.
std::vector<Received> read_topic(const std::string& brokers, const std::string& topic);

// Produce a message with a key and nothing else; without a body it is a tombstone.
void produce_bare(const std::string& brokers, const std::string& topic, int partition, const std::string& key,
                  const char* body);

// How many messages of the topic the group has not committed.
std::size_t kafka_lag(const std::string& brokers, const std::string& topic, const std::string& group);

}  // namespace baton::test
