// The rabbitmq source on a real rabbitmq-server.

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include "conformance/source_conformance.hpp"
#include "conformance/way_in.hpp"

namespace baton::test {

namespace {

// A connection of the test's own.
class RabbitClient {
  public:
    explicit RabbitClient(int port) : state_(amqp_new_connection()) {
        amqp_socket_t* socket = amqp_tcp_socket_new(state_);
        if (amqp_socket_open(socket, "127.0.0.1", port) != AMQP_STATUS_OK)
            throw Error("cannot reach rabbitmq");
        expect(amqp_login(state_, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"));
        amqp_channel_open(state_, 1);
        expect(amqp_get_rpc_reply(state_));
    }
    ~RabbitClient() { amqp_destroy_connection(state_); }
    RabbitClient(const RabbitClient&) = delete;
    RabbitClient& operator=(const RabbitClient&) = delete;

    // Make a durable queue, or look at it; returns how many messages wait in it.
    std::size_t declare_queue(const std::string& name) {
        const auto* found =
            amqp_queue_declare(state_, 1, amqp_cstring_bytes(name.c_str()), 0, 1, 0, 0, amqp_empty_table);
        expect(amqp_get_rpc_reply(state_));
        return found->message_count;
    }

  private:
    static void expect(const amqp_rpc_reply_t& reply) {
        if (reply.reply_type != AMQP_RESPONSE_NORMAL) throw Error("rabbitmq refused the test");
    }

    amqp_connection_state_t state_;
};

class RabbitFixture final : public SourceFixture {
  public:
    RabbitFixture() {
        server_.start();
        proxy_.set_target(server_.port());
    }
    std::string make_place() override {
        const std::string name = "queue-" + std::to_string(++count_);
        RabbitClient(server_.port()).declare_queue(name);
        return name;
    }
    Table source(const std::string& place, const std::string&) override {
        return {{"type", "rabbitmq"},
                {"url", "amqp://guest:guest@127.0.0.1:" + std::to_string(proxy_.port()) + "/"},
                {"queue", place},
                {"prefetch", std::int64_t{300}},
                {"heartbeat", "1s"},
                {"connect_timeout", "2s"}};
    }
    Table sink() override {
        return {{"type", "rabbitmq"},
                {"url", "amqp://guest:guest@127.0.0.1:" + std::to_string(server_.port()) + "/"}};
    }
    // A connection that broke may hold its messages for a moment longer.
    std::size_t held(const std::string& place) override {
        std::string listed;
        wait_until("no message of " + place + " is with a reader", [&] {
            listed = server_.control({"list_queues", "--quiet", "name", "messages_unacknowledged"}).output;
            return listed.find(place + "\t0\n") != std::string::npos;
        });
        return RabbitClient(server_.port()).declare_queue(place);
    }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy& proxy() override { return proxy_; }
    int port() const { return server_.port(); }

  private:
    RabbitServer server_;
    Proxy proxy_;
    int count_ = 0;
};

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Rabbit, SourceConformance, RabbitFixture);

}  // namespace baton::test
