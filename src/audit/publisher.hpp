#pragma once
// Publishes messages to a broker, as a program of somebody else would, and keeps books about them. Some
// messages are published twice, as brokers and their clients do.

#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "audit/judge.hpp"
#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::audit {

struct PublisherPlan {
    int keys = 20;
    double rate = 500;  // messages per second
    int payload_bytes = 200;
    unsigned seed = std::random_device{}();
};

class Publisher {
  public:
    // `sink` holds the settings that a pipeline's sink would have.
    Publisher(relay::Settings sink, std::string destination, PublisherPlan plan);
    ~Publisher() { stop(); }

    void start();
    // Returns when the broker has every message that was begun.
    void stop();

    std::string failure() const;
    long repeated() const { return repeated_; }
    const Names& names() const { return names_; }
    void testify(Facts& facts);

  private:
    struct Letter {
        Index event = 0;
        std::string id, key, body;
    };
    void run();
    Index begin_event(std::size_t key, long number);
    void publish(relay::Sink& sink, const std::vector<Letter>& letters);

    relay::Settings sink_;
    std::string destination_;
    PublisherPlan plan_;
    std::thread thread_;
    std::atomic<bool> stopping_{false};
    std::atomic<long> repeated_{0};
    mutable std::mutex mutex_;
    Names names_{"m-"};
    Events events_;
    std::string failure_;
};

}  // namespace baton::audit
