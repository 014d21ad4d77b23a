// The sqs source on ElasticMQ: a standard queue passes the whole suite, a FIFO queue what fits one. A FIFO
// queue gives out nothing more of a group while something of it is under way.

#include <nlohmann/json.hpp>

#include "brokers/registry.hpp"
#include "brokers/sqs/tests/server.hpp"
#include "conformance/source_conformance.hpp"
#include "conformance/way_in.hpp"

namespace baton::test {

namespace {

using namespace std::chrono_literals;
using nlohmann::json;

template <bool fifo>
class SqsSourceFixture final : public SourceFixture {
  public:
    SqsSourceFixture() {
        server_.start();
        proxy_.set_target(server_.port());
    }
    std::string make_place() override {
        const std::string name = "queue-" + std::to_string(++count_) + (fifo ? ".fifo" : "");
        json request{{"QueueName", name}};
        if (fifo) request["Attributes"] = {{"FifoQueue", "true"}};
        ask_sqs(server_.port(), "CreateQueue", request.dump());
        return name;
    }
    Table source(const std::string& place, const std::string&) override {
        return {{"type", "sqs"},          {"queue", server_.queue_url(place, proxy_.port())},
                {"region", "elasticmq"},  {"access_key", "key"},
                {"secret_key", "secret"}, {"wait", "1s"},
                {"visibility", "3s"},     {"connect_timeout", "2s"},
                {"timeout", "2s"},        {"ack_timeout", "5s"}};
    }
    Table sink() override {
        return {{"type", "sqs"},
                {"queue", server_.queue_url("{topic}")},
                {"region", "elasticmq"},
                {"access_key", "key"},
                {"secret_key", "secret"}};
    }
    std::string destination(const std::string& place) override { return server_.queue_url(place); }
    std::size_t held(const std::string& place) override {
        const auto answer = json::parse(
            ask_sqs(server_.port(), "GetQueueAttributes",
                    json{{"QueueUrl", server_.queue_url(place)}, {"AttributeNames", {"All"}}}.dump()));
        std::size_t all = 0;
        for (const auto* name : {"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"})
            all += std::stoul(answer.at("Attributes").at(name).template get<std::string>());
        return all;
    }
    // What a dead broker did not hear of is given again when its visibility ends, and deleted then.
    void wait_for_quiet(const std::string& place) override {
        wait_until("the queue is empty", [&] { return held(place) == 0; });
    }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy& proxy() override { return proxy_; }
    bool orders() const override { return fifo; }
    std::size_t readable(std::size_t sent) const override { return fifo ? 8 : sent; }
    std::size_t largest_body() const override { return 200 * 1024; }
    int port() const { return server_.port(); }

  private:
    ElasticServer server_;
    Proxy proxy_;
    int count_ = 0;
};

using StandardFixture = SqsSourceFixture<false>;
using FifoFixture = SqsSourceFixture<true>;

class FifoSource : public SourceConformance<FifoFixture> {};
class StandardSource : public SourceConformance<StandardFixture> {};

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Sqs, SourceConformance, StandardFixture);

#define BATON_FIFO(name)                         \
    TEST_F(FifoSource, name) {                   \
        conformance::name(*fixture_, *cluster_); \
    }

BATON_FIFO(every_message_arrives_once_with_its_id_headers_and_body)
BATON_FIFO(what_was_committed_and_not_acknowledged_comes_again_as_a_duplicate)
BATON_FIFO(nothing_is_acknowledged_before_the_inbox_has_committed)
BATON_FIFO(nothing_is_lost_and_order_holds_while_connections_are_cut)
BATON_FIFO(nothing_is_lost_when_the_database_is_killed_in_the_middle)
BATON_FIFO(nothing_is_lost_when_the_relay_is_killed_again_and_again)
BATON_FIFO(what_cannot_be_read_is_kept_with_its_bytes_and_the_others_go_on)
BATON_FIFO(readers_come_and_go_and_nothing_is_lost)

TEST_F(StandardSource, a_slow_message_stays_invisible_to_others) {
    WayIn way(*fixture_, *cluster_);
    way.add_keyed(25);
    way.publish();
    const auto source = brokers::make_source(way.settings().below("source"), {"in", "one"});
    const auto slow = source->open();
    std::vector<relay::BatchPtr> batches;
    std::size_t read = 0;
    wait_until("all is read", [&] {
        if (auto batch = slow->read(100ms)) {
            read += batch->events.size();
            batches.push_back(std::move(batch));
        }
        return read >= way.sent();
    });
    const auto other = source->open();
    const auto until = std::chrono::steady_clock::now() + 7s;
    wait_until("its visibility would have ended twice", [&] {
        slow->tend(20ms);
        EXPECT_FALSE(other->read(20ms)) << "it is visible";
        return std::chrono::steady_clock::now() > until;
    });
    for (const auto& batch : batches) slow->settle(batch, batch->events.size(), {});
    wait_until("all is deleted", [&] {
        slow->tend(20ms);
        return fixture_->held(way.place()) == 0;
    });
}

TEST_F(StandardSource, a_reader_that_leaves_gives_back_at_once) {
    WayIn way(*fixture_, *cluster_);
    way.add_keyed(30);
    way.publish();
    auto settings = way.settings();
    settings.set("source.visibility", "10h");
    const auto source = brokers::make_source(settings.below("source"), {"in", "one"});
    {
        const auto first = source->open();
        wait_until("something is read", [&] { return first->read(100ms) != nullptr; });
        first->close();
    }
    const auto pipeline = way.start();
    way.wait_for(way.sent());
    pipeline->request_stop();
    pipeline->join();
    way.expect_all();
}

TEST_F(StandardSource, attributes_of_other_senders_become_headers) {
    WayIn way(*fixture_, *cluster_);
    ask_sqs(fixture_->port(), "SendMessage",
            json{{"QueueUrl", fixture_->destination(way.place())},
                 {"MessageBody", "hello"},
                 {"MessageAttributes",
                  {{"colour", {{"DataType", "String"}, {"StringValue", "grün"}}},
                   {"size", {{"DataType", "Number"}, {"StringValue", "7"}}},
                   {"raw", {{"DataType", "Binary"}, {"BinaryValue", "aGVsbG8="}}},
                   {"headers", {{"DataType", "String"}, {"StringValue", "no object"}}}}}}
                .dump());
    const auto pipeline = way.start();
    way.wait_for(1);
    pipeline->request_stop();
    pipeline->join();
    const auto got = way.arrived().at(0);
    EXPECT_TRUE(got.id.starts_with("sqs:")) << got.id << " is not made of its place";
    const auto headers = json::parse(got.headers);
    EXPECT_EQ(headers.at("colour"), "grün");
    EXPECT_EQ(headers.at("size"), "7");
    EXPECT_EQ(headers.at("raw"), "hello");
    EXPECT_EQ(headers.at("headers"), "no object");
}

TEST_F(StandardSource, settings_that_cannot_work_are_refused) {
    const auto refused = [&](const std::string& key, const relay::Settings::Value& value) {
        relay::Settings settings("source");
        for (const auto& [name, given] : fixture_->source("q", "one")) settings.set(name, given);
        settings.set(key, value);
        EXPECT_THROW(brokers::make_source(settings, {"in", "one"}), relay::SettingsError) << key;
    };
    refused("queue", "name-without-account");
    refused("queue", "http://127.0.0.1/1/{topic}");
    refused("wait", "21s");
    refused("wait", "1500ms");
    refused("visibility", "0s");
    refused("receivers", std::int64_t{0});
    refused("secret_key", "");
    refused("sekret_key", "typo");
}

}  // namespace baton::test
