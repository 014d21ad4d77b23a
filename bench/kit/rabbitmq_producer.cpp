#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <set>
#include <stdexcept>
#include <vector>

#include "kit/producer.hpp"

namespace baton::bench {

namespace {

amqp_bytes_t bytes(std::string_view text) {
    return {text.size(), const_cast<char*>(text.data())};
}

amqp_connection_state_t open(int port) {
    amqp_connection_state_t connection = amqp_new_connection();
    amqp_socket_t* socket = amqp_tcp_socket_new(connection);
    if (amqp_socket_open(socket, "127.0.0.1", port) != AMQP_STATUS_OK)
        throw std::runtime_error("rabbitmq: cannot connect");
    amqp_login(connection, "/", 0, 131072, 60, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    amqp_channel_open(connection, 1);
    if (amqp_get_rpc_reply(connection).reply_type != AMQP_RESPONSE_NORMAL)
        throw std::runtime_error("rabbitmq: cannot open a channel");
    return connection;
}

void close(amqp_connection_state_t connection) {
    amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(connection);
}

class RabbitProducer final : public Producer {
  public:
    RabbitProducer(int port, std::string queue) : queue_(std::move(queue)), connection_(open(port)) {
        amqp_confirm_select(connection_, 1);
    }
    ~RabbitProducer() override { close(connection_); }
    RabbitProducer(const RabbitProducer&) = delete;
    RabbitProducer& operator=(const RabbitProducer&) = delete;

    void send(const Message& message, long times) override {
        for (long i = 0; i < times; ++i) {
            publish(message);
            while (unconfirmed_.size() >= 5000) take_confirmation();
        }
        while (!unconfirmed_.empty()) take_confirmation();
    }

  private:
    void publish(const Message& message) {
        std::vector<amqp_table_entry_t> entries;
        for (const auto& header : message.headers) {
            amqp_table_entry_t entry{};
            entry.key = bytes(header.name);
            entry.value.kind = AMQP_FIELD_KIND_UTF8;
            entry.value.value.bytes = bytes(header.value);
            entries.push_back(entry);
        }
        amqp_basic_properties_t properties{};
        properties._flags =
            AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG;
        properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
        properties.message_id = bytes(message.message_id);
        properties.headers = {static_cast<int>(entries.size()), entries.data()};
        if (amqp_basic_publish(connection_, 1, amqp_empty_bytes, bytes(queue_), 1, 0, &properties,
                               bytes(message.body)) != AMQP_STATUS_OK)
            throw std::runtime_error("rabbitmq: cannot publish");
        unconfirmed_.insert(++published_);
    }

    void take_confirmation() {
        amqp_frame_t frame;
        amqp_maybe_release_buffers(connection_);
        if (amqp_simple_wait_frame(connection_, &frame) != AMQP_STATUS_OK)
            throw std::runtime_error("rabbitmq: connection lost");
        if (frame.frame_type != AMQP_FRAME_METHOD) return;
        if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
            throw std::runtime_error("rabbitmq refused a message");
        const auto* ack = static_cast<amqp_basic_ack_t*>(frame.payload.method.decoded);
        if (ack->multiple != 0)
            unconfirmed_.erase(unconfirmed_.begin(), unconfirmed_.upper_bound(ack->delivery_tag));
        else
            unconfirmed_.erase(ack->delivery_tag);
    }

    std::string queue_;
    amqp_connection_state_t connection_;
    std::uint64_t published_ = 0;
    std::set<std::uint64_t> unconfirmed_;
};

}  // namespace

std::unique_ptr<Producer> make_rabbitmq_producer(int port, const std::string& queue) {
    return std::make_unique<RabbitProducer>(port, queue);
}

void create_rabbitmq_queue(int port, const std::string& queue) {
    amqp_connection_state_t connection = open(port);
    amqp_queue_delete(connection, 1, bytes(queue), 0, 0);
    amqp_queue_declare(connection, 1, bytes(queue), 0, 1, 0, 0, amqp_empty_table);
    const bool failed = amqp_get_rpc_reply(connection).reply_type != AMQP_RESPONSE_NORMAL;
    close(connection);
    if (failed) throw std::runtime_error("rabbitmq did not make the queue");
}

}  // namespace baton::bench
