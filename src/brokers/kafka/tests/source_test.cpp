// The kafka source on a real broker.

#include <librdkafka/rdkafka.h>

#include "brokers/kafka/audit_client.hpp"
#include "brokers/kafka/tests/server.hpp"
#include "conformance/source_conformance.hpp"
#include "conformance/way_in.hpp"

namespace baton::test {

namespace {

class KafkaFixture : public SourceFixture {
  public:
    KafkaFixture() {
        server_.advertised_proxy_port = proxy_.port();
        server_.settings = {"message.max.bytes=3000000", "group.initial.rebalance.delay.ms=0",
                            "group.min.session.timeout.ms=1000"};
        server_.start();
        proxy_.set_target(server_.proxied_port());
    }
    std::string make_place() override {
        const std::string topic = "topic-" + std::to_string(++count_);
        brokers::create_topic({{"bootstrap.servers", direct()}}, topic, 3);
        return topic;
    }
    Table source(const std::string& place, const std::string&) override {
        return {{"type", "kafka"},
                {"brokers", "127.0.0.1:" + std::to_string(proxy_.port())},
                {"topic", place},
                {"connect_timeout", "3s"},
                {"properties.session.timeout.ms", std::int64_t{6000}},
                {"properties.heartbeat.interval.ms", std::int64_t{500}},
                {"properties.socket.timeout.ms", std::int64_t{2000}}};
    }
    Table sink() override {
        return {{"type", "kafka"},
                {"brokers", direct()},
                {"properties.message.max.bytes", std::int64_t{2'500'000}}};
    }
    std::size_t held(const std::string& place) override {
        return brokers::kafka_lag({{"bootstrap.servers", direct()}}, place, "in");
    }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy& proxy() override { return proxy_; }
    std::string direct() const { return "127.0.0.1:" + std::to_string(server_.port()); }

  private:
    Proxy proxy_;
    KafkaServer server_;
    int count_ = 0;
};

// The same with partitions that move one by one.
class CooperativeKafkaFixture final : public KafkaFixture {
  public:
    Table source(const std::string& place, const std::string& reader) override {
        Table made = KafkaFixture::source(place, reader);
        made["properties.partition.assignment.strategy"] = "cooperative-sticky";
        return made;
    }
};

class KafkaSource : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        try {
            fixture_ = std::make_unique<CooperativeKafkaFixture>();
            cluster_ = std::make_unique<Cluster>(Form::extension);
        } catch (const Unavailable& unavailable) {
            reason_ = unavailable.what();
            announce_skip(reason_);
        }
    }
    static void TearDownTestSuite() {
        fixture_.reset();
        cluster_.reset();
    }
    void SetUp() override {
        if (!fixture_) GTEST_SKIP() << reason_;
    }
    static inline std::unique_ptr<CooperativeKafkaFixture> fixture_;
    static inline std::unique_ptr<Cluster> cluster_;
    static inline std::string reason_;
};

TEST_F(KafkaSource, partitions_that_move_one_by_one_lose_nothing) {
    conformance::readers_come_and_go_and_nothing_is_lost(*fixture_, *cluster_);
}

TEST_F(KafkaSource, a_message_without_an_id_is_known_by_its_place_and_a_tombstone_has_no_payload) {
    WayIn way(*fixture_, *cluster_);
    brokers::produce_bare({{"bootstrap.servers", fixture_->direct()}}, way.place(), 1, "k", "plain");
    brokers::produce_bare({{"bootstrap.servers", fixture_->direct()}}, way.place(), 1, "k", nullptr);
    const auto pipeline = way.start();
    way.wait_for(2);
    pipeline->request_stop();
    pipeline->join();
    const auto all = way.arrived();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].id.find("kafka:" + way.place() + "/1/0@"), 0U) << all[0].id;
    EXPECT_EQ(all[1].id.find("kafka:" + way.place() + "/1/1@"), 0U) << all[1].id;
    EXPECT_EQ(all[0].bytes, "plain");
    EXPECT_FALSE(all[1].has_payload || all[1].has_bytes);
    EXPECT_EQ(all[1].key, "k");
}

TEST_F(KafkaSource, a_new_group_may_begin_at_the_end_and_goes_on_from_its_offset) {
    WayIn way(*fixture_, *cluster_);
    for (int i = 0; i < 3; ++i)
        brokers::produce_bare({{"bootstrap.servers", fixture_->direct()}}, way.place(), i, "old", "old");
    {
        const auto pipeline = way.start("one", {{"source.start", "latest"}});
        // It begins where the end is once it has its partitions; new messages show when that is.
        wait_until("new messages come", [&] {
            for (int i = 0; i < 3; ++i)
                brokers::produce_bare({{"bootstrap.servers", fixture_->direct()}}, way.place(), i, "new",
                                      "new");
            std::set<std::string> places;
            for (const auto& message : way.arrived())
                places.insert(message.id.substr(0, message.id.rfind('/')));
            return places.size() == 3;
        });
        pipeline->request_stop();
        pipeline->join();
    }
    brokers::produce_bare({{"bootstrap.servers", fixture_->direct()}}, way.place(), 0, "next", "next");
    const auto pipeline = way.start("one", {{"source.start", "latest"}});
    wait_until("what came meanwhile is there", [&] {
        const auto all = way.arrived();
        return std::any_of(all.begin(), all.end(),
                           [](const auto& message) { return message.bytes == "next"; });
    });
    for (const auto& message : way.arrived()) EXPECT_NE(message.bytes, "old");
}

// The broker fences the older of two members with one name, and its library gives up for good.
TEST_F(KafkaSource, a_reader_that_is_fenced_begins_anew_and_nothing_is_lost) {
    WayIn way(*fixture_, *cluster_);
    const Table named{{"source.properties.group.instance.id", "the-same"}};
    way.add_keyed(200);
    way.publish();
    const auto first = way.start("one", named);
    way.wait_for(200);
    {
        const auto second = way.start("two", named);
        wait_until("the first is fenced",
                   [&] { return first->status().detail.find("fenced") != std::string::npos; });
        second->request_stop();
        second->join();
    }
    way.add_keyed(200);
    way.publish();
    way.wait_for(400);
    first->request_stop();
    first->join();
    way.expect_all();
}

TEST_F(KafkaSource, properties_on_which_delivery_rests_cannot_be_set) {
    WayIn way(*fixture_, *cluster_);
    for (const auto& [name, value] : std::map<std::string, std::string>{{"enable.auto.commit", "true"},
                                                                        {"auto.offset.reset", "latest"},
                                                                        {"group.id", "x"},
                                                                        {"no.such.thing", "1"}})
        EXPECT_THROW(way.start("one", {{"source.properties." + name, value}}), relay::SettingsError) << name;
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Kafka, SourceConformance, KafkaFixture);

}  // namespace baton::test
