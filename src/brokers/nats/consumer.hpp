#pragma once
// A durable pull consumer of a JetStream stream, which the source finds or makes.

#include <nats/nats.h>

#include <chrono>
#include <memory>
#include <string>

#include "brokers/nats/session.hpp"

namespace baton::brokers {

struct NatsConsumerOptions {
    std::string stream, durable, subject;
    bool from_end = false;
    std::chrono::milliseconds ack_wait{};
    std::int64_t max_ack_pending = 0;
};

// Throw ConnectionError unless the library says that all is well. `doing` says what was tried.
void need_nats(natsStatus status, const std::string& doing);

// A connection with JetStream on it.
class NatsLink {
  public:
    // Connect; throws ConnectionError.
    explicit NatsLink(const NatsOptions& server);
    ~NatsLink();
    NatsLink(const NatsLink&) = delete;
    NatsLink& operator=(const NatsLink&) = delete;

    natsConnection* connection() const { return connection_; }
    jsCtx* jetstream() const { return jetstream_; }

  private:
    natsConnection* connection_ = nullptr;
    jsCtx* jetstream_ = nullptr;
};

using NatsConsumerInfo = std::unique_ptr<jsConsumerInfo, decltype(&jsConsumerInfo_Destroy)>;

// Find the consumer, or make it when `may_create`. Throws UsageError for a consumer that could lose messages,
// and Error when stream or consumer is missing.
NatsConsumerInfo find_nats_consumer(const NatsLink& link, const NatsConsumerOptions& options,
                                    bool may_create);

}  // namespace baton::brokers
