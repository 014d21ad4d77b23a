#pragma once

#include "support/broker.hpp"

namespace baton::test {

// nats-server with JetStream.
class NatsServer final : public Broker {
  public:
    NatsServer();
    // Lines of its configuration; set them before start().
    std::vector<std::string> settings;
    std::string url() const { return "nats://127.0.0.1:" + std::to_string(port()); }

  protected:
    Command command() override;
    bool ready() override;
};

}  // namespace baton::test
