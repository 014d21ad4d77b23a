#pragma once
// Streams of JetStream, made and read from their beginning.

#include <nats/nats.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "brokers/received.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

class NatsClient {
  public:
    // By url, username, password, token, credentials and tls_ca, as the sink reads them. Throws Error.
    explicit NatsClient(const relay::Settings& settings);
    explicit NatsClient(const std::string& url);
    ~NatsClient();
    NatsClient(const NatsClient&) = delete;
    NatsClient& operator=(const NatsClient&) = delete;

    // Make a stream that takes this subject. The stream refuses messages over `largest` bytes, unless
    // `largest` is 0.
    void add_stream(const std::string& name, const std::string& subject, int largest = 0);
    void delete_stream(const std::string& name);
    // Every message of the stream.
    std::vector<Received> read(const std::string& stream);
    // Follow the stream from this sequence number on. The next function returns the ids of messages that came
    // since the last call; it waits up to `patience` for the first.
    void follow(const std::string& stream, std::uint64_t next);
    std::vector<std::string> read_on(std::uint64_t& next, std::chrono::milliseconds patience);

  private:
    void connect(natsOptions* options);
    Received get(const std::string& stream, std::uint64_t sequence);

    natsConnection* connection_ = nullptr;
    jsCtx* jetstream_ = nullptr;
    natsSubscription* following_ = nullptr;
};

}  // namespace baton::brokers
