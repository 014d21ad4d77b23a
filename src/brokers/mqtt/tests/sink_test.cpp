// The mqtt sink on a real mosquitto.

#include <set>

#include "brokers/mqtt/audit_client.hpp"
#include "brokers/mqtt/tests/server.hpp"
#include "brokers/registry.hpp"
#include "conformance/deliveries.hpp"
#include "conformance/driver.hpp"
#include "conformance/server_conformance.hpp"
#include "conformance/sink_conformance.hpp"
#include "relay/transform.hpp"
#include "support/certificate.hpp"
#include "support/cluster.hpp"

namespace baton::test {

namespace {

using brokers::MqttClient;

brokers::MqttServer straight_to(const MosquittoServer& server) {
    relay::Settings settings("reader");
    settings.set("url", server.url());
    return brokers::read_mqtt_server(settings);
}

class MqttFixture final : public SinkFixture {
  public:
    MqttFixture() {
        server_.settings = {"max_packet_size 1200000"};
        server_.users = {{"relay", "secret"}};
        server_.start();
        proxy_.set_target(server_.port());
    }
    // Nobody keeps what is published unless somebody has subscribed before.
    std::string make_destination() override {
        const std::string topic = "events/" + std::to_string(++count_);
        MqttClient(straight_to(server_), topic).subscribe(topic);
        return topic;
    }
    relay::Settings settings(const std::string&) override {
        relay::Settings settings("sink");
        settings.set("type", "mqtt");
        settings.set("url", "mqtt://127.0.0.1:" + std::to_string(proxy_.port()));
        settings.set("username", "relay");
        settings.set("password", "secret");
        settings.set("connect_timeout", "1s");
        settings.set("ack_timeout", "1s");
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        MqttClient(straight_to(server_), destination).read_all(read_[destination]);
        return read_[destination];
    }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy* proxy() override { return &proxy_; }
    bool shut(const std::string& destination) override {
        server_.deny(destination);
        return true;
    }
    void open(const std::string&) override { server_.deny(""); }
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
    MosquittoServer server_;
    Proxy proxy_;
    int count_ = 0;
    std::map<std::string, std::vector<Received>> read_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Mqtt, SinkConformance, MqttFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Mosquitto, ServerConformance, MosquittoServer);

// A server of the test's own, with a sink that goes straight to it.
class MqttSinkTest : public testing::Test {
  protected:
    void start(std::vector<std::string> lines = {}) {
        server_.settings = std::move(lines);
        server_.start();
        settings_.set("type", "mqtt");
        settings_.set("url", server_.url());
    }
    std::unique_ptr<relay::Sink> make() const { return brokers::make_sink(settings_); }
    void listen(const std::string& topic) { MqttClient(straight_to(server_), "reader").subscribe(topic); }
    std::vector<Received> heard() {
        std::vector<Received> all;
        MqttClient(straight_to(server_), "reader").read_all(all);
        return all;
    }
    // Deliver again what comes back: mosquitto 2.0 hangs up after it has refused a message, and those behind
    // get no answer.
    static std::map<std::uint64_t, relay::Delivery> insist(relay::Sink& sink,
                                                           const std::vector<Message>& all) {
        std::map<std::uint64_t, relay::Delivery> fates;
        std::vector<Message> left = all;
        wait_until("all are settled", [&] {
            const auto round = left;
            left.clear();
            for (auto& [ticket, delivery] : deliver(sink, round))
                if (delivery.verdict == relay::Verdict::retry)
                    left.push_back(all[ticket - 1]);
                else
                    fates.emplace(ticket, delivery);
            return left.empty();
        });
        return fates;
    }

    MosquittoServer server_;
    relay::Settings settings_{"sink"};
};

TEST_F(MqttSinkTest, a_message_without_subscribers_is_delivered) {
    start();
    expect_delivered(*make(), numbered(3, "nobody/listens"));
}

TEST_F(MqttSinkTest, a_topic_that_may_not_be_written_is_shut_and_the_others_go_on) {
    server_.deny("closed");
    start();
    listen("#");
    auto mixed = numbered(4, "open");
    mixed[1].destination = "closed";
    const auto fates = insist(*make(), mixed);
    EXPECT_EQ(fates.at(2).verdict, relay::Verdict::shut);
    EXPECT_NE(fates.at(2).error.find("not authorized"), std::string::npos) << fates.at(2).error;
    for (const std::uint64_t ticket : {1, 3, 4})
        EXPECT_EQ(fates.at(ticket).verdict, relay::Verdict::delivered) << fates.at(ticket).error;
    std::set<std::string> ids;
    for (const auto& got : heard()) ids.insert(got.id);
    EXPECT_EQ(ids, (std::set<std::string>{"m0", "m2", "m3"}));
}

TEST_F(MqttSinkTest, a_message_that_the_server_calls_too_large_is_rejected_alone) {
    start({"message_size_limit 1000"});
    const std::string large(2000, 'x');
    auto mixed = numbered(3, "limit");
    mixed[1].body = large;
    const auto fates = insist(*make(), mixed);
    EXPECT_EQ(fates.at(1).verdict, relay::Verdict::delivered);
    EXPECT_EQ(fates.at(2).verdict, relay::Verdict::rejected);
    EXPECT_NE(fates.at(2).error.find("packet too large"), std::string::npos) << fates.at(2).error;
    EXPECT_EQ(fates.at(3).verdict, relay::Verdict::delivered);
}

TEST_F(MqttSinkTest, the_servers_maximum_packet_size_is_known_once_connected) {
    start({"max_packet_size 5000"});
    const auto sink = make();
    EXPECT_EQ(sink->traits().max_message_bytes, 0U);
    expect_delivered(*sink, numbered(1, "t"));
    EXPECT_EQ(sink->traits().max_message_bytes, 5000U);
}

TEST_F(MqttSinkTest, no_more_messages_are_under_way_than_the_server_takes) {
    start({"max_inflight_messages 3"});
    listen("t");
    expect_delivered(*make(), numbered(200, "t"));
    EXPECT_EQ(heard().size(), 200U);
}

TEST_F(MqttSinkTest, what_cannot_be_a_packet_is_rejected_before_it_is_sent) {
    start();
    auto bad = numbered(4, "t");
    const std::string long_topic(70'000, 't');
    bad[0].destination = long_topic;
    bad[1].destination = "wild/+/card";
    bad[2].headers.add("broken", "\xff");
    bad[3].headers.add("long", std::string(70'000, 'v'));
    const auto sink = make();
    for (const auto& [ticket, delivery] : deliver(*sink, bad)) {
        EXPECT_EQ(delivery.verdict, relay::Verdict::rejected) << ticket;
        EXPECT_FALSE(delivery.error.empty()) << ticket;
    }
    expect_delivered(*sink, numbered(1, "t"));
}

TEST_F(MqttSinkTest, a_retained_message_waits_for_who_subscribes_later) {
    start();
    settings_.set("retain", true);
    expect_delivered(*make(), numbered(2, "state/one"));
    MqttClient late(straight_to(server_), "late");
    late.subscribe("state/#");
    std::vector<Received> all;
    late.read_all(all);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].id, "m1");
}

TEST_F(MqttSinkTest, cloudevents_attributes_are_user_properties_without_a_prefix) {
    start();
    settings_.set("envelope", "cloudevents");
    settings_.set("topic", "{aggregate_type}/{aggregate_id}");
    listen("#");
    Event event;
    event.event_id = "e1";
    event.event_type = "order.placed";
    event.aggregate_type = "order";
    event.aggregate_id = "7";
    event.headers = R"({"type": "mine", "note": "kept"})";
    event.payload = R"({"a":1})";
    relay::Transform transform(settings_, relay::Settings("filter"), brokers::form_of(settings_));
    Messages made;
    std::string storage;
    transform.render(event, made, storage);
    std::vector<Message> rendered(made.begin(), made.end());
    rendered.at(0).ticket = 1;
    expect_delivered(*make(), rendered);
    const auto all = heard();
    ASSERT_EQ(all.size(), 1U);
    const auto& headers = all[0].headers;
    EXPECT_EQ(headers.at("specversion"), "1.0");
    EXPECT_EQ(headers.at("id"), "e1");
    EXPECT_EQ(headers.at("type"), "order.placed");
    EXPECT_EQ(headers.at("subject"), "7");
    EXPECT_EQ(headers.at("note"), "kept");
    EXPECT_EQ(headers.at("message-id"), "e1");
    EXPECT_EQ(headers.at("partition-key"), "7");
    EXPECT_EQ(headers.at("content-type"), "application/json");
}

TEST_F(MqttSinkTest, tls_is_spoken_and_a_stranger_is_not_trusted) {
    const auto certificate = make_certificate(server_.folder());
    const int tls_port = find_free_port();
    start({"listener " + std::to_string(tls_port) + " 127.0.0.1", "certfile " + certificate.cert.string(),
           "keyfile " + certificate.key.string()});
    settings_.set("url", "mqtts://localhost:" + std::to_string(tls_port));
    for (const auto& [ticket, delivery] : deliver(*make(), numbered(2, "s"))) {
        EXPECT_EQ(delivery.verdict, relay::Verdict::retry);
        EXPECT_NE(delivery.error.find("self-signed"), std::string::npos) << delivery.error;
    }
    settings_.set("tls_ca", certificate.cert.string());
    listen("s");
    const std::string body(1 << 20, 'x');
    EXPECT_NO_THROW(make()->check());
    expect_delivered(*make(), numbered(20, "s", body));
    EXPECT_EQ(heard().size(), 20U);
}

TEST_F(MqttSinkTest, a_connection_closed_while_idle_costs_no_message_an_attempt) {
    start();
    settings_.set("client_id", "idle");
    const auto sink = make();
    expect_delivered(*sink, numbered(1, "t"));
    MqttClient::forget(straight_to(server_), "idle");  // takes the session over
    expect_delivered(*sink, numbered(1, "t"));
}

}  // namespace

}  // namespace baton::test
