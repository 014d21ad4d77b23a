// The amqp1 source on a real ActiveMQ Artemis.

#include "brokers/amqp1/audit_client.hpp"
#include "brokers/amqp1/tests/server.hpp"
#include "brokers/registry.hpp"
#include "conformance/source_conformance.hpp"
#include "conformance/way_in.hpp"

namespace baton::test {

namespace {

using namespace std::chrono_literals;

class Amqp1Fixture final : public SourceFixture {
  public:
    Amqp1Fixture() {
        server_.users = {{"relay", "secret"}};
        server_.start();
        proxy_.set_target(server_.port());
    }
    std::string make_place() override {
        const std::string place = "place." + std::to_string(++count_);
        brokers::Amqp1Client::make(server_.straight(), place);
        return place;
    }
    Table source(const std::string& place, const std::string&) override {
        return {{"type", "amqp1"},     {"url", "amqp://127.0.0.1:" + std::to_string(proxy_.port())},
                {"username", "relay"}, {"password", "secret"},
                {"address", place},    {"keep_alive", "3s"},
                {"ack_timeout", "2s"}, {"connect_timeout", "2s"}};
    }
    Table sink() override {
        return {{"type", "amqp1"}, {"url", server_.url()}, {"username", "relay"}, {"password", "secret"}};
    }
    std::size_t held(const std::string& place) override { return server_.held(place); }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy& proxy() override { return proxy_; }

    ArtemisServer& server() { return server_; }

  private:
    ArtemisServer server_;
    Proxy proxy_;
    int count_ = 0;
};

class Amqp1Source : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        try {
            fixture_ = std::make_unique<Amqp1Fixture>();
            cluster_ = std::make_unique<Cluster>(Form::extension);
        } catch (const Unavailable& unavailable) {
            reason_ = unavailable.what();
        }
    }
    static void TearDownTestSuite() {
        fixture_.reset();
        cluster_.reset();
    }
    void SetUp() override {
        if (!fixture_) GTEST_SKIP() << reason_;
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
    static inline std::unique_ptr<Amqp1Fixture> fixture_;
    static inline std::unique_ptr<Cluster> cluster_;
    static inline std::string reason_;
};

std::vector<std::string> ids_of(const std::vector<relay::BatchPtr>& batches) {
    std::vector<std::string> ids;
    for (const auto& batch : batches)
        for (const auto& event : batch->events) ids.emplace_back(event.event_id);
    return ids;
}

TEST_F(Amqp1Source, no_more_messages_come_without_acknowledgement_than_the_credit) {
    WayIn way(*fixture_, *cluster_);
    way.add_keyed(50);
    way.publish();
    auto settings = way.settings().below("source");
    settings.set("credit", std::int64_t{10});
    const auto source = brokers::make_source(settings, {"in", "one"});
    const auto feed = source->open();
    const auto batches = read(*feed, 10);
    EXPECT_EQ(ids_of(batches).size(), 10U);
    EXPECT_EQ(feed->read(300ms), nullptr);
    for (const auto& batch : batches) feed->settle(batch, batch->events.size(), {});
    EXPECT_GE(ids_of(read(*feed, 10)).size(), 10U);
}

TEST_F(Amqp1Source, a_reader_that_leaves_gives_back_in_order_what_was_not_settled) {
    WayIn way(*fixture_, *cluster_);
    way.add_keyed(40);
    way.publish();
    const auto source = brokers::make_source(way.settings().below("source"), {"in", "one"});
    const auto first = source->open();
    const auto batches = read(*first, 40);
    first->settle(batches[0], 1, {});
    first->close();
    EXPECT_EQ(fixture_->held(way.place()), 39U);
    auto ids = ids_of(batches);
    ids.erase(ids.begin());
    EXPECT_EQ(ids_of(read(*source->open(), 39)), ids);
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Amqp1, SourceConformance, Amqp1Fixture);

}  // namespace baton::test
