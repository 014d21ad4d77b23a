#include "brokers/rabbitmq/audit_client.hpp"

#include <amqp_tcp_socket.h>

#include "baton/error.hpp"
#include "wire/url.hpp"

namespace baton::brokers {

namespace {

std::string text_of(const amqp_bytes_t& bytes) {
    return {static_cast<const char*>(bytes.bytes), bytes.len};
}

amqp_bytes_t bytes_of(const std::string& text) {
    return amqp_cstring_bytes(text.c_str());
}

Received received(const amqp_message_t& message) {
    if (message.properties.delivery_mode != AMQP_DELIVERY_PERSISTENT)
        throw Error("rabbitmq: a message is not persistent");
    Received got;
    got.id = text_of(message.properties.message_id);
    got.body = text_of(message.body);
    for (int i = 0; i < message.properties.headers.num_entries; ++i) {
        const auto& entry = message.properties.headers.entries[i];
        const std::string name = text_of(entry.key);
        if (name == "partition-key")
            got.key = text_of(entry.value.value.bytes);
        else
            got.headers[name] = text_of(entry.value.value.bytes);
    }
    return got;
}

}  // namespace

RabbitClient::RabbitClient(const std::string& url) : state_(amqp_new_connection()) {
    const auto address = wire::parse_url(url);
    if (address.scheme != "amqp")
        throw Error("rabbitmq: the reader needs an amqp:// address",
                    "give it one with --read url=amqp://...");
    amqp_socket_t* socket = amqp_tcp_socket_new(state_);
    try {
        if (amqp_socket_open(socket, address.host.c_str(), address.port == 0 ? 5672 : address.port) !=
            AMQP_STATUS_OK)
            throw Error("cannot reach rabbitmq");
        const std::string vhost = address.path.empty() ? "/" : address.path;
        const std::string user = address.user.empty() ? "guest" : address.user;
        const std::string password = address.user.empty() ? "guest" : address.password;
        expect(amqp_login(state_, vhost.c_str(), 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, user.c_str(),
                          password.c_str()),
               "log in");
        amqp_channel_open(state_, 1);
        expect(amqp_get_rpc_reply(state_), "open a channel");
    } catch (...) {
        amqp_destroy_connection(state_);
        throw;
    }
}

RabbitClient::~RabbitClient() {
    amqp_destroy_connection(state_);
}

void RabbitClient::expect(const amqp_rpc_reply_t& reply, const char* what) const {
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
    std::string words = reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION
                            ? amqp_error_string2(reply.library_error)
                            : "refused";
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
        words = text_of(static_cast<amqp_channel_close_t*>(reply.reply.decoded)->reply_text);
    throw Error(std::string("rabbitmq: cannot ") + what + ": " + words);
}

void RabbitClient::declare_queue(const std::string& name, int limit) {
    amqp_table_entry_t entries[2];
    entries[0].key = amqp_cstring_bytes("x-max-length");
    entries[0].value.kind = AMQP_FIELD_KIND_I32;
    entries[0].value.value.i32 = limit;
    entries[1].key = amqp_cstring_bytes("x-overflow");
    entries[1].value.kind = AMQP_FIELD_KIND_UTF8;
    entries[1].value.value.bytes = amqp_cstring_bytes("reject-publish");
    const amqp_table_t table{limit > 0 ? 2 : 0, entries};
    amqp_queue_declare(state_, 1, bytes_of(name), 0, 1, 0, 0, table);
    expect(amqp_get_rpc_reply(state_), "declare a queue");
}

void RabbitClient::declare_exchange(const std::string& name, const std::string& type) {
    amqp_exchange_declare(state_, 1, bytes_of(name), bytes_of(type), 0, 1, 0, 0, amqp_empty_table);
    expect(amqp_get_rpc_reply(state_), "declare an exchange");
}

void RabbitClient::bind(const std::string& queue, const std::string& exchange, const std::string& key) {
    amqp_queue_bind(state_, 1, bytes_of(queue), bytes_of(exchange), bytes_of(key), amqp_empty_table);
    expect(amqp_get_rpc_reply(state_), "bind a queue");
}

void RabbitClient::delete_queue(const std::string& name) {
    amqp_queue_delete(state_, 1, bytes_of(name), 0, 0);
    expect(amqp_get_rpc_reply(state_), "delete a queue");
}

void RabbitClient::delete_exchange(const std::string& name) {
    amqp_exchange_delete(state_, 1, bytes_of(name), 0);
    expect(amqp_get_rpc_reply(state_), "delete an exchange");
}

std::vector<Received> RabbitClient::read_all(const std::string& queue) {
    std::vector<Received> all;
    for (;;) {
        amqp_maybe_release_buffers(state_);
        const auto reply = amqp_basic_get(state_, 1, bytes_of(queue), 0);
        expect(reply, "get a message");
        if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD) return all;
        amqp_message_t message;
        expect(amqp_read_message(state_, 1, &message, 0), "read a message");
        all.push_back(received(message));
        amqp_destroy_message(&message);
    }
}

void RabbitClient::follow(const std::string& exchange, const std::string& key) {
    const auto* made = amqp_queue_declare(state_, 1, amqp_empty_bytes, 0, 0, 1, 1, amqp_empty_table);
    expect(amqp_get_rpc_reply(state_), "declare a queue");
    const std::string queue = text_of(made->queue);
    bind(queue, exchange, key);
    amqp_basic_consume(state_, 1, bytes_of(queue), amqp_empty_bytes, 0, 1, 1, amqp_empty_table);
    expect(amqp_get_rpc_reply(state_), "consume");
}

std::vector<Received> RabbitClient::read(std::chrono::milliseconds patience) {
    std::vector<Received> news;
    for (;;) {
        amqp_maybe_release_buffers(state_);
        const auto wait = std::chrono::microseconds(news.empty() ? patience : std::chrono::milliseconds(0));
        timeval limit{wait.count() / 1'000'000, wait.count() % 1'000'000};
        amqp_envelope_t envelope;
        const auto reply = amqp_consume_message(state_, &envelope, &limit, 0);
        if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && reply.library_error == AMQP_STATUS_TIMEOUT)
            return news;
        expect(reply, "read on");
        news.push_back(received(envelope.message));
        amqp_destroy_envelope(&envelope);
    }
}

}  // namespace baton::brokers
