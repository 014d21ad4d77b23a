// The mqtt source on a real mosquitto.

#include "brokers/mqtt/audit_client.hpp"
#include "brokers/mqtt/tests/server.hpp"
#include "brokers/registry.hpp"
#include "conformance/source_conformance.hpp"
#include "conformance/way_in.hpp"

namespace baton::test {

namespace {

using namespace std::chrono_literals;
using brokers::MqttClient;

class MqttFixture final : public SourceFixture {
  public:
    MqttFixture() {
        server_.start();
        proxy_.set_target(server_.port());
    }
    // The session is there before anything is published.
    std::string make_place() override {
        const std::string place = "place-" + std::to_string(++count_);
        MqttClient(straight(), client_of(place)).subscribe(topic_of(place));
        return place;
    }
    Table source(const std::string& place, const std::string&) override {
        return {{"type", "mqtt"},
                {"url", "mqtt://127.0.0.1:" + std::to_string(proxy_.port())},
                {"topics", std::vector<std::string>{topic_of(place)}},
                {"client_id", client_of(place)},
                {"standby", "1s"},
                {"keep_alive", "3s"},
                {"ack_timeout", "2s"},
                {"connect_timeout", "2s"}};
    }
    Table sink() override { return {{"type", "mqtt"}, {"url", server_.url()}}; }
    std::string destination(const std::string& place) override { return place + "/events"; }
    std::size_t held(const std::string& place) override { return server_.held(client_of(place)); }
    bool knows_missing_places() const override { return false; }  // every topic is there
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy& proxy() override { return proxy_; }

    brokers::MqttServer straight() const {
        relay::Settings settings("reader");
        settings.set("url", server_.url());
        return brokers::read_mqtt_server(settings);
    }
    MosquittoServer& server() { return server_; }
    static std::string topic_of(const std::string& place) { return place + "/#"; }
    static std::string client_of(const std::string& place) { return "in-" + place; }

  private:
    MosquittoServer server_;
    Proxy proxy_;
    int count_ = 0;
};

class MqttSource : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        fixture_ = std::make_unique<MqttFixture>();
        cluster_ = std::make_unique<Cluster>(Form::extension);
    }
    static void TearDownTestSuite() {
        fixture_.reset();
        cluster_.reset();
    }
    static inline std::unique_ptr<MqttFixture> fixture_;
    static inline std::unique_ptr<Cluster> cluster_;

    static std::shared_ptr<const brokers::BrokerSource> make(const WayIn& way) {
        return brokers::make_source(way.settings().below("source"), {"in", "one"});
    }
    // Publish a message as somebody would who knows nothing of baton.
    static void publish_plainly(const std::string& topic, const std::string& body) {
        brokers::MqttHello hello;
        brokers::MqttLink link(fixture_->straight(), hello);
        link.open_wholly();
        std::string packet{0x32, 0, 0, static_cast<char>(topic.size())};
        packet += topic;
        packet += std::string{0, 1, 0};
        packet += body;
        packet[1] = static_cast<char>(packet.size() - 2);
        link.send(packet);
        wait_until("it was taken", [&] {
            link.flush();
            return link.take().has_value();
        });
    }
    static std::vector<relay::BatchPtr> read(relay::Feed& feed, std::size_t count) {
        std::vector<relay::BatchPtr> batches;
        std::size_t all = 0;
        wait_until("all is read", [&] {
            if (auto batch = feed.read(50ms)) {
                all += batch->events.size();
                batches.push_back(std::move(batch));
            }
            return all >= count;
        });
        return batches;
    }
};

std::vector<std::string> ids_of(const std::vector<relay::BatchPtr>& batches) {
    std::vector<std::string> ids;
    for (const auto& batch : batches)
        for (const auto& event : batch->events) ids.emplace_back(event.event_id);
    return ids;
}

TEST_F(MqttSource, messages_that_are_alike_and_have_no_id_are_both_kept_and_known_when_sent_again) {
    WayIn way(*fixture_, *cluster_);
    for (int i = 0; i < 3; ++i) publish_plainly(way.place() + "/t", "21");
    const auto source = make(way);
    const auto first = ids_of(read(*source->open(), 3));
    EXPECT_NE(first[0], first[1]);
    EXPECT_NE(first[1], first[2]);
    const auto again = ids_of(read(*source->open(), 3));
    EXPECT_EQ(again, first);
}

// Reads as a pipeline does: with a new feed whenever one is of no more use.
class Relay {
  public:
    explicit Relay(std::shared_ptr<const brokers::BrokerSource> source) : source_(std::move(source)) {}
    std::size_t read() {
        try {
            if (!feed_) feed_ = source_->open();
            const auto batch = feed_->read(20ms);
            if (!batch) return 0;
            feed_->settle(batch, batch->events.size(), {});
            return batch->events.size();
        } catch (const ConnectionError&) {
            feed_.reset();
            ++ends_;
            return 0;
        }
    }
    bool stands_by() const { return feed_ && feed_->trouble().find("stands by") != std::string::npos; }
    int ends() const { return ends_; }

  private:
    std::shared_ptr<const brokers::BrokerSource> source_;
    std::unique_ptr<relay::Feed> feed_;
    int ends_ = 0;
};

// Two relays with one client id, until one of them stands by.
struct Rivals {
    Rivals(const WayIn& way, const char* standby) {
        auto settings = way.settings().below("source");
        settings.set("standby", standby);
        one = std::make_unique<Relay>(brokers::make_source(settings, {"in", "one"}));
        two = std::make_unique<Relay>(brokers::make_source(settings, {"in", "two"}));
        wait_until("one stands by", [this] {
            one->read();
            two->read();
            return one->stands_by() || two->stands_by();
        });
        if (one->stands_by()) std::swap(one, two);
    }
    std::unique_ptr<Relay> one, two;  // two is the one that stands by
};

TEST_F(MqttSource, of_two_readers_with_one_client_id_one_stands_by_and_the_other_one_reads) {
    WayIn way(*fixture_, *cluster_);
    const Rivals rivals(way, "300s");
    way.add_keyed(20);
    way.publish();
    std::size_t all = 0;
    wait_until("the other one reads", [&] {
        EXPECT_EQ(rivals.two->read(), 0U);
        return (all += rivals.one->read()) == 20;
    });
    EXPECT_LE(rivals.one->ends() + rivals.two->ends(), 6);
}

TEST_F(MqttSource, a_reader_that_stands_by_comes_back_when_the_other_one_is_gone) {
    WayIn way(*fixture_, *cluster_);
    Rivals rivals(way, "500ms");
    rivals.one.reset();
    way.add_keyed(20);
    way.publish();
    std::size_t all = 0;
    wait_until("it reads", [&] { return (all += rivals.two->read()) == 20; });
}

TEST_F(MqttSource, a_shared_subscription_divides_the_messages) {
    WayIn way(*fixture_, *cluster_);
    const auto settings = [&](const std::string& client) {
        auto made = way.settings().below("source");
        made.set("topics", std::vector<std::string>{"$share/both/" + way.place() + "/#"});
        made.set("client_id", client + way.place());
        return made;
    };
    for (const char* client : {"a", "b"})
        MqttClient(fixture_->straight(), client + way.place()).subscribe("$share/both/" + way.place() + "/#");
    const auto one = brokers::make_source(settings("a"), {"in", "one"});
    const auto two = brokers::make_source(settings("b"), {"in", "two"});
    EXPECT_NO_THROW(one->check());
    const auto first = one->open();
    const auto second = two->open();
    way.add_keyed(40);
    way.publish();
    std::set<std::string> seen;
    std::size_t by_first = 0;
    wait_until("all are read", [&] {
        for (auto* feed : {first.get(), second.get()})
            if (const auto batch = feed->read(50ms))
                for (const auto& event : batch->events) {
                    EXPECT_TRUE(seen.insert(std::string(event.event_id)).second) << event.event_id;
                    by_first += feed == first.get() ? 1 : 0;
                }
        return seen.size() == 40;
    });
    EXPECT_GT(by_first, 0U);
    EXPECT_LT(by_first, 40U);
}

TEST_F(MqttSource, no_more_messages_come_without_acknowledgement_than_the_receive_maximum) {
    WayIn way(*fixture_, *cluster_);
    way.add_keyed(50);
    way.publish();
    auto settings = way.settings().below("source");
    settings.set("receive_maximum", std::int64_t{10});
    const auto source = brokers::make_source(settings, {"in", "one"});
    const auto feed = source->open();
    const auto batches = read(*feed, 10);
    EXPECT_EQ(ids_of(batches).size(), 10U);
    EXPECT_EQ(feed->read(300ms), nullptr);
    for (const auto& batch : batches) feed->settle(batch, batch->events.size(), {});
    EXPECT_GE(ids_of(read(*feed, 10)).size(), 10U);
}

TEST_F(MqttSource, topics_that_cannot_be_are_refused_with_the_settings) {
    WayIn way(*fixture_, *cluster_);
    auto settings = way.settings().below("source");
    for (const char* wrong : {"", "a/b#", "#/a", "a+/b", "$share/group", "$share//a", "$share/g+/a"}) {
        settings.set("topics", std::vector<std::string>{wrong});
        EXPECT_THROW(brokers::make_source(settings, {"in", "one"}), relay::SettingsError) << wrong;
    }
    settings.set("topics", std::vector<std::string>{});
    EXPECT_THROW(brokers::make_source(settings, {"in", "one"}), relay::SettingsError);
    for (const char* right : {"#", "+", "a/+/b/#", "/", "$share/g/a/#"}) {
        settings.set("topics", std::vector<std::string>{right});
        EXPECT_NO_THROW(brokers::make_source(settings, {"in", "one"})) << right;
    }
}

TEST_F(MqttSource, cloudevents_by_other_publishers_are_known_by_their_attributes) {
    WayIn way(*fixture_, *cluster_);
    Message& message = way.add("mid", "k", R"({"a":1})");
    message.headers = {{"specversion", "1.0"}, {"id", "7"}, {"source", "/shop"}, {"type", "placed"}};
    way.publish();
    auto settings = way.settings().below("source");
    settings.set("id_header", "id");
    const auto source = brokers::make_source(settings, {"in", "one"});
    const auto feed = source->open();
    const auto batches = read(*feed, 1);
    EXPECT_EQ(batches[0]->events[0].event_type, "placed");
    EXPECT_EQ(batches[0]->events[0].event_id, "7");
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Mqtt, SourceConformance, MqttFixture);

}  // namespace baton::test
