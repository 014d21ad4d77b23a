#include "brokers/amqp1/audit_place.hpp"

#include <optional>

#include "brokers/amqp1/audit_client.hpp"

namespace baton::brokers {

namespace {

using std::chrono::milliseconds;

class Amqp1Place final : public AuditPlace {
  public:
    explicit Amqp1Place(const PlaceRequest& request)
        : name_(request.name), server_(read_amqp1_server(request.reader)) {}
    void create() override {
        Amqp1Client::make(server_, out());
        Amqp1Client::make(server_, publish_to());
    }
    Values sink_values() override { return {{"address", out()}}; }
    Values source_values() const override { return {{"address", publish_to()}}; }
    std::string publish_to() const override { return name_ + ".in"; }
    std::vector<Received> follow(milliseconds patience) override {
        if (!client_) client_.emplace(server_, out());
        const auto before = static_cast<std::ptrdiff_t>(all_.size());
        client_->read(all_, patience);
        return {all_.begin() + before, all_.end()};
    }
    void forget() override { client_.reset(); }
    // A queue gives a message once: what was followed is kept here.
    std::vector<Received> read_all() override {
        if (!client_) client_.emplace(server_, out());
        client_->read_rest(all_);
        client_.reset();
        return all_;
    }
    // AMQP has no word for removing a queue; those that the broker made by itself it removes by itself.
    void remove() override { client_.reset(); }

  private:
    std::string out() const { return name_ + ".out"; }

    std::string name_;
    Amqp1Server server_;
    std::optional<Amqp1Client> client_;
    std::vector<Received> all_;
};

}  // namespace

std::unique_ptr<AuditPlace> make_amqp1_place(const PlaceRequest& request) {
    return std::make_unique<Amqp1Place>(request);
}

}  // namespace baton::brokers
