#pragma once
// A connection to Redis that runs one command after the other, and its streams as messages.

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brokers/received.hpp"

namespace baton::brokers {

class RedisClient {
  public:
    using Reply = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;

    // redis://user:password@host:port/database. Throws Error.
    explicit RedisClient(const std::string& url);
    explicit RedisClient(int port) : RedisClient("redis://127.0.0.1:" + std::to_string(port)) {}

    Reply ask(const std::vector<std::string>& words);
    // Run a command that must not fail.
    void run(const std::vector<std::string>& words);
    std::int64_t number(const std::vector<std::string>& words) { return ask(words)->integer; }

    // Return the entries after the id `after`, and set `after` to the id of the last one. "0" is before the
    // first.
    std::vector<Received> read_stream(const std::string& stream, std::string& after);
    std::vector<Received> read_stream(const std::string& stream);

  private:
    std::unique_ptr<redisContext, decltype(&redisFree)> context_;
};

}  // namespace baton::brokers
