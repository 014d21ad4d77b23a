// The rabbitmq source on a real rabbitmq-server.

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include "brokers/rabbitmq/tests/server.hpp"
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

    // Publish a body with nothing but a timestamp and a header that holds a list.
    void publish_bare(const std::string& queue, const std::string& body, std::uint64_t time) {
        amqp_field_value_t inner[2];
        inner[0].kind = AMQP_FIELD_KIND_I32;
        inner[0].value.i32 = 7;
        inner[1].kind = AMQP_FIELD_KIND_UTF8;
        inner[1].value.bytes = amqp_cstring_bytes("x");
        amqp_table_entry_t entry;
        entry.key = amqp_cstring_bytes("list");
        entry.value.kind = AMQP_FIELD_KIND_ARRAY;
        entry.value.value.array = {2, inner};
        amqp_basic_properties_t properties{};
        properties._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_TYPE_FLAG;
        properties.headers = {1, &entry};
        properties.timestamp = time;
        properties.type = amqp_cstring_bytes("ticked");
        amqp_basic_publish(state_, 1, amqp_empty_bytes, amqp_cstring_bytes(queue.c_str()), 0, 0, &properties,
                           amqp_cstring_bytes(body.c_str()));
    }
    void delete_queue(const std::string& name) {
        amqp_queue_delete(state_, 1, amqp_cstring_bytes(name.c_str()), 0, 0);
        expect(amqp_get_rpc_reply(state_));
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

class RabbitSource : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        fixture_ = std::make_unique<RabbitFixture>();
        cluster_ = std::make_unique<Cluster>(Form::extension);
    }
    static void TearDownTestSuite() {
        fixture_.reset();
        cluster_.reset();
    }
    static inline std::unique_ptr<RabbitFixture> fixture_;
    static inline std::unique_ptr<Cluster> cluster_;
};

TEST_F(RabbitSource, a_message_without_an_id_is_known_by_what_it_holds) {
    WayIn way(*fixture_, *cluster_);
    RabbitClient client(fixture_->port());
    for (const std::uint64_t time : {1'700'000'000U, 1'700'000'001U, 1'700'000'001U})
        client.publish_bare(way.place(), R"({"tick":1})", time);
    const auto pipeline = way.start();
    way.wait_for(2);
    wait_until("the third is known", [&] { return way.duplicates() == 1; });
    pipeline->request_stop();
    pipeline->join();
    const auto all = way.arrived();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].id.find("rabbitmq:sha256:"), 0U) << all[0].id;
    EXPECT_EQ(all[0].event_type, "ticked");
    EXPECT_NE(all[0].headers.find(R"("list": "[7,\"x\"]")"), std::string::npos) << all[0].headers;
    EXPECT_EQ(fixture_->held(way.place()), 0U);
}

TEST_F(RabbitSource, a_queue_that_is_deleted_is_noticed_and_read_again_once_it_is_back) {
    WayIn way(*fixture_, *cluster_);
    const auto pipeline = way.start();
    wait_until("it runs", [&] { return pipeline->status().state == relay::PipelineState::running; });
    RabbitClient client(fixture_->port());
    client.delete_queue(way.place());
    wait_until("it is noticed", [&] { return pipeline->status().state == relay::PipelineState::retrying; });
    client.declare_queue(way.place());
    way.add_keyed(20);
    way.publish();
    way.wait_for(20);
    pipeline->request_stop();
    pipeline->join();
    way.expect_all();
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Rabbit, SourceConformance, RabbitFixture);

}  // namespace baton::test
