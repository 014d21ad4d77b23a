#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <fstream>
#include <map>
#include <set>

#include "base/file.hpp"
#include "brokers/kafka/audit_client.hpp"
#include "brokers/kafka/tests/admin.hpp"
#include "brokers/kafka/tests/server.hpp"
#include "brokers/registry.hpp"
#include "conformance/driver.hpp"
#include "conformance/server_conformance.hpp"
#include "conformance/sink_conformance.hpp"
#include "support/broker.hpp"
#include "support/certificate.hpp"
#include "support/folder.hpp"

namespace baton::test {

namespace {

class KafkaFixture : public SinkFixture {
  public:
    KafkaFixture() {
        server_.advertised_proxy_port = proxy_.port();
        server_.settings = {"message.max.bytes=3000000"};
        server_.start();
        proxy_.set_target(server_.proxied_port());
    }

    std::string make_destination() override {
        const std::string topic = "topic-" + std::to_string(++count_);
        brokers::create_topic(direct(), topic, 3, {{"max.message.bytes", "1500000"}});
        return topic;
    }
    relay::Settings settings(const std::string&) override {
        relay::Settings settings("sink");
        settings.set("type", "kafka");
        settings.set("brokers", "127.0.0.1:" + std::to_string(proxy_.port()));
        settings.set("connect_timeout", "3s");
        settings.set("properties.message.max.bytes", std::int64_t{2'500'000});
        settings.set("properties.socket.timeout.ms", std::int64_t{1500});
        settings.set("properties.request.timeout.ms", std::int64_t{1000});
        settings.set("properties.topic.metadata.propagation.max.ms", std::int64_t{1000});
        settings.set("properties.topic.metadata.refresh.interval.ms", std::int64_t{500});
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        return brokers::read_topic(direct(), destination);
    }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy* proxy() override { return &proxy_; }
    std::string name_missing() override { return "topic-" + std::to_string(++count_); }
    void make_missing(const std::string& destination) override {
        brokers::create_topic(direct(), destination, 3, {{"max.message.bytes", "1500000"}});
    }
    bool poison(Message& message, std::string& storage) override {
        storage.assign(2'000'000, 'p');  // the client lets it pass, the topic does not
        message.body = storage;
        return true;
    }
    brokers::KafkaProperties direct() const {
        return {{"bootstrap.servers", "127.0.0.1:" + std::to_string(server_.port())}};
    }

  private:
    Proxy proxy_;
    KafkaServer server_;
    int count_ = 0;
};

// A cluster of the library's own, which answers as it is told.
class MockCluster {
  public:
    MockCluster() {
        std::array<char, 512> words{};
        rd_kafka_conf_t* conf = rd_kafka_conf_new();
        rd_kafka_conf_set(conf, "bootstrap.servers", "127.0.0.1:1", words.data(), words.size());
        rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t*, int, const char*, const char*) {});
        host_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, words.data(), words.size());
        cluster_ = rd_kafka_mock_cluster_new(host_, 1);
        rd_kafka_mock_topic_create(cluster_, "t", 1, 1);
        rd_kafka_mock_broker_set_rtt(cluster_, 1, 30);  // so that several requests are under way
    }
    ~MockCluster() {
        rd_kafka_mock_cluster_destroy(cluster_);
        rd_kafka_destroy(host_);
    }
    MockCluster(const MockCluster&) = delete;
    MockCluster& operator=(const MockCluster&) = delete;

    std::string address() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }
    void refuse_next_produce(int code, int times) {
        constexpr std::int16_t produce = 0;
        for (int i = 0; i < times; ++i)
            rd_kafka_mock_push_request_errors(cluster_, produce, 1, static_cast<rd_kafka_resp_err_t>(code));
    }

  private:
    rd_kafka_t* host_;
    rd_kafka_mock_cluster_t* cluster_;
};

std::vector<Message> of_one_key(std::size_t count, const std::string& topic) {
    std::vector<Message> made(count);
    for (std::size_t i = 0; i < count; ++i) {
        made[i].message_id = "m" + std::to_string(i);
        made[i].destination = topic;
        made[i].key = "k";
        made[i].body = "x";
    }
    return made;
}

// Copies left out, messages stand in the order in which they were given.
void expect_in_order(const std::vector<Received>& all, std::size_t count) {
    std::size_t next = 0;
    for (const auto& got : all) {
        const auto number = std::stoul(got.id.substr(1));
        EXPECT_LE(number, next) << got.id << " came before m" << next;
        if (number == next) ++next;
    }
    EXPECT_EQ(next, count);
}

// Let the second listener want a password, over this protocol.
void want_password(KafkaServer& server, const std::string& protocol, const std::vector<std::string>& more) {
    server.settings = KafkaServer::password_settings(protocol, "secret");
    server.settings.insert(server.settings.end(), more.begin(), more.end());
}

// Settings of a sink that has it.
relay::Settings with_password(const KafkaServer& server, const std::string& protocol) {
    relay::Settings settings("sink");
    settings.set("type", "kafka");
    settings.set("brokers", "127.0.0.1:" + std::to_string(server.proxied_port()));
    settings.set("connect_timeout", "4s");
    settings.set("properties.security.protocol", protocol);
    settings.set("properties.sasl.mechanism", "PLAIN");
    settings.set("properties.sasl.username", "relay");
    settings.set("properties.sasl.password", "secret");
    return settings;
}

class KafkaSink : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        try {
            fixture_ = std::make_unique<KafkaFixture>();
        } catch (const Unavailable& unavailable) {
            reason_ = unavailable.what();
            announce_skip(reason_);
        }
    }
    static void TearDownTestSuite() { fixture_.reset(); }
    void SetUp() override {
        if (!fixture_) GTEST_SKIP() << reason_;
    }
    // Send one message alone and return why it was rejected.
    std::string rejection_of(Message message) {
        const auto sink = brokers::make_sink(fixture_->settings({}));
        Driver driver(*sink);
        driver.give({std::move(message)});
        driver.run();
        return driver.rejected().empty() ? "" : driver.rejected().begin()->second;
    }
    static inline std::unique_ptr<KafkaFixture> fixture_;
    static inline std::string reason_;
};

TEST_F(KafkaSink, an_unknown_topic_is_shut_in_the_brokers_words) {
    Message message;
    message.message_id = "m";
    message.destination = "no-such-topic";
    message.body = "x";
    const auto sink = brokers::make_sink(fixture_->settings({}));
    Driver driver(*sink);
    driver.give({message});
    driver.run_until([&] { return driver.shut() >= 3; });
    EXPECT_NE(driver.last_error().find("no-such-topic"), std::string::npos) << driver.last_error();
    EXPECT_NE(driver.last_error().find("nknown topic"), std::string::npos) << driver.last_error();
}

TEST_F(KafkaSink, what_the_library_finds_too_large_is_rejected_before_it_is_sent) {
    Message message;
    message.message_id = "m";
    message.destination = fixture_->make_destination();
    const std::string body(2'600'000, 'x');
    message.body = body;
    EXPECT_NE(rejection_of(message).find("too large"), std::string::npos) << rejection_of(message);
    EXPECT_TRUE(fixture_->read_all(message.destination).empty());
}

// A broker refuses a batch as a whole.
TEST_F(KafkaSink, of_many_the_one_that_is_too_large_for_the_topic_is_rejected_and_all_others_arrive) {
    brokers::create_topic(fixture_->direct(), "narrow", 1, {{"max.message.bytes", "100000"}});
    const std::string small(1000, 's');
    const std::string large(200'000, 'l');
    const std::array<std::string, 5> keys{"k0", "k1", "k2", "k3", ""};
    std::vector<Message> messages(400);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        messages[i].message_id = "m" + std::to_string(i);
        messages[i].destination = "narrow";
        messages[i].key = keys[i % keys.size()];
        messages[i].body = i == 150 ? large : small;
    }
    const auto sink = brokers::make_sink(fixture_->settings({}));
    Driver driver(*sink);
    driver.give(messages);
    driver.run();
    ASSERT_EQ(driver.rejected().size(), 1U);
    EXPECT_EQ(driver.rejected().begin()->first, "m150");
    EXPECT_NE(driver.rejected().begin()->second.find("too large"), std::string::npos);
    std::map<std::string, int> arrived;
    std::map<std::string, int> last;
    for (const auto& got : brokers::read_topic(fixture_->direct(), "narrow")) {
        const bool copy = ++arrived[got.id] > 1;
        const int number = std::stoi(got.id.substr(1));
        if (copy || number % 5 == 4) continue;
        EXPECT_LT(last[keys[static_cast<std::size_t>(number) % 5]], number + 1);
        last[keys[static_cast<std::size_t>(number) % 5]] = number + 1;
    }
    EXPECT_EQ(arrived.size(), messages.size() - 1);
    EXPECT_FALSE(arrived.contains("m150"));
}

TEST_F(KafkaSink, batches_become_smaller_until_the_topic_takes_them) {
    brokers::create_topic(fixture_->direct(), "slim", 1, {{"max.message.bytes", "30000"}});
    const std::string body(1000, 'x');
    std::vector<Message> messages(3000);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        messages[i].message_id = "m" + std::to_string(i);
        messages[i].destination = "slim";
        messages[i].body = body;
    }
    const auto sink = brokers::make_sink(fixture_->settings({}));
    Driver driver(*sink);
    driver.give(messages);
    driver.run();
    EXPECT_TRUE(driver.rejected().empty());
    EXPECT_EQ(driver.delivered(), messages.size());
    // They are small enough now.
    const auto before = driver.retries();
    driver.give(messages);
    driver.run();
    EXPECT_EQ(driver.retries(), before);
}

TEST_F(KafkaSink, a_check_finds_a_topic_that_is_missing) {
    auto settings = fixture_->settings({});
    settings.set("topic", "not-there");
    EXPECT_THROW(brokers::make_sink(settings)->check(), Error);
}

TEST_F(KafkaSink, properties_pass_through_and_bad_or_dangerous_ones_are_refused_by_name) {
    for (const auto& [name, value] : std::map<std::string, std::string>{{"acks", "0"},
                                                                        {"enable.idempotence", "false"},
                                                                        {"message.timeout.ms", "1000"},
                                                                        {"no.such.thing", "1"},
                                                                        {"security.protocol", "nonsense"}}) {
        auto settings = fixture_->settings({});
        settings.set("properties." + name, value);
        try {
            brokers::make_sink(settings);
            ADD_FAILURE() << name << " was taken";
        } catch (const relay::SettingsError& error) {
            EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
        }
    }
    auto settings = fixture_->settings({});
    settings.set("properties.security.protocol", "SASL_SSL");
    settings.set("properties.sasl.mechanism", "SCRAM-SHA-512");
    EXPECT_NO_THROW(brokers::make_sink(settings));
}

TEST_F(KafkaSink, tls_and_a_password_are_spoken_and_strangers_are_not_trusted) {
    const Folder folder;
    const auto certificate = make_certificate(folder.path());
    // Kafka wants key and certificate in one file.
    std::ofstream(folder / "both.pem") << read_text(certificate.key) << read_text(certificate.cert);
    KafkaServer server;
    want_password(server, "SASL_SSL",
                  {"listener.name.proxied.ssl.keystore.type=PEM",
                   "listener.name.proxied.ssl.keystore.location=" + (folder / "both.pem").string()});
    server.start();
    const brokers::KafkaProperties plain{{"bootstrap.servers", "127.0.0.1:" + std::to_string(server.port())}};
    brokers::create_topic(plain, "safe", 1);
    auto settings = with_password(server, "SASL_SSL");
    settings.set("topic", "safe");
    EXPECT_THROW(brokers::make_sink(settings)->check(), Error) << "nobody vouches for the certificate";
    settings.set("properties.ssl.ca.location", certificate.cert.string());
    Message message;
    message.message_id = "m";
    message.destination = "safe";
    message.body = "x";
    const auto sink = brokers::make_sink(settings);
    EXPECT_NO_THROW(sink->check());
    Driver driver(*sink);
    driver.give({message});
    driver.run();
    EXPECT_EQ(brokers::read_topic(plain, "safe").size(), 1U);
    settings.set("properties.sasl.password", "wrong");
    EXPECT_THROW(brokers::make_sink(settings)->check(), Error);
}

// A user who may write nowhere gets no producer id, and from then on the library refuses everything.
TEST_F(KafkaSink, a_fatal_error_of_the_library_is_named_and_overcome_once_its_cause_is_gone) {
    KafkaServer server;
    want_password(server, "SASL_PLAINTEXT",
                  {"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                   "super.users=User:ANONYMOUS"});
    server.start();
    const std::string direct = "127.0.0.1:" + std::to_string(server.port());
    brokers::create_topic({{"bootstrap.servers", direct}}, "guarded", 1);
    grant(direct, "User:relay", RD_KAFKA_ACL_OPERATION_DESCRIBE);
    const auto sink = brokers::make_sink(with_password(server, "SASL_PLAINTEXT"));
    const std::array<std::string, 4> keys{"k0", "k1", "k2", "k3"};
    std::vector<Message> messages(200);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        messages[i].message_id = "m" + std::to_string(i);
        messages[i].destination = "guarded";
        messages[i].key = keys[i % 4];
        messages[i].body = "x";
    }
    Driver driver(*sink);
    driver.give(messages);
    driver.run_until([&] { return driver.retries() >= 3 * messages.size(); });
    EXPECT_NE(driver.last_error().find("authorization failed"), std::string::npos) << driver.last_error();
    EXPECT_TRUE(driver.rejected().empty());
    EXPECT_EQ(driver.delivered(), 0U);
    grant(direct, "User:relay", RD_KAFKA_ACL_OPERATION_WRITE);
    driver.run();
    EXPECT_EQ(driver.delivered(), messages.size());
    EXPECT_EQ(brokers::read_topic({{"bootstrap.servers", direct}}, "guarded").size(), messages.size());
    EXPECT_EQ(sink->trouble(), "");
}

// The library calls these errors of a produce request final: -1 unknown, 32 invalid timestamp, 35 unsupported
// version, 76 unsupported compression.
TEST(KafkaSinkOnAMock, a_produce_error_that_the_library_does_not_retry_lets_nothing_of_its_key_overtake) {
    for (const int code : {-1, 32, 35, 76})
        for (const std::size_t at_once : {6U, 1U}) {
            MockCluster cluster;
            relay::Settings settings("sink");
            settings.set("type", "kafka");
            settings.set("brokers", cluster.address());
            settings.set("properties.batch.num.messages", std::int64_t{1});  // a request for each
            const auto sink = brokers::make_sink(settings);
            cluster.refuse_next_produce(code, 3);
            auto messages = of_one_key(6, "t");
            Driver driver(*sink);
            for (std::size_t i = 0; i < 6; i += at_once) {
                driver.give({messages.begin() + static_cast<std::ptrdiff_t>(i),
                             messages.begin() + static_cast<std::ptrdiff_t>(i + at_once)});
                if (at_once == 1) driver.fill();
            }
            EXPECT_NO_THROW(driver.run()) << code;
            EXPECT_GT(driver.retries(), 0U) << code;
            EXPECT_EQ(driver.delivered(), 6U) << code;
            expect_in_order(brokers::read_topic({{"bootstrap.servers", cluster.address()}}, "t"), 6);
        }
}

// A broker that has nothing of a producer takes its second message although the first was refused, as a
// broker does that becomes the leader between the two. The library then takes the first for written, and says
// so.
TEST(KafkaSinkOnAMock, a_first_message_that_was_refused_is_not_delivered_because_the_next_one_was) {
    constexpr int not_leader = 6;
    for (const bool keyed : {true, false}) {
        MockCluster cluster;
        relay::Settings settings("sink");
        settings.set("type", "kafka");
        settings.set("brokers", cluster.address());
        settings.set("properties.batch.num.messages", std::int64_t{1});  // a request for each
        const auto sink = brokers::make_sink(settings);
        cluster.refuse_next_produce(not_leader, 1);
        auto messages = of_one_key(4, "t");
        for (std::size_t i = 0; i < messages.size(); ++i)
            messages[i].key = keyed ? std::string(1, static_cast<char>('a' + i % 2)) : "";
        Driver driver(*sink);
        driver.give(messages);
        driver.run();
        EXPECT_EQ(driver.delivered(), messages.size());
        std::set<std::string> arrived;
        for (const auto& got : brokers::read_topic({{"bootstrap.servers", cluster.address()}}, "t"))
            arrived.insert(got.id);
        EXPECT_EQ(arrived.size(), messages.size()) << "a message was reported delivered and is not there";
    }
}

TEST_F(KafkaSink, an_error_for_good_in_the_middle_of_a_keys_messages_lets_none_overtake) {
    const std::string topic = fixture_->make_destination();
    const std::string broker = fixture_->direct().at("bootstrap.servers");
    auto settings = fixture_->settings({});
    settings.set("properties.batch.num.messages", std::int64_t{3});  // many requests under way
    const auto sink = brokers::make_sink(settings);
    constexpr std::size_t count = 3000;
    Driver driver(*sink);
    driver.give(of_one_key(count, topic));
    for (const std::size_t part : {1U, 2U}) {
        driver.run_until([&] { return driver.delivered() > part * count / 3; });
        const auto before = driver.retries();
        alter_topic(broker, topic, "message.timestamp.difference.max.ms", "0");
        driver.run_until([&] { return driver.retries() > before + 5; });
        EXPECT_NE(driver.last_error().find("imestamp"), std::string::npos) << driver.last_error();
        alter_topic(broker, topic, "message.timestamp.difference.max.ms", "");
    }
    driver.run();
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    expect_in_order(fixture_->read_all(topic), count);
}

TEST_F(KafkaSink, trouble_says_why_nothing_arrives) {
    auto settings = fixture_->settings({});
    settings.set("brokers", "127.0.0.1:" + std::to_string(find_free_port()));
    const auto sink = brokers::make_sink(settings);
    Message message;
    message.message_id = "m";
    message.destination = "t";
    message.body = "x";
    Driver driver(*sink);
    driver.give({message});
    driver.run_until([&] { return sink->trouble().find("Connection refused") != std::string::npos; });
    EXPECT_EQ(driver.in_flight(), 1U);
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Kafka, ServerConformance, KafkaServer);
INSTANTIATE_TYPED_TEST_SUITE_P(Kafka, SinkConformance, KafkaFixture);

}  // namespace baton::test
