#include "brokers/nats/audit_place.hpp"

#include <optional>

#include "brokers/nats/audit_client.hpp"

namespace baton::brokers {

namespace {

using std::chrono::milliseconds;

class NatsPlace final : public AuditPlace {
  public:
    explicit NatsPlace(const PlaceRequest& request) : name_(request.name), reader_(request.reader) {}
    void create() override { NatsClient(reader_).add_stream(name_, name_ + ".events"); }
    Values sink_values() override { return {{"subject", name_ + ".events"}}; }
    Values source_values() const override { return {{"stream", name_}}; }
    std::string publish_to() const override { return name_ + ".events"; }
    std::vector<Received> follow(milliseconds patience) override {
        if (!client_) {
            client_.emplace(reader_);
            client_->follow(name_, next_);
        }
        std::vector<Received> news;
        for (auto& id : client_->read_on(next_, patience)) news.push_back({std::move(id), {}, {}, {}});
        return news;
    }
    void forget() override { client_.reset(); }
    std::vector<Received> read_all() override { return NatsClient(reader_).read(name_); }
    void remove() override { NatsClient(reader_).delete_stream(name_); }
    bool deduplicates() const override { return true; }

  private:
    std::string name_;
    relay::Settings reader_;
    std::optional<NatsClient> client_;
    std::uint64_t next_ = 1;
};

}  // namespace

std::unique_ptr<AuditPlace> make_nats_place(const PlaceRequest& request) {
    return std::make_unique<NatsPlace>(request);
}

}  // namespace baton::brokers
