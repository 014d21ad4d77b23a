#include "brokers/kafka/audit_place.hpp"

#include <optional>

#include "brokers/kafka/audit_client.hpp"

namespace baton::brokers {

namespace {

using std::chrono::milliseconds;

class KafkaPlace final : public AuditPlace {
  public:
    explicit KafkaPlace(const PlaceRequest& request)
        : topic_(request.name), properties_(request.reader.table("properties")) {
        properties_["bootstrap.servers"] = request.reader.text("brokers");
    }
    void create() override { create_topic(properties_, topic_, 3); }
    Values sink_values() override { return {{"topic", topic_}}; }
    Values source_values() const override { return {{"topic", topic_}}; }
    std::string publish_to() const override { return topic_; }
    bool source_keeps_order() const override { return true; }
    std::vector<Received> follow(milliseconds patience) override {
        if (!tail_) tail_.emplace(properties_, topic_);
        return tail_->read(patience);
    }
    void forget() override { tail_.reset(); }
    std::vector<Received> read_all() override { return read_topic(properties_, topic_); }
    void remove() override { delete_topic(properties_, topic_); }

  private:
    std::string topic_;
    KafkaProperties properties_;
    std::optional<KafkaTail> tail_;
};

}  // namespace

std::unique_ptr<AuditPlace> make_kafka_place(const PlaceRequest& request) {
    return std::make_unique<KafkaPlace>(request);
}

}  // namespace baton::brokers
