#include "brokers/amqp1/source.hpp"

#include <poll.h>

#include <algorithm>

#include "brokers/amqp1/connection.hpp"
#include "brokers/amqp1/form.hpp"
#include "brokers/amqp1/message.hpp"
#include "brokers/amqp1/receiver.hpp"
#include "intake/broker_feed.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;

struct Options {
    Amqp1Server server;
    std::string container;
    std::string address;
    int credit = 0;
    intake::BrokerFeed::Pace pace;
};

struct Amqp1Batch final : intake::BrokerBatch {
    std::vector<pn_delivery_t*> deliveries;
};

class Amqp1Feed final : public intake::BrokerFeed {
  public:
    Amqp1Feed(const Options& options, const intake::Decoder& decoder)
        : intake::BrokerFeed(options.pace),
          options_(options),
          decoder_(decoder),
          receiver_(options.server, options.container, options.address, options.credit) {}

  protected:
    std::shared_ptr<intake::BrokerBatch> receive(Clock::time_point until) override;
    void acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) override;
    bool send_acknowledgements() override;
    void idle(Clock::time_point until) override;
    void leave() override { receiver_.leave(pace().ack_timeout); }

  private:
    void read_into(Amqp1Batch& batch);
    void sleep(Clock::time_point until);

    const Options& options_;
    const intake::Decoder& decoder_;
    Amqp1Codec codec_;
    Amqp1Receiver receiver_;
};

std::shared_ptr<intake::BrokerBatch> Amqp1Feed::receive(Clock::time_point until) {
    auto batch = std::make_shared<Amqp1Batch>();
    read_into(*batch);
    if (batch->events.empty()) {
        sleep(until);
        read_into(*batch);
    }
    return batch->events.empty() ? nullptr : batch;
}

void Amqp1Feed::sleep(Clock::time_point until) {
    wait(receiver_.connection().descriptor(),
         static_cast<short>(receiver_.connection().has_to_write() ? POLLIN | POLLOUT : POLLIN),
         std::min(until, receiver_.connection().next_tick()));
}

void Amqp1Feed::read_into(Amqp1Batch& batch) {
    receiver_.move();
    while (!is_full(batch)) {
        auto taken = receiver_.take();
        if (!taken) return;
        auto incoming = codec_.decode(std::move(taken->bytes), batch);
        incoming.topic = options_.address;
        if (!incoming.position.empty()) incoming.position = options_.address + "/" + incoming.position;
        decoder_.decode(incoming, batch);
        batch.deliveries.push_back(taken->delivery);
    }
}

void Amqp1Feed::acknowledge(const intake::BrokerBatch& batch, std::size_t from, std::size_t to) {
    const auto& deliveries = static_cast<const Amqp1Batch&>(batch).deliveries;
    for (std::size_t i = from; i < to; ++i) receiver_.accept(deliveries[i]);
}

bool Amqp1Feed::send_acknowledgements() {
    receiver_.move();
    return !receiver_.connection().has_to_write();
}

// Tell the broker that we are there. What comes meanwhile stays with the engine, which takes no more than a
// session may hold.
void Amqp1Feed::idle(Clock::time_point until) {
    receiver_.move();
    sleep(until);
}

class Amqp1Source final : public BrokerSource {
  public:
    Amqp1Source(Options options, intake::Decoder decoder)
        : options_(std::move(options)), decoder_(std::move(decoder)) {}

    std::unique_ptr<relay::Feed> open() const override {
        return std::make_unique<Amqp1Feed>(options_, decoder_);
    }

    // Without credit, so that nothing comes.
    void check() const override {
        Amqp1Receiver trial(options_.server, options_.container + "-check", options_.address, 0);
        trial.leave(options_.server.connect_timeout);
    }

  private:
    Options options_;
    intake::Decoder decoder_;
};

}  // namespace

std::unique_ptr<BrokerSource> make_amqp1_source(const relay::Settings& settings, const Reader& reader) {
    Options options;
    options.server = read_amqp1_server(settings);
    options.address = settings.text("address");
    if (const char* flaw = flaw_of_amqp1_address(options.address)) settings.refuse("address", flaw);
    options.container = settings.text("container_id", "baton-" + reader.pipeline + "-" + reader.owner);
    options.credit = static_cast<int>(settings.count("credit", 1000, 100'000));
    options.pace = intake::BrokerFeed::Pace::read(settings);
    return std::make_unique<Amqp1Source>(std::move(options),
                                         intake::Decoder(settings, "amqp1", amqp1_form.headers));
}

}  // namespace baton::brokers
