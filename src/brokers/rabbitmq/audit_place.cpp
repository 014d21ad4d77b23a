#include "brokers/rabbitmq/audit_place.hpp"

#include <optional>

#include "brokers/rabbitmq/audit_client.hpp"

namespace baton::brokers {

namespace {

using std::chrono::milliseconds;

class RabbitPlace final : public AuditPlace {
  public:
    explicit RabbitPlace(const PlaceRequest& request)
        : name_(request.name), url_(request.reader.text("url")) {}
    void create() override {
        RabbitClient client(url_);
        client.declare_queue(name_);
        client.declare_exchange(name_, "fanout");
        client.bind(name_, name_, name_);
    }
    Values sink_values() override { return {{"exchange", name_}, {"routing_key", name_}}; }
    Values source_values() const override { return {{"queue", name_}}; }
    std::string publish_to() const override { return name_; }
    std::vector<Received> follow(milliseconds patience) override {
        if (!client_) {
            client_.emplace(url_);
            client_->follow(name_, name_);
        }
        return client_->read(patience);
    }
    void forget() override { client_.reset(); }
    std::vector<Received> read_all() override { return RabbitClient(url_).read_all(name_); }
    void remove() override {
        RabbitClient client(url_);
        client.delete_exchange(name_);
        client.delete_queue(name_);
    }

  private:
    std::string name_;
    std::string url_;
    std::optional<RabbitClient> client_;
};

}  // namespace

std::unique_ptr<AuditPlace> make_rabbitmq_place(const PlaceRequest& request) {
    return std::make_unique<RabbitPlace>(request);
}

}  // namespace baton::brokers
