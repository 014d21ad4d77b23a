#pragma once
// Makes queues and exchanges of RabbitMQ, reads queues without taking anything, and follows them.

#include <amqp.h>

#include <chrono>
#include <string>
#include <vector>

#include "brokers/received.hpp"

namespace baton::brokers {

class RabbitClient {
  public:
    // amqp://user:password@host:port/vhost. Throws Error.
    explicit RabbitClient(const std::string& url);
    ~RabbitClient();
    RabbitClient(const RabbitClient&) = delete;
    RabbitClient& operator=(const RabbitClient&) = delete;

    // Make a durable queue. With a limit the queue refuses messages beyond the limit.
    void declare_queue(const std::string& name, int limit = 0);
    void declare_exchange(const std::string& name, const std::string& type);
    void bind(const std::string& queue, const std::string& exchange, const std::string& key);
    void delete_queue(const std::string& name);
    void delete_exchange(const std::string& name);
    // Read everything and take nothing: messages that were not acknowledged go back when this connection
    // ends. Throws Error for a message that is not persistent.
    std::vector<Received> read_all(const std::string& queue);

    // Make a queue, bind it to this exchange, and follow it. The queue lives as long as this connection.
    void follow(const std::string& exchange, const std::string& key);
    std::vector<Received> read(std::chrono::milliseconds patience);

  private:
    void expect(const amqp_rpc_reply_t& reply, const char* what) const;

    amqp_connection_state_t state_;
};

}  // namespace baton::brokers
