#include "brokers/redis/settings.hpp"

#include "brokers/fixed_destination.hpp"
#include "wire/url.hpp"

namespace baton::brokers {

RedisSettings read_redis_server(const relay::Settings& settings) {
    RedisSettings read;
    wire::Url url;
    try {
        url = wire::parse_url(settings.text("url", "redis://localhost:6379"));
    } catch (const UsageError& error) {
        settings.refuse("url", std::string("cannot be used: ") + error.what(), error.hint());
    }
    if (url.scheme != "redis" && url.scheme != "rediss")
        settings.refuse("url", "must begin with redis:// or rediss://");
    read.host = url.host;
    if (url.port != 0) read.port = url.port;
    read.user = settings.text("username", url.user);
    read.password = settings.text("password", url.password);
    read.database = url.path;
    if (url.path.find_first_not_of("0123456789") != std::string::npos)
        settings.refuse("url", "must end in the database's number");
    read.tls = wire::read_tls(settings, url.scheme == "rediss");
    read.connect_timeout = settings.duration("connect_timeout", std::chrono::seconds(5));
    read.response_timeout = settings.duration("response_timeout", std::chrono::seconds(15));
    return read;
}

RedisSettings read_redis_settings(const relay::Settings& settings) {
    RedisSettings read = read_redis_server(settings);
    read.stream = fixed_destination(settings, "stream");
    read.maxlen = settings.number("maxlen", 0);
    if (read.maxlen < 0) settings.refuse("maxlen", "must not be negative", "0 keeps everything");
    read.maxlen_exact = settings.boolean("maxlen_exact", false);
    read.wait_replicas = settings.number("wait_replicas", 0);
    read.wait_timeout = settings.duration("wait_timeout", std::chrono::seconds(5));
    read.transaction_size = settings.count("transaction_size", 500);
    read.max_message_bytes = settings.count("max_message_bytes", 512 << 20);
    return read;
}

void append_bulk(std::string& out, std::string_view text) {
    out += '$';
    out += std::to_string(text.size());
    out += "\r\n";
    out += text;
    out += "\r\n";
}

void append_command(std::string& out, std::initializer_list<std::string_view> words) {
    out += '*';
    out += std::to_string(words.size());
    out += "\r\n";
    for (const auto word : words) append_bulk(out, word);
}

void append_entry(std::string& out, const Message& message, const std::string& stream,
                  const RedisSettings& settings) {
    const bool bounded = settings.maxlen > 0;
    const std::size_t fields =
        2 + (message.key.empty() ? 0 : 1) + (message.content_type.empty() ? 0 : 1) + message.headers.size();
    out += '*';
    out += std::to_string(3 + (bounded ? 3 : 0) + 2 * fields);
    out += "\r\n";
    append_bulk(out, "XADD");
    append_bulk(out, stream);
    if (bounded) {
        append_bulk(out, "MAXLEN");
        append_bulk(out, settings.maxlen_exact ? "=" : "~");
        append_bulk(out, std::to_string(settings.maxlen));
    }
    append_bulk(out, "*");
    append_bulk(out, "message_id");
    append_bulk(out, message.message_id);
    if (!message.key.empty()) {
        append_bulk(out, "key");
        append_bulk(out, message.key);
    }
    if (!message.content_type.empty()) {
        append_bulk(out, "content_type");
        append_bulk(out, message.content_type);
    }
    for (const auto& header : message.headers) {
        append_bulk(out, "header:" + header.name);
        append_bulk(out, header.value);
    }
    append_bulk(out, "body");
    append_bulk(out, message.body);
}

}  // namespace baton::brokers
