// The nats source on a real nats-server.

#include <nats/nats.h>

#include "brokers/nats/tests/server.hpp"
#include "conformance/source_conformance.hpp"
#include "conformance/way_in.hpp"

namespace baton::test {

namespace {

// A connection for the test's own use, straight to the server.
class NatsClient {
  public:
    explicit NatsClient(const std::string& url) {
        if (natsConnection_ConnectTo(&connection, url.c_str()) != NATS_OK ||
            natsConnection_JetStream(&jetstream, connection, nullptr) != NATS_OK)
            throw Error("cannot reach nats");
    }
    ~NatsClient() {
        jsCtx_Destroy(jetstream);
        natsConnection_Destroy(connection);
    }
    NatsClient(const NatsClient&) = delete;
    NatsClient& operator=(const NatsClient&) = delete;

    void add_stream(const std::string& name) {
        const std::string subject = name + ".>";
        const char* subjects[] = {subject.c_str()};
        jsStreamConfig config;
        jsStreamConfig_Init(&config);
        config.Name = name.c_str();
        config.Subjects = subjects;
        config.SubjectsLen = 1;
        if (js_AddStream(nullptr, jetstream, &config, nullptr, nullptr) != NATS_OK)
            throw Error("cannot add a stream");
    }

    natsConnection* connection = nullptr;
    jsCtx* jetstream = nullptr;
};

class NatsFixture final : public SourceFixture {
  public:
    NatsFixture() {
        server_.settings = {"max_payload: 3MB", "max_pending: 64MB"};
        server_.start();
        proxy_.set_target(server_.port());
    }
    std::string make_place() override {
        const std::string name = "S" + std::to_string(++count_);
        NatsClient(server_.url()).add_stream(name);
        return name;
    }
    Table source(const std::string& place, const std::string&) override {
        return {{"type", "nats"},      {"url", "nats://127.0.0.1:" + std::to_string(proxy_.port())},
                {"stream", place},     {"ack_wait", "3s"},
                {"ack_timeout", "2s"}, {"connect_timeout", "2s"},
                {"heartbeat", "500ms"}};
    }
    Table sink() override { return {{"type", "nats"}, {"url", server_.url()}}; }
    std::string destination(const std::string& place) override { return place + ".events"; }
    std::size_t held(const std::string& place) override {
        const NatsClient client(server_.url());
        jsConsumerInfo* info = nullptr;
        if (js_GetConsumerInfo(&info, client.jetstream, place.c_str(), "in", nullptr, nullptr) != NATS_OK)
            throw Error("no such consumer");
        const std::size_t held = info->NumPending + static_cast<std::size_t>(info->NumAckPending);
        jsConsumerInfo_Destroy(info);
        return held;
    }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy& proxy() override { return proxy_; }
    bool orders_redelivery() const override { return false; }
    const NatsServer& server() const { return server_; }

  private:
    NatsServer server_;
    Proxy proxy_;
    int count_ = 0;
};

class NatsSource : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        fixture_ = std::make_unique<NatsFixture>();
        cluster_ = std::make_unique<Cluster>(Form::extension);
    }
    static void TearDownTestSuite() {
        fixture_.reset();
        cluster_.reset();
    }
    static inline std::unique_ptr<NatsFixture> fixture_;
    static inline std::unique_ptr<Cluster> cluster_;
};

TEST_F(NatsSource, a_message_without_an_id_is_known_by_its_place) {
    WayIn way(*fixture_, *cluster_);
    const NatsClient client(fixture_->server().url());
    const std::string subject = way.place() + ".bare";
    for (const char* body : {"one", "one"})
        ASSERT_EQ(js_Publish(nullptr, client.jetstream, subject.c_str(), body, 3, nullptr, nullptr), NATS_OK);
    const auto pipeline = way.start();
    way.wait_for(2);
    pipeline->request_stop();
    pipeline->join();
    const auto all = way.arrived();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].id.find("nats:" + way.place() + "/1@"), 0U) << all[0].id;
    EXPECT_EQ(all[1].id.find("nats:" + way.place() + "/2@"), 0U) << all[1].id;
    EXPECT_EQ(all[0].bytes, "one");
}

TEST_F(NatsSource, a_consumer_that_could_lose_messages_is_refused) {
    WayIn way(*fixture_, *cluster_);
    const NatsClient client(fixture_->server().url());
    jsConsumerConfig config;
    jsConsumerConfig_Init(&config);
    config.Durable = "in";
    config.AckPolicy = js_AckExplicit;
    config.MaxDeliver = 5;
    ASSERT_EQ(js_AddConsumer(nullptr, client.jetstream, way.place().c_str(), &config, nullptr, nullptr),
              NATS_OK);
    const auto pipeline = way.start();
    wait_until("it says why", [&] {
        return pipeline->status().detail.find("gives a message up after 5 deliveries") != std::string::npos;
    });
}

TEST_F(NatsSource, what_takes_longer_than_ack_wait_is_not_delivered_again) {
    WayIn way(*fixture_, *cluster_);
    way.add_keyed(50);
    way.publish();
    cluster_->server().stop();
    const auto pipeline = way.start("one", {{"source.ack_wait", "3s"}});
    wait_until("all is read", [&] { return pipeline->status().read >= way.sent(); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(8);
    wait_until("several times ack_wait have passed",
               [&] { return std::chrono::steady_clock::now() > until; });
    EXPECT_EQ(pipeline->status().read, way.sent());
    cluster_->server().start();
    way.wait_for(way.sent());
    pipeline->request_stop();
    pipeline->join();
    way.expect_all();
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Nats, SourceConformance, NatsFixture);

}  // namespace baton::test
