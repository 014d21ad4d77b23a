// The amqp1 sink on a real ActiveMQ Artemis.

#include <set>

#include "brokers/amqp1/audit_client.hpp"
#include "brokers/amqp1/tests/server.hpp"
#include "brokers/registry.hpp"
#include "conformance/deliveries.hpp"
#include "conformance/server_conformance.hpp"
#include "conformance/sink_conformance.hpp"
#include "relay/transform.hpp"
#include "support/cluster.hpp"

namespace baton::test {

namespace {

using brokers::Amqp1Client;
using relay::Verdict;

class Amqp1Fixture final : public SinkFixture {
  public:
    Amqp1Fixture() {
        server_.users = {{"relay", "secret"}};
        server_.start();
        proxy_.set_target(server_.port());
    }
    std::string make_destination() override {
        const std::string address = "events." + std::to_string(++count_);
        Amqp1Client::make(server_.straight(), address);
        return address;
    }
    relay::Settings settings(const std::string&) override {
        relay::Settings settings("sink");
        settings.set("type", "amqp1");
        settings.set("url", "amqp://127.0.0.1:" + std::to_string(proxy_.port()));
        settings.set("username", "relay");
        settings.set("password", "secret");
        settings.set("max_message_bytes", std::int64_t{1'200'000});
        settings.set("connect_timeout", "1s");
        settings.set("ack_timeout", "1s");
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        Amqp1Client(server_.straight(), destination).read_rest(read_[destination]);
        return read_[destination];
    }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy* proxy() override { return &proxy_; }
    bool shut(const std::string& destination) override {
        server_.deny(destination);
        return true;
    }
    void open(const std::string& destination) override { server_.allow(destination); }
    std::string name_missing() override { return "missing." + std::to_string(++count_); }
    void make_missing(const std::string& destination) override { server_.add_queue(destination); }
    std::optional<relay::Settings> with_wrong_login(const std::string& destination) override {
        auto wrong = settings(destination);
        wrong.set("password", "wrong");
        return wrong;
    }
    bool poison(Message& message, std::string& storage) override {
        storage.assign(1'300'000, 'p');
        message.body = storage;
        return true;
    }

  private:
    ArtemisServer server_;
    Proxy proxy_;
    int count_ = 0;
    std::map<std::string, std::vector<Received>> read_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Amqp1, SinkConformance, Amqp1Fixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Artemis, ServerConformance, ArtemisServer);

// One server for all, with sinks that go straight to it.
class Amqp1SinkTest : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        try {
            server_ = std::make_unique<ArtemisServer>();
            server_->users = {{"relay", "secret"}};
            server_->certificate = make_certificate(server_->folder() / "tls");
            server_->start();
        } catch (const Unavailable& unavailable) {
            reason_ = unavailable.what();
            server_.reset();
        }
    }
    static void TearDownTestSuite() { server_.reset(); }
    void SetUp() override {
        if (!server_) GTEST_SKIP() << reason_;
        settings_.set("type", "amqp1");
        settings_.set("url", server_->url());
        settings_.set("username", "relay");
        settings_.set("password", "secret");
    }
    std::unique_ptr<relay::Sink> make() const { return brokers::make_sink(settings_); }
    static std::string make_address() {
        static int count = 0;
        return "own." + std::to_string(++count);
    }
    static std::vector<Received> taken_from(const std::string& address) {
        std::vector<Received> all;
        Amqp1Client(server_->straight(), address).read_rest(all);
        return all;
    }

    static inline std::unique_ptr<ArtemisServer> server_;
    static inline std::string reason_;
    relay::Settings settings_{"sink"};
};

TEST_F(Amqp1SinkTest, an_address_that_is_not_there_is_shut_and_the_others_go_on) {
    const std::string open = make_address();
    auto mixed = numbered(4, open);
    mixed[1].destination = "missing.one";
    const auto fates = deliver(*make(), mixed);
    EXPECT_EQ(fates.at(2).verdict, Verdict::shut);
    EXPECT_NE(fates.at(2).error.find("amqp:not-found"), std::string::npos) << fates.at(2).error;
    EXPECT_NE(fates.at(2).error.find("missing.one"), std::string::npos) << fates.at(2).error;
    for (const std::uint64_t ticket : {1, 3, 4})
        EXPECT_EQ(fates.at(ticket).verdict, Verdict::delivered) << fates.at(ticket).error;
    EXPECT_EQ(taken_from(open).size(), 3U);
}

TEST_F(Amqp1SinkTest, a_right_taken_away_shuts_the_address_also_while_its_link_is_open) {
    const std::string address = make_address();
    const auto sink = make();
    expect_delivered(*sink, numbered(2, address));
    server_->deny(address);
    for (const auto& [ticket, delivery] : deliver(*sink, numbered(2, address))) {
        EXPECT_EQ(delivery.verdict, Verdict::shut);
        EXPECT_NE(delivery.error.find("unauthorized"), std::string::npos) << delivery.error;
    }
    server_->allow(address);
    expect_delivered(*sink, numbered(2, address));
}

TEST_F(Amqp1SinkTest, a_queue_that_is_full_rejects_nothing_for_good) {
    const std::string body(4000, 'x');
    std::size_t given_back = 0;
    for (const auto& [ticket, delivery] :
         deliver(*make(), numbered(40, ArtemisServer::small_address(), body))) {
        EXPECT_TRUE(delivery.verdict == Verdict::delivered || delivery.verdict == Verdict::retry)
            << delivery.error;
        if (delivery.verdict == Verdict::retry) ++given_back;
    }
    EXPECT_GT(given_back, 0U);
}

TEST_F(Amqp1SinkTest, check_tells_an_address_that_is_there_from_one_that_is_not) {
    settings_.set("address", make_address());
    EXPECT_NO_THROW(make()->check());
    settings_.set("address", "missing.two");
    try {
        make()->check();
        ADD_FAILURE() << "the address is not there";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("missing.two"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("make it at the broker"), std::string::npos) << error.what();
    }
    settings_.set("password", "wrong");
    EXPECT_THROW(make()->check(), Error);
}

TEST_F(Amqp1SinkTest, what_cannot_be_a_message_is_rejected_before_it_is_sent) {
    const std::string address = make_address();
    auto bad = numbered(3, address);
    bad[0].headers.add("broken", "\xff");
    bad[1].message_id = std::string("zero\0", 5);
    bad[2].destination = "bad\xff";
    const auto sink = make();
    for (const auto& [ticket, delivery] : deliver(*sink, bad)) {
        EXPECT_EQ(delivery.verdict, Verdict::rejected) << ticket;
        EXPECT_FALSE(delivery.error.empty()) << ticket;
    }
    expect_delivered(*sink, numbered(1, address));
}

TEST_F(Amqp1SinkTest, headers_are_no_orders_to_the_broker) {
    const std::string address = make_address();
    auto alike = numbered(3, address);
    for (auto& message : alike) message.headers.add("_AMQ_DUPL_ID", "same");
    expect_delivered(*make(), alike);
    const auto all = taken_from(address);
    ASSERT_EQ(all.size(), 3U) << "the broker took the header for an order to drop copies";
    EXPECT_EQ(all[0].headers.at("event-_AMQ_DUPL_ID"), "same");
}

TEST_F(Amqp1SinkTest, an_address_for_each_message_does_not_keep_a_link_for_each) {
    const auto sink = make();
    const std::string prefix = make_address();
    for (int round = 0; round < 5; ++round) {
        auto many = numbered(100, "");
        for (std::size_t i = 0; i < many.size(); ++i)
            many[i].destination = prefix + "." + std::to_string(round) + "." + std::to_string(i);
        expect_delivered(*sink, many);
    }
    EXPECT_EQ(taken_from(prefix + ".0.0").size(), 1U);
    EXPECT_EQ(taken_from(prefix + ".4.99").size(), 1U);
}

TEST_F(Amqp1SinkTest, cloudevents_attributes_are_application_properties) {
    const std::string address = make_address();
    settings_.set("envelope", "cloudevents");
    settings_.set("address", address);
    Event event;
    event.event_id = "e1";
    event.event_type = "order.placed";
    event.aggregate_type = "order";
    event.aggregate_id = "7";
    event.headers = R"({"note": "kept"})";
    event.payload = R"({"a":1})";
    relay::Transform transform(settings_, relay::Settings("filter"), brokers::form_of(settings_));
    Messages made;
    std::string storage;
    transform.render(event, made, storage);
    std::vector<Message> rendered(made.begin(), made.end());
    rendered.at(0).ticket = 1;
    expect_delivered(*make(), rendered);
    const auto all = taken_from(address);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].id, "e1");
    EXPECT_EQ(all[0].key, "7");
    const auto& headers = all[0].headers;
    EXPECT_EQ(headers.at("cloudEvents_specversion"), "1.0");
    EXPECT_EQ(headers.at("cloudEvents_id"), "e1");
    EXPECT_EQ(headers.at("cloudEvents_type"), "order.placed");
    EXPECT_EQ(headers.at("cloudEvents_subject"), "7");
    EXPECT_EQ(headers.at("note"), "kept");
    EXPECT_EQ(headers.at("event-type"), "order.placed") << "the subject";
    EXPECT_EQ(headers.at("content-type"), "application/json");
}

TEST_F(Amqp1SinkTest, tls_is_spoken_and_a_stranger_is_not_trusted) {
    const std::string address = make_address();
    settings_.set("url", "amqps://localhost:" + std::to_string(server_->tls_port()));
    for (const auto& [ticket, delivery] : deliver(*make(), numbered(2, address))) {
        EXPECT_EQ(delivery.verdict, Verdict::retry);
        EXPECT_NE(delivery.error.find("self-signed"), std::string::npos) << delivery.error;
    }
    settings_.set("tls_ca", server_->certificate->cert.string());
    const std::string body(1 << 20, 'x');
    expect_delivered(*make(), numbered(10, address, body));
    EXPECT_EQ(taken_from(address).size(), 10U);
}

TEST_F(Amqp1SinkTest, a_certificate_is_a_login) {
    relay::Settings settings("sink");
    settings.set("type", "amqp1");
    settings.set("url", "amqps://localhost:" + std::to_string(server_->tls_port()));
    settings.set("tls_ca", server_->certificate->cert.string());
    settings.set("tls_cert", server_->certificate->cert.string());
    settings.set("tls_key", server_->certificate->key.string());
    const auto sink = brokers::make_sink(settings);
    const std::string address = make_address();
    expect_delivered(*sink, numbered(2, address));
    EXPECT_EQ(taken_from(address).size(), 2U);
}

TEST_F(Amqp1SinkTest, settings_that_contradict_each_other_are_refused) {
    const auto refused = [&](const char* key, const std::string& value) {
        auto wrong = settings_;
        wrong.set(key, value);
        EXPECT_THROW(brokers::make_sink(wrong), relay::SettingsError) << key << " = " << value;
    };
    refused("url", "http://localhost");
    refused("url", "amqp://localhost/queue");
    refused("sasl", "external");
    refused("sasl", "kerberos");
    refused("kind", "exchange");
    refused("keep_alive", "10ms");
    refused("ack_timeout", "0");
}

}  // namespace

}  // namespace baton::test
