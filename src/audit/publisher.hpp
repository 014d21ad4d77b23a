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
    void testify(Facts& facts) const;

  private:
    struct Letter {
        std::string id, key, body;
        long number = 0;
    };
    void run();
    void publish(relay::Sink& sink, const std::vector<Letter>& letters);

    relay::Settings sink_;
    std::string destination_;
    PublisherPlan plan_;
    std::thread thread_;
    std::atomic<bool> stopping_{false};
    std::atomic<long> repeated_{0};
    mutable std::mutex mutex_;
    std::unordered_map<std::string, Written> published_;
    std::string failure_;
};

}  // namespace baton::audit
