#pragma once
// Topics of Kafka, made, read from their beginning and followed.

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brokers/kafka/client.hpp"
#include "brokers/received.hpp"

namespace baton::brokers {

void create_topic(const KafkaProperties& properties, const std::string& topic, int partitions,
                  const std::map<std::string, std::string>& settings = {});
void delete_topic(const KafkaProperties& properties, const std::string& topic);

// Everything in the topic now, oldest first within each partition.
std::vector<Received> read_topic(const KafkaProperties& properties, const std::string& topic);

// Produce a message with a key and a body only. Without a body the message is a tombstone.
void produce_bare(const KafkaProperties& properties, const std::string& topic, int partition,
                  const std::string& key, const char* body);

// How many messages of the topic the group has not committed.
std::size_t kafka_lag(const KafkaProperties& properties, const std::string& topic, const std::string& group);

// Follows a topic from its beginning, also when brokers go away and come back.
class KafkaTail {
  public:
    KafkaTail(const KafkaProperties& properties, const std::string& topic);
    ~KafkaTail();
    // Return what came since the last call. Waits up to `patience` for the first message.
    std::vector<Received> read(std::chrono::milliseconds patience);

  private:
    struct Consumer;
    std::unique_ptr<Consumer> consumer_;
};

}  // namespace baton::brokers
