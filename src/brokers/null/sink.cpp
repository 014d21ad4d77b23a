#include "brokers/null/sink.hpp"

namespace baton::brokers {

namespace {

class NullSink final : public relay::Sink {
  public:
    relay::SinkTraits traits() const override { return {.keeps_order_after_failure = true}; }
    void check() override {}
    void send(std::span<const Message> messages) override {
        for (const auto& message : messages)
            done_.push_back({message.ticket, relay::Verdict::delivered, {}, {}});
    }
    void collect(std::vector<relay::Delivery>& deliveries, relay::milliseconds) override {
        std::move(done_.begin(), done_.end(), std::back_inserter(deliveries));
        done_.clear();
    }

  private:
    std::vector<relay::Delivery> done_;
};

}  // namespace

std::unique_ptr<relay::Sink> make_null_sink(const relay::Settings&) {
    return std::make_unique<NullSink>();
}

}  // namespace baton::brokers
