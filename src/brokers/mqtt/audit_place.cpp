#include "brokers/mqtt/audit_place.hpp"

#include <optional>

#include "brokers/mqtt/audit_client.hpp"

namespace baton::brokers {

namespace {

using std::chrono::milliseconds;

class MqttPlace final : public AuditPlace {
  public:
    explicit MqttPlace(const PlaceRequest& request)
        : name_(request.name), server_(read_mqtt_server(request.reader)) {}
    void create() override {
        MqttClient(server_, auditor()).subscribe(name_ + "/out");
        MqttClient(server_, source()).subscribe(publish_to());
    }
    Values sink_values() override { return {{"topic", name_ + "/out"}}; }
    Values source_values() const override { return {{"topic", publish_to()}, {"client_id", source()}}; }
    std::string publish_to() const override { return name_ + "/in"; }
    std::vector<Received> follow(milliseconds patience) override {
        if (!client_) client_.emplace(server_, auditor());
        const auto before = static_cast<std::ptrdiff_t>(all_.size());
        client_->read(all_, patience);
        return {all_.begin() + before, all_.end()};
    }
    void forget() override { client_.reset(); }
    // A session gives a message once: what was followed is kept here.
    std::vector<Received> read_all() override {
        client_.reset();
        client_.emplace(server_, auditor());
        client_->read_all(all_);
        return all_;
    }
    void remove() override {
        client_.reset();
        MqttClient::forget(server_, auditor());
        MqttClient::forget(server_, source());
    }

  private:
    std::string auditor() const { return name_ + "-audit"; }
    std::string source() const { return name_ + "-in"; }

    std::string name_;
    MqttServer server_;
    std::optional<MqttClient> client_;
    std::vector<Received> all_;
};

}  // namespace

std::unique_ptr<AuditPlace> make_mqtt_place(const PlaceRequest& request) {
    return std::make_unique<MqttPlace>(request);
}

}  // namespace baton::brokers
