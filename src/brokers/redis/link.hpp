#pragma once
// One connection to Redis. Commands are sent and answered in order. Only need() waits.

#include <hiredis/hiredis.h>

#include <deque>
#include <memory>
#include <span>

#include "brokers/redis/settings.hpp"

namespace baton::brokers {

using RedisReply = std::shared_ptr<redisReply>;

class RedisLink {
  public:
    using Clock = std::chrono::steady_clock;

    // Connect and log in. Throws ConnectionError.
    explicit RedisLink(const RedisSettings& settings);

    // Start a command.
    void send(std::span<const std::string> words);
    // Return the next answer, or null when there is none yet. An error is an answer too.
    RedisReply take();
    // Wait for the next answer. Throws ConnectionError when no answer comes in time, or when the answer is an
    // error.
    RedisReply need(std::chrono::milliseconds patience);
    RedisReply ask(std::span<const std::string> words) {
        send(words);
        return need(settings_.response_timeout);
    }

    // The descriptor and events to wait for before take() can go on.
    int descriptor() const { return stream_.descriptor(); }
    bool has_to_write() const { return written_ < out_.size(); }

  private:
    void pump();

    const RedisSettings& settings_;
    wire::ByteStream stream_;
    std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader_;
    std::string out_;
    std::size_t written_ = 0;
};

std::string text_of(const redisReply& reply);

}  // namespace baton::brokers
