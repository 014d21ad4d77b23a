// The kafka source on a real broker.

#include <librdkafka/rdkafka.h>

#include "audit/kafka_client.hpp"
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
        audit::create_topic({{"bootstrap.servers", direct()}}, topic, 3);
        return topic;
    }
    Table source(const std::string& place, const std::string&) override {
        return {{"type", "kafka"},
                {"brokers", "127.0.0.1:" + std::to_string(proxy_.port())},
                {"topic", place},
                {"connect_timeout", "3s"},
                {"properties.session.timeout.ms", std::int64_t{4000}},
                {"properties.heartbeat.interval.ms", std::int64_t{500}},
                {"properties.socket.timeout.ms", std::int64_t{2000}}};
    }
    Table sink() override {
        return {{"type", "kafka"},
                {"brokers", direct()},
                {"properties.message.max.bytes", std::int64_t{2'500'000}}};
    }
    std::size_t held(const std::string& place) override { return audit::kafka_lag({{"bootstrap.servers", direct()}}, place, "in"); }
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

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Kafka, SourceConformance, KafkaFixture);

}  // namespace baton::test
