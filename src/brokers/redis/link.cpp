#include "brokers/redis/link.hpp"

#include <array>

#include "baton/error.hpp"

namespace baton::brokers {

using std::chrono::milliseconds;

std::string text_of(const redisReply& reply) {
    return reply.str == nullptr ? std::string() : std::string(reply.str, reply.len);
}

RedisLink::RedisLink(const RedisSettings& settings)
    : settings_(settings),
      stream_(settings.host, settings.port, settings.tls),
      reader_(redisReaderCreate(), &redisReaderFree) {
    const auto deadline = Clock::now() + settings.connect_timeout;
    while (!stream_.ready()) {
        if (Clock::now() > deadline) throw ConnectionError("redis at " + settings.host + " does not answer");
        stream_.wait(true, milliseconds(20));
    }
    if (!settings.password.empty() && settings.user.empty())
        ask(std::array<std::string, 2>{"AUTH", settings.password});
    else if (!settings.password.empty())
        ask(std::array<std::string, 3>{"AUTH", settings.user, settings.password});
    if (!settings.database.empty() && settings.database != "0")
        ask(std::array<std::string, 2>{"SELECT", settings.database});
}

void RedisLink::send(std::span<const std::string> words) {
    out_.append("*").append(std::to_string(words.size())).append("\r\n");
    for (const auto& word : words) append_bulk(out_, word);
    pump();
}

// Move what can be moved without waiting.
void RedisLink::pump() {
    while (written_ < out_.size()) {
        const std::size_t sent = stream_.write(std::string_view(out_).substr(written_));
        if (sent == 0) return;
        written_ += sent;
    }
    out_.clear();
    written_ = 0;
}

RedisReply RedisLink::take() {
    pump();
    std::array<char, 64 * 1024> buffer;
    for (;;) {
        void* raw = nullptr;
        if (redisReaderGetReply(reader_.get(), &raw) != REDIS_OK)
            throw ConnectionError(std::string("redis answered out of protocol: ") + reader_->errstr);
        if (raw != nullptr) return {static_cast<redisReply*>(raw), freeReplyObject};
        const std::size_t received = stream_.read(buffer.data(), buffer.size());
        if (received == 0) return nullptr;
        redisReaderFeed(reader_.get(), buffer.data(), received);
    }
}

RedisReply RedisLink::need(milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    for (;;) {
        if (auto reply = take()) {
            if (reply->type == REDIS_REPLY_ERROR) throw ConnectionError("redis refused: " + text_of(*reply));
            return reply;
        }
        if (Clock::now() > deadline)
            throw ConnectionError("no answer from redis within " + std::to_string(patience.count()) + " ms");
        stream_.wait(has_to_write(), milliseconds(50));
    }
}

}  // namespace baton::brokers
