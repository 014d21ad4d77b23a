#include "brokers/sqs/tests/server.hpp"
#include "chaos/stand_parts.hpp"

namespace baton::test {

namespace {

template <bool fifo>
class SqsStand final : public BrokerStand<ElasticServer> {
  public:
    SqsStand() { begin(); }
    Values sink() override {
        return {{"type", "sqs"},
                {"queue", fifo ? "any.fifo" : "any"},
                {"endpoint", "http://" + at(proxy_.port())},
                {"region", "elasticmq"},
                {"access_key", "key"},
                {"secret_key", "secret"},
                {"connect_timeout", "1s"},
                {"timeout", "3s"}};
    }
    Values reader() override { return {{"endpoint", "http://" + at(server_.port())}}; }
    double rate() const override { return 100; }
    // ElasticMQ 1.6 that starts again takes the messages of a FIFO queue for those of any queue: their order
    // is gone. Where order is judged, ElasticMQ is left alive.
    bool has_server() const override { return !fifo; }
    Values source() override {
        Values values = sink();
        values["visibility"] = "5s";
        return values;
    }
};

}  // namespace

void add_sqs_stands(StandMakers& makers) {
    makers["sqs"] = make<SqsStand<false>>;
    makers["sqs-fifo"] = make<SqsStand<true>>;
}

}  // namespace baton::test
