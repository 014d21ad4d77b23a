#pragma once
// A broker's own library in the plainest loop that waits for its acknowledgements: what the relay is measured
// against. It sends the messages that the relay would send, with the same headers.

#include <memory>
#include <string>

#include "event/event.hpp"

namespace baton::bench {

class Producer {
  public:
    virtual ~Producer() = default;
    // Send the message so many times, as many in flight as the library likes; returns when all are
    // acknowledged.
    virtual void send(const Message& message, long times) = 0;
    // Send it once and wait for its acknowledgement.
    virtual void send_and_wait(const Message& message) { send(message, 1); }
};

std::unique_ptr<Producer> make_kafka_producer(const std::string& brokers, const std::string& topic);
std::unique_ptr<Producer> make_nats_producer(const std::string& url, const std::string& subject);
std::unique_ptr<Producer> make_redis_producer(int port, const std::string& stream);
std::unique_ptr<Producer> make_rabbitmq_producer(int port, const std::string& queue);

// Make what the messages go to.
void create_kafka_topic(const std::string& brokers, const std::string& topic);
void create_nats_stream(const std::string& url, const std::string& stream, const std::string& subject);
void create_rabbitmq_queue(int port, const std::string& queue);

}  // namespace baton::bench
