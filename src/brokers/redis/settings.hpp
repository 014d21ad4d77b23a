#pragma once
// The settings of the redis sink, and how commands are written.

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>

#include "event/event.hpp"
#include "relay/settings.hpp"
#include "wire/byte_stream.hpp"

namespace baton::brokers {

struct RedisSettings {
    std::string host;
    int port = 6379;
    std::string user;
    std::string password;
    std::string database;
    wire::TlsSettings tls;
    std::string stream;  // for messages that name no stream
    std::int64_t maxlen = 0;
    bool maxlen_exact = false;
    std::int64_t wait_replicas = 0;
    std::chrono::milliseconds wait_timeout{};
    std::size_t transaction_size = 0;
    std::size_t max_message_bytes = 0;
    std::chrono::milliseconds connect_timeout{};
    std::chrono::milliseconds response_timeout{};
};

RedisSettings read_redis_settings(const relay::Settings& settings);
// Read only where the server is and how to talk to it.
RedisSettings read_redis_server(const relay::Settings& settings);

// Append one word of a command, or a whole command, in Redis' protocol.
void append_bulk(std::string& out, std::string_view text);
void append_command(std::string& out, std::initializer_list<std::string_view> words);

// Append the XADD that adds a message to its stream.
void append_entry(std::string& out, const Message& message, const std::string& stream,
                  const RedisSettings& settings);

}  // namespace baton::brokers
