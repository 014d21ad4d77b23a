#pragma once

#include "support/broker.hpp"

namespace baton::test {

// redis-server with its append-only file, written before it answers.
class RedisServer final : public Broker {
  public:
    RedisServer();
    // Added to its command line: {"--maxmemory", "8mb"}.
    std::vector<std::string> options;

  protected:
    Command command() override;
    bool ready() override;
};

}  // namespace baton::test
