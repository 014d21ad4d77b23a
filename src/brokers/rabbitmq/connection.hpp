#pragma once
// One connection to RabbitMQ with one channel in confirm mode. Every call may throw ConnectionError.

#include <amqp.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "event/event.hpp"
#include "wire/byte_stream.hpp"

namespace baton::brokers {

struct RabbitSettings {
    std::string host;
    int port = 5672;
    std::string user;
    std::string password;
    std::string vhost;
    wire::TlsSettings tls;
    std::string exchange;
    std::string routing_key;
    bool mandatory = true;
    std::chrono::seconds heartbeat{};
    std::chrono::milliseconds connect_timeout{};
    std::chrono::milliseconds confirm_timeout{};
    std::size_t max_message_bytes = 0;
};

// Read where the server is and how to talk to it. Throws SettingsError.
RabbitSettings read_rabbit_server(const relay::Settings& settings);

// A message under way. The views live as long as the batch of the event.
struct RabbitMessage {
    std::uint64_t ticket = 0;
    std::string message_id;
    std::string routing_key;
    std::string_view key;
    std::string_view body;
    std::string_view content_type;
    Headers headers;
    std::optional<Timestamp> occurred_at;
    bool suspect = false;  // unconfirmed when the broker closed the channel: goes alone
    std::string returned;  // why the broker returned the message
};

// What the broker said.
struct RabbitNotice {
    enum class Kind { acked, nacked, returned, channel_closed, blocked, unblocked } kind;
    std::uint64_t tag = 0;
    bool multiple = false;
    std::string text;  // in the broker's words
    int code = 0;
    std::string message_id;  // of a returned message
    std::string routing_key;
};

class RabbitConnection {
  public:
    explicit RabbitConnection(const RabbitSettings& settings);
    ~RabbitConnection();
    RabbitConnection(const RabbitConnection&) = delete;
    RabbitConnection& operator=(const RabbitConnection&) = delete;

    // Connect the socket; then log in and open the channel. These are two functions, so that another thread
    // can break a login.
    void connect();
    void log_in();
    // Open the channel, again after the broker closed it.
    void open_channel();
    // Why this message does not fit into frames; empty when it does.
    std::string refusal(const RabbitMessage& message) const;
    void publish(const RabbitMessage& message);
    // Hold back small packets (true), or let them go (false).
    void cork(bool on) const;
    // Return the next notice, if there is one. Keeps the heartbeat going.
    std::optional<RabbitNotice> next_notice();
    // Throw unless the exchange exists and, for the default exchange, the queue.
    void check_destination();
    int fd() const { return fd_; }
    // For other uses: the library's own state, and how to throw its errors.
    amqp_connection_state_t native() const { return state_; }
    void expect_ok(const amqp_rpc_reply_t& reply, const std::string& doing) const;
    void expect_ok(int status, const std::string& doing) const;

  private:
    std::optional<RabbitNotice> read_notice(const amqp_frame_t& frame);
    RabbitNotice read_return(const amqp_basic_return_t& method);
    void add_tls(amqp_socket_t* socket) const;

    const RabbitSettings& settings_;
    amqp_connection_state_t state_;
    int fd_ = -1;
    std::vector<amqp_table_entry_t> entries_;
};

}  // namespace baton::brokers
