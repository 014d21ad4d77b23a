#include <hiredis/hiredis.h>

#include <stdexcept>
#include <vector>

#include "kit/producer.hpp"

namespace baton::bench {

namespace {

class RedisProducer final : public Producer {
  public:
    RedisProducer(int port, std::string stream)
        : stream_(std::move(stream)), redis_(redisConnect("127.0.0.1", port)) {
        if (redis_ == nullptr || redis_->err != 0) throw std::runtime_error("redis: cannot connect");
    }
    ~RedisProducer() override { redisFree(redis_); }
    RedisProducer(const RedisProducer&) = delete;
    RedisProducer& operator=(const RedisProducer&) = delete;

    void send(const Message& message, long times) override {
        long asked = 0, answered = 0;
        while (answered < times) {
            for (int i = 0; i < 1000 && asked < times; ++i, ++asked) append(message);
            for (; answered < asked; ++answered) {
                void* reply = nullptr;
                if (redisGetReply(redis_, &reply) != REDIS_OK) throw std::runtime_error(redis_->errstr);
                const bool refused = static_cast<redisReply*>(reply)->type == REDIS_REPLY_ERROR;
                freeReplyObject(reply);
                if (refused) throw std::runtime_error("redis refused an entry");
            }
        }
    }

  private:
    void append(const Message& message) {
        std::vector<std::string> words{"XADD", stream_, "*", "message_id", message.message_id};
        for (const auto& header : message.headers) {
            words.push_back("header:" + header.name);
            words.push_back(header.value);
        }
        words.emplace_back("body");
        words.emplace_back(message.body);
        std::vector<const char*> texts;
        std::vector<std::size_t> sizes;
        for (const auto& word : words) {
            texts.push_back(word.data());
            sizes.push_back(word.size());
        }
        redisAppendCommandArgv(redis_, static_cast<int>(texts.size()), texts.data(), sizes.data());
    }

    std::string stream_;
    redisContext* redis_;
};

}  // namespace

std::unique_ptr<Producer> make_redis_producer(int port, const std::string& stream) {
    return std::make_unique<RedisProducer>(port, stream);
}

}  // namespace baton::bench
