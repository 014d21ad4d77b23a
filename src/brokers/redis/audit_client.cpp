#include "brokers/redis/audit_client.hpp"

#include "baton/error.hpp"
#include "wire/url.hpp"

namespace baton::brokers {

namespace {

std::string text_of(const redisReply* reply) {
    return {reply->str, reply->len};
}

Received received(const redisReply* fields) {
    Received got;
    for (std::size_t f = 0; f + 1 < fields->elements; f += 2) {
        const std::string name = text_of(fields->element[f]);
        std::string value = text_of(fields->element[f + 1]);
        if (name == "message_id")
            got.id = std::move(value);
        else if (name == "key")
            got.key = std::move(value);
        else if (name == "body")
            got.body = std::move(value);
        else if (name.starts_with("header:"))
            got.headers[name.substr(7)] = std::move(value);
    }
    return got;
}

}  // namespace

RedisClient::RedisClient(const std::string& url) : context_(nullptr, redisFree) {
    const auto address = wire::parse_url(url);
    if (address.scheme != "redis")
        throw Error("redis: the reader needs a redis:// address", "give it one with --read url=redis://...");
    const int port = address.port == 0 ? 6379 : address.port;
    context_.reset(redisConnectWithTimeout(address.host.c_str(), port, {5, 0}));
    if (!context_ || context_->err != 0) throw Error("cannot reach redis on port " + std::to_string(port));
    if (!address.password.empty()) {
        if (address.user.empty())
            run({"AUTH", address.password});
        else
            run({"AUTH", address.user, address.password});
    }
    if (!address.path.empty()) run({"SELECT", address.path});
}

RedisClient::Reply RedisClient::ask(const std::vector<std::string>& words) {
    std::vector<const char*> pointers;
    std::vector<std::size_t> sizes;
    for (const auto& word : words) {
        pointers.push_back(word.data());
        sizes.push_back(word.size());
    }
    void* reply =
        redisCommandArgv(context_.get(), static_cast<int>(words.size()), pointers.data(), sizes.data());
    if (reply == nullptr) throw Error(std::string("redis: ") + context_->errstr);
    return {static_cast<redisReply*>(reply), freeReplyObject};
}

void RedisClient::run(const std::vector<std::string>& words) {
    const auto reply = ask(words);
    if (reply->type == REDIS_REPLY_ERROR) throw Error("redis: " + text_of(reply.get()));
}

std::vector<Received> RedisClient::read_stream(const std::string& stream) {
    std::string after = "0";
    return read_stream(stream, after);
}

std::vector<Received> RedisClient::read_stream(const std::string& stream, std::string& after) {
    const auto reply = ask({"XRANGE", stream, "(" + after, "+"});
    if (reply->type == REDIS_REPLY_ERROR) throw Error("redis: " + text_of(reply.get()));
    std::vector<Received> all;
    for (std::size_t i = 0; i < reply->elements; ++i) {
        all.push_back(received(reply->element[i]->element[1]));
        after = text_of(reply->element[i]->element[0]);
    }
    return all;
}

}  // namespace baton::brokers
