#include "brokers/redis/tests/server.hpp"

namespace baton::test {

RedisServer::RedisServer() : Broker("redis") {}

Command RedisServer::command() {
    Command how;
    how.argv = {"redis-server",
                "--bind",
                "127.0.0.1",
                "--port",
                std::to_string(port()),
                "--dir",
                folder().string(),
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--save",
                ""};
    how.argv.insert(how.argv.end(), options.begin(), options.end());
    return how;
}

bool RedisServer::ready() {
    return log_contains("Ready to accept connections");
}

}  // namespace baton::test
