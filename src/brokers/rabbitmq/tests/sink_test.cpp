// The rabbitmq sink on a real rabbitmq-server.

#include "brokers/rabbitmq/audit_client.hpp"
#include "brokers/rabbitmq/tests/server.hpp"
#include "brokers/registry.hpp"
#include "conformance/driver.hpp"
#include "conformance/server_conformance.hpp"
#include "conformance/sink_conformance.hpp"
#include "support/certificate.hpp"
#include "support/cluster.hpp"

namespace baton::test {

namespace {

using relay::Verdict;

using brokers::RabbitClient;

std::string address_of(int port) {
    return "amqp://guest:guest@127.0.0.1:" + std::to_string(port) + "/";
}

class RabbitFixture final : public SinkFixture {
  public:
    RabbitFixture() {
        server_.settings = {"max_message_size = 1500000"};
        server_.start();
        proxy_.set_target(server_.port());
    }
    std::string make_destination() override {
        const std::string name = "queue-" + std::to_string(++count_);
        RabbitClient(address_of(server_.port())).declare_queue(name);
        return name;
    }
    relay::Settings settings(const std::string&) override {
        relay::Settings settings("sink");
        settings.set("type", "rabbitmq");
        settings.set("url", "amqp://guest:guest@127.0.0.1:" + std::to_string(proxy_.port()) + "/");
        settings.set("heartbeat", "1s");
        settings.set("connect_timeout", "2s");
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        return RabbitClient(address_of(server_.port())).read_all(destination);
    }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy* proxy() override { return &proxy_; }
    // Rights are looked at when a channel opens, and then remembered for a while.
    bool shut(const std::string&) override {
        EXPECT_EQ(server_.control({"set_permissions", "guest", ".*", "^nothing$", ".*"}).exit_code, 0);
        proxy_.cut();
        return true;
    }
    void open(const std::string&) override {
        EXPECT_EQ(server_.control({"set_permissions", "guest", ".*", ".*", ".*"}).exit_code, 0);
        proxy_.cut();
    }
    std::string name_missing() override { return "queue-" + std::to_string(++count_); }
    void make_missing(const std::string& destination) override {
        RabbitClient(address_of(server_.port())).declare_queue(destination);
    }
    std::optional<relay::Settings> with_wrong_login(const std::string& destination) override {
        auto wrong = settings(destination);
        wrong.set("password", "wrong");
        return wrong;
    }
    bool poison(Message& message, std::string& storage) override {
        storage.assign(2'000'000, 'p');  // over the broker's limit
        message.body = storage;
        return true;
    }
    std::size_t messages_per_test() const override { return 800; }

  private:
    RabbitServer server_;
    Proxy proxy_;
    int count_ = 0;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Rabbitmq, ServerConformance, RabbitServer);
INSTANTIATE_TYPED_TEST_SUITE_P(Rabbit, SinkConformance, RabbitFixture);

// One server for all tests below; each uses names of its own.
class RabbitSinkTest : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        server_ = std::make_unique<RabbitServer>();
        certificate_ = make_certificate(server_->folder() / "tls");
        tls_port_ = find_free_port();
        server_->settings = {"max_message_size = 100000",
                             "listeners.ssl.1 = 127.0.0.1:" + std::to_string(tls_port_),
                             "ssl_options.cacertfile = " + certificate_.cert.string(),
                             "ssl_options.certfile = " + certificate_.cert.string(),
                             "ssl_options.keyfile = " + certificate_.key.string(),
                             "ssl_options.verify = verify_none"};
        server_->start();
    }
    static void TearDownTestSuite() { server_.reset(); }
    void SetUp() override {
        settings_.set("type", "rabbitmq");
        settings_.set("url", "amqp://guest:guest@127.0.0.1:" + std::to_string(server_->port()) + "/");
    }
    static std::vector<Message> messages(std::size_t count, const std::string& routing_key) {
        std::vector<Message> made(count);
        for (std::size_t i = 0; i < count; ++i) {
            made[i].ticket = i + 1;
            made[i].message_id = "m" + std::to_string(i);
            made[i].destination = routing_key;
            made[i].body = "{}";
        }
        return made;
    }
    // Send and wait until every message is reported.
    std::map<std::uint64_t, relay::Delivery> deliver(const std::vector<Message>& messages) {
        const auto sink = brokers::make_sink(settings_);
        std::vector<relay::Delivery> deliveries;
        sink->send(messages);
        wait_until("every message is reported", [&] {
            sink->collect(deliveries, std::chrono::milliseconds(50));
            return deliveries.size() >= messages.size();
        });
        EXPECT_EQ(deliveries.size(), messages.size());
        std::map<std::uint64_t, relay::Delivery> fate;
        for (const auto& delivery : deliveries) fate.emplace(delivery.ticket, delivery);
        return fate;
    }
    static RabbitClient client() { return RabbitClient(address_of(server_->port())); }

    static inline std::unique_ptr<RabbitServer> server_;
    static inline Certificate certificate_;
    static inline int tls_port_ = 0;
    relay::Settings settings_{"sink"};
};

TEST_F(RabbitSinkTest, a_routing_key_that_no_queue_is_bound_to_is_shut_in_the_brokers_words) {
    client().declare_queue("routed");
    auto mixed = messages(9, "routed");
    mixed[4].destination = "unrouted";
    // The same id under another routing key: it is the return's routing key that tells them apart.
    mixed[3].message_id = mixed[4].message_id;
    const auto fate = deliver(mixed);
    for (const auto& [ticket, delivery] : fate)
        EXPECT_EQ(delivery.verdict, ticket == 5 ? Verdict::shut : Verdict::delivered)
            << ticket << delivery.error;
    EXPECT_NE(fate.at(5).error.find("NO_ROUTE"), std::string::npos) << fate.at(5).error;
    EXPECT_EQ(client().read_all("routed").size(), 8U);
}

TEST_F(RabbitSinkTest, a_message_over_the_brokers_limit_is_rejected_and_its_neighbours_are_not) {
    client().declare_queue("limited");
    const std::string large(200'000, 'x');
    auto mixed = messages(50, "limited");
    mixed[20].body = large;
    mixed[30].body = large;
    const auto fate = deliver(mixed);
    for (const auto& [ticket, delivery] : fate) {
        const bool culprit = ticket == 21 || ticket == 31;
        EXPECT_EQ(delivery.verdict, culprit ? Verdict::rejected : Verdict::delivered)
            << ticket << delivery.error;
        if (culprit) {
            EXPECT_NE(delivery.error.find("larger than"), std::string::npos) << delivery.error;
        }
    }
    std::map<std::string, int> found;
    for (const auto& got : client().read_all("limited")) ++found[got.id];
    EXPECT_EQ(found.size(), 48U);
}

TEST_F(RabbitSinkTest, a_full_queue_refuses_and_the_message_is_to_be_retried) {
    client().declare_queue("full", 2);
    int delivered = 0;
    for (const auto& [ticket, delivery] : deliver(messages(10, "full"))) {
        if (delivery.verdict == Verdict::delivered)
            ++delivered;
        else
            EXPECT_EQ(delivery.verdict, Verdict::retry) << delivery.error;
    }
    EXPECT_EQ(static_cast<std::size_t>(delivered), client().read_all("full").size());
    EXPECT_LT(delivered, 10);
}

TEST_F(RabbitSinkTest, an_exchange_routes_by_key) {
    client().declare_exchange("orders", "topic");
    client().declare_queue("paid");
    client().bind("paid", "orders", "order.*.paid");
    settings_.set("exchange", "orders");
    auto mixed = messages(2, "order.eu.paid");
    mixed[1].destination = "order.eu.sent";
    const auto fate = deliver(mixed);
    EXPECT_EQ(fate.at(1).verdict, Verdict::delivered) << fate.at(1).error;
    EXPECT_EQ(fate.at(2).verdict, Verdict::shut);
    EXPECT_EQ(client().read_all("paid").size(), 1U);
    EXPECT_NO_THROW(brokers::make_sink(settings_)->check());
}

TEST_F(RabbitSinkTest, an_unknown_exchange_is_found_by_check_and_is_shut_for_every_message) {
    settings_.set("exchange", "nowhere");
    try {
        brokers::make_sink(settings_)->check();
        FAIL() << "check() found an exchange that is not there";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("NOT_FOUND"), std::string::npos) << error.what();
    }
    for (const auto& [ticket, delivery] : deliver(messages(3, "x"))) {
        EXPECT_EQ(delivery.verdict, Verdict::shut);
        EXPECT_NE(delivery.error.find("NOT_FOUND"), std::string::npos) << delivery.error;
    }
}

TEST_F(RabbitSinkTest, a_wrong_password_is_waited_for_in_the_brokers_words) {
    settings_.set("url", "amqp://guest:wrong@127.0.0.1:" + std::to_string(server_->port()) + "/");
    for (const auto& [ticket, delivery] : deliver(messages(2, "x"))) {
        EXPECT_EQ(delivery.verdict, Verdict::shut);
        EXPECT_NE(delivery.error.find("ACCESS_REFUSED"), std::string::npos) << delivery.error;
    }
    EXPECT_THROW(brokers::make_sink(settings_)->check(), Error);
}

TEST_F(RabbitSinkTest, what_does_not_fit_the_protocol_is_rejected_before_it_is_sent) {
    client().declare_queue("fits");
    auto mixed = messages(4, "fits");
    mixed[0].destination = std::string(256, 'r');
    mixed[1].message_id = std::string(256, 'i');
    mixed[2].headers.push_back({"big", std::string(200'000, 'h')});
    const auto fate = deliver(mixed);
    for (const auto& [ticket, delivery] : fate)
        EXPECT_EQ(delivery.verdict, ticket == 4 ? Verdict::delivered : Verdict::rejected)
            << ticket << delivery.error;
}

TEST_F(RabbitSinkTest, a_broker_without_memory_is_waited_for) {
    client().declare_queue("patient");
    ASSERT_EQ(server_->control({"set_vm_memory_high_watermark", "0.00001"}).exit_code, 0);
    settings_.set("confirm_timeout", "1s");
    const auto sink = brokers::make_sink(settings_);
    const auto sent = messages(2, "patient");
    sink->send(sent);
    std::vector<relay::Delivery> deliveries;
    sink->collect(deliveries, std::chrono::milliseconds(2500));
    EXPECT_TRUE(deliveries.empty())
        << "given up after confirm_timeout, although the broker said that it is blocked";
    EXPECT_NE(sink->trouble().find("memory"), std::string::npos) << sink->trouble();
    ASSERT_EQ(server_->control({"set_vm_memory_high_watermark", "0.4"}).exit_code, 0);
    wait_until("both are reported", [&] {
        sink->collect(deliveries, std::chrono::milliseconds(50));
        return deliveries.size() >= 2;
    });
    for (const auto& delivery : deliveries) EXPECT_EQ(delivery.verdict, Verdict::delivered) << delivery.error;
    EXPECT_EQ(sink->trouble(), "");
}

TEST_F(RabbitSinkTest, tls_is_spoken_and_a_stranger_is_not_trusted) {
    client().declare_queue("safe");
    settings_.set("url", "amqps://guest:guest@localhost:" + std::to_string(tls_port_) + "/");
    for (const auto& [ticket, delivery] : deliver(messages(1, "safe"))) {
        EXPECT_EQ(delivery.verdict, Verdict::retry);
        EXPECT_NE(delivery.error.find("cert verification failed"), std::string::npos) << delivery.error;
    }
    settings_.set("tls_ca", certificate_.cert.string());
    EXPECT_NO_THROW(brokers::make_sink(settings_)->check());
    const std::string body(90'000, 'x');
    auto large = messages(40, "safe");
    for (auto& message : large) message.body = body;
    for (const auto& [ticket, delivery] : deliver(large))
        EXPECT_EQ(delivery.verdict, Verdict::delivered) << delivery.error;
    EXPECT_EQ(client().read_all("safe").size(), 40U);
}

}  // namespace

}  // namespace baton::test
