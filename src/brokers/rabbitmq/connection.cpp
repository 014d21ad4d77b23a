#include "brokers/rabbitmq/connection.hpp"

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "baton/error.hpp"
#include "wire/access_refused.hpp"
#include "wire/url.hpp"

namespace baton::brokers {

namespace {

constexpr amqp_channel_t channel = 1;
constexpr int frame_max = 131072;

// View bytes for the library, which only reads them.
amqp_bytes_t bytes_of(std::string_view text) {
    amqp_bytes_t bytes;
    bytes.len = text.size();
    bytes.bytes = const_cast<char*>(text.data());
    return bytes;
}

std::string text_of(const amqp_bytes_t& bytes) {
    return bytes.len == 0 ? std::string() : std::string(static_cast<const char*>(bytes.bytes), bytes.len);
}

timeval timeval_of(std::chrono::milliseconds time) {
    timeval value{};
    value.tv_sec = time.count() / 1000;
    value.tv_usec = time.count() % 1000 * 1000;
    return value;
}

amqp_table_entry_t text_entry(std::string_view name, std::string_view value) {
    amqp_table_entry_t entry;
    entry.key = bytes_of(name);
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = bytes_of(value);
    return entry;
}

// Return the broker's words when the reply is its closing of connection or channel.
std::string words_of(const amqp_rpc_reply_t& reply) {
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) return amqp_error_string2(reply.library_error);
    if (reply.reply_type == AMQP_RESPONSE_NONE) return "no answer";
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
        return text_of(static_cast<amqp_connection_close_t*>(reply.reply.decoded)->reply_text);
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
        return text_of(static_cast<amqp_channel_close_t*>(reply.reply.decoded)->reply_text);
    return "unexpected answer";
}

// Tell whether the broker does not let us in: login, virtual host, rights.
bool is_refusal(const amqp_rpc_reply_t& reply) {
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION) return false;
    std::uint16_t code = 0;
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
        code = static_cast<amqp_connection_close_t*>(reply.reply.decoded)->reply_code;
    else if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
        code = static_cast<amqp_channel_close_t*>(reply.reply.decoded)->reply_code;
    return code == AMQP_ACCESS_REFUSED || code == AMQP_NOT_ALLOWED || code == AMQP_NOT_FOUND;
}

constexpr std::string_view key_header = "partition-key";

}  // namespace

RabbitSettings read_rabbit_server(const relay::Settings& settings) {
    RabbitSettings read;
    wire::Url url;
    try {
        url = wire::parse_url(settings.text("url", "amqp://guest:guest@localhost:5672/"));
    } catch (const UsageError& error) {
        settings.refuse("url", std::string("cannot be used: ") + error.what(), error.hint());
    }
    if (url.scheme != "amqp" && url.scheme != "amqps")
        settings.refuse("url", "must begin with amqp:// or amqps://");
    read.host = url.host;
    read.tls = wire::read_tls(settings, url.scheme == "amqps");
    read.port = url.port != 0 ? url.port : (read.tls.on ? 5671 : 5672);
    read.user = settings.text("username", url.user.empty() ? "guest" : url.user);
    read.password = settings.text("password", url.user.empty() ? "guest" : url.password);
    read.vhost = url.path.empty() ? "/" : url.path;
    read.heartbeat =
        std::chrono::ceil<std::chrono::seconds>(settings.duration("heartbeat", std::chrono::seconds(10)));
    if (read.heartbeat.count() < 1)
        settings.refuse("heartbeat", "must be at least 1s", "a dead peer is noticed by it alone");
    read.connect_timeout = settings.duration("connect_timeout", std::chrono::seconds(5));
    return read;
}

RabbitConnection::RabbitConnection(const RabbitSettings& settings)
    : settings_(settings), state_(amqp_new_connection()) {
    if (state_ == nullptr) throw ConnectionError("out of memory");
}

RabbitConnection::~RabbitConnection() {
    amqp_destroy_connection(state_);
}

void RabbitConnection::expect_ok(const amqp_rpc_reply_t& reply, const std::string& doing) const {
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
    const std::string words = "rabbitmq at " + settings_.host + ":" + std::to_string(settings_.port) + ", " +
                              doing + ": " + words_of(reply);
    if (is_refusal(reply)) throw wire::AccessRefused(words);
    throw ConnectionError(words);
}

void RabbitConnection::expect_ok(int status, const std::string& doing) const {
    if (status != AMQP_STATUS_OK)
        throw ConnectionError("rabbitmq at " + settings_.host + ":" + std::to_string(settings_.port) + ", " +
                              doing + ": " + amqp_error_string2(status));
}

void RabbitConnection::add_tls(amqp_socket_t* socket) const {
    if (settings_.tls.ca.empty())
        SSL_CTX_set_default_verify_paths(static_cast<SSL_CTX*>(amqp_ssl_socket_get_context(socket)));
    else
        expect_ok(amqp_ssl_socket_set_cacert(socket, settings_.tls.ca.c_str()),
                  "reading " + settings_.tls.ca);
    if (!settings_.tls.cert.empty())
        expect_ok(amqp_ssl_socket_set_key(socket, settings_.tls.cert.c_str(), settings_.tls.key.c_str()),
                  "reading " + settings_.tls.cert);
    amqp_ssl_socket_set_verify_peer(socket, settings_.tls.verify ? 1 : 0);
    amqp_ssl_socket_set_verify_hostname(socket, settings_.tls.verify ? 1 : 0);
}

void RabbitConnection::connect() {
    const timeval limit = timeval_of(settings_.connect_timeout);
    amqp_set_handshake_timeout(state_, &limit);
    amqp_set_rpc_timeout(state_, &limit);
    amqp_socket_t* socket = settings_.tls.on ? amqp_ssl_socket_new(state_) : amqp_tcp_socket_new(state_);
    if (socket == nullptr) throw ConnectionError("out of memory");
    if (settings_.tls.on) add_tls(socket);
    expect_ok(amqp_socket_open_noblock(socket, settings_.host.c_str(), settings_.port, &limit), "connecting");
    fd_ = amqp_get_sockfd(state_);
}

void RabbitConnection::log_in() {
    amqp_table_entry_t capabilities[2];
    capabilities[0].key = bytes_of("connection.blocked");
    capabilities[1].key = bytes_of("consumer_cancel_notify");
    for (auto& capability : capabilities) {
        capability.value.kind = AMQP_FIELD_KIND_BOOLEAN;
        capability.value.value.boolean = 1;
    }
    amqp_table_entry_t properties[2];
    properties[0].key = bytes_of("capabilities");
    properties[0].value.kind = AMQP_FIELD_KIND_TABLE;
    properties[0].value.value.table = {2, capabilities};
    properties[1] = text_entry("connection_name", "baton relay");
    const amqp_table_t table{2, properties};
    expect_ok(amqp_login_with_properties(state_, settings_.vhost.c_str(), 1, frame_max,
                                         static_cast<int>(settings_.heartbeat.count()), &table,
                                         AMQP_SASL_METHOD_PLAIN, settings_.user.c_str(),
                                         settings_.password.c_str()),
              "logging in");
    open_channel();
}

void RabbitConnection::open_channel() {
    amqp_channel_open(state_, channel);
    expect_ok(amqp_get_rpc_reply(state_), "opening a channel");
    amqp_confirm_select(state_, channel);
    expect_ok(amqp_get_rpc_reply(state_), "asking for confirms");
}

std::string RabbitConnection::refusal(const RabbitMessage& message) const {
    if (message.routing_key.size() > 255) return "the routing key is longer than 255 bytes";
    if (message.message_id.size() > 255) return "the message id is longer than 255 bytes";
    if (message.content_type.size() > 255) return "the content type is longer than 255 bytes";
    std::size_t size = 1024 + message.key.size();
    for (const auto& header : message.headers) {
        if (header.name.size() > 255)
            return "the name of header " + header.name.substr(0, 60) + "... is longer than 255 bytes";
        size += header.name.size() + header.value.size() + 6;
    }
    const auto room = static_cast<std::size_t>(amqp_get_frame_max(state_));
    if (size > room) return "the headers do not fit into a frame of " + std::to_string(room) + " bytes";
    return {};
}

void RabbitConnection::publish(const RabbitMessage& message) {
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_HEADERS_FLAG;
    properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
    properties.message_id = bytes_of(message.message_id);
    if (!message.content_type.empty()) {
        properties._flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
        properties.content_type = bytes_of(message.content_type);
    }
    if (message.occurred_at) {
        properties._flags |= AMQP_BASIC_TIMESTAMP_FLAG;
        properties.timestamp = static_cast<std::uint64_t>(
            std::chrono::floor<std::chrono::seconds>(*message.occurred_at).time_since_epoch().count());
    }
    entries_.clear();
    for (const auto& header : message.headers) entries_.push_back(text_entry(header.name, header.value));
    if (!message.key.empty()) entries_.push_back(text_entry(key_header, message.key));
    properties.headers = {static_cast<int>(entries_.size()), entries_.data()};
    expect_ok(amqp_basic_publish(state_, channel, bytes_of(settings_.exchange), bytes_of(message.routing_key),
                                 settings_.mandatory ? 1 : 0, 0, &properties, bytes_of(message.body)),
              "publishing");
}

void RabbitConnection::cork(bool on) const {
    const int value = on ? 1 : 0;
    setsockopt(fd_, IPPROTO_TCP, TCP_CORK, &value, sizeof value);
}

std::optional<RabbitNotice> RabbitConnection::next_notice() {
    const timeval now{};
    for (;;) {
        amqp_maybe_release_buffers(state_);
        amqp_frame_t frame;
        const int status = amqp_simple_wait_frame_noblock(state_, &frame, &now);
        if (status == AMQP_STATUS_TIMEOUT) return std::nullopt;
        expect_ok(status, "listening");
        if (frame.frame_type != AMQP_FRAME_METHOD) continue;
        if (auto notice = read_notice(frame)) return notice;
    }
}

std::optional<RabbitNotice> RabbitConnection::read_notice(const amqp_frame_t& frame) {
    using Kind = RabbitNotice::Kind;
    RabbitNotice notice{};
    const auto& method = frame.payload.method;
    switch (method.id) {
        case AMQP_BASIC_ACK_METHOD: {
            const auto* ack = static_cast<amqp_basic_ack_t*>(method.decoded);
            notice.kind = Kind::acked;
            notice.tag = ack->delivery_tag;
            notice.multiple = ack->multiple != 0;
            return notice;
        }
        case AMQP_BASIC_NACK_METHOD: {
            const auto* nack = static_cast<amqp_basic_nack_t*>(method.decoded);
            notice.kind = Kind::nacked;
            notice.tag = nack->delivery_tag;
            notice.multiple = nack->multiple != 0;
            return notice;
        }
        case AMQP_BASIC_RETURN_METHOD:
            return read_return(*static_cast<amqp_basic_return_t*>(method.decoded));
        case AMQP_CHANNEL_CLOSE_METHOD: {
            const auto* close = static_cast<amqp_channel_close_t*>(method.decoded);
            notice.kind = Kind::channel_closed;
            notice.code = close->reply_code;
            notice.text = text_of(close->reply_text);
            amqp_channel_close_ok_t ok{};
            expect_ok(amqp_send_method(state_, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok),
                      "closing the channel");
            return notice;
        }
        case AMQP_CONNECTION_CLOSE_METHOD: {
            const auto* close = static_cast<amqp_connection_close_t*>(method.decoded);
            throw ConnectionError("rabbitmq closed the connection: " + text_of(close->reply_text));
        }
        case AMQP_CONNECTION_BLOCKED_METHOD:
            notice.kind = Kind::blocked;
            notice.text = text_of(static_cast<amqp_connection_blocked_t*>(method.decoded)->reason);
            return notice;
        case AMQP_CONNECTION_UNBLOCKED_METHOD:
            notice.kind = Kind::unblocked;
            return notice;
        default:
            return std::nullopt;
    }
}

// Read the message that follows a return; its id tells which one it was.
RabbitNotice RabbitConnection::read_return(const amqp_basic_return_t& method) {
    RabbitNotice notice{};
    notice.kind = RabbitNotice::Kind::returned;
    notice.code = method.reply_code;
    notice.text = text_of(method.reply_text);
    notice.routing_key = text_of(method.routing_key);
    amqp_message_t message;
    expect_ok(amqp_read_message(state_, channel, &message, 0), "reading a returned message");
    notice.message_id = text_of(message.properties.message_id);
    amqp_destroy_message(&message);
    return notice;
}

void RabbitConnection::check_destination() {
    if (!settings_.exchange.empty()) {
        amqp_exchange_declare(state_, channel, bytes_of(settings_.exchange), bytes_of("direct"), 1, 0, 0, 0,
                              amqp_empty_table);
        expect_ok(amqp_get_rpc_reply(state_), "looking for exchange " + settings_.exchange);
    } else if (!settings_.routing_key.empty()) {
        amqp_queue_declare(state_, channel, bytes_of(settings_.routing_key), 1, 0, 0, 0, amqp_empty_table);
        expect_ok(amqp_get_rpc_reply(state_), "looking for queue " + settings_.routing_key);
    }
}

}  // namespace baton::brokers
