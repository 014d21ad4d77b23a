#pragma once
// The demo's relays: the two ways on which the shop's events leave the outbox, the one of the deltas, and
// later the one of the parcels.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "assembly/pipeline_parts.hpp"
#include "base/life_sign.hpp"
#include "cli/demo_audit.hpp"
#include "relay/pipeline.hpp"

namespace baton::cli {

class DemoRelays {
  public:
    DemoRelays(const std::string& db, const DemoFiles& files) : identity_{db, show_life()}, files_(files) {}

    void start();
    // Carry parcels to a webhook, too.
    void start_parcels(const std::string& url);
    void stop();
    // What keeps one of them from working; empty when all is well.
    std::string trouble() const;
    std::vector<relay::PipelineStatus> statuses() const;
    const std::string& name() const { return identity_.owner; }

    Moments filed;
    Moments received;
    std::atomic<long> filed_count{0};
    std::atomic<long> received_count{0};
    std::atomic<long> delta_count{0};

  private:
    using Words = std::vector<std::pair<std::string, relay::Settings::Value>>;
    void begin(const std::string& name, const std::string& outbox, const Words& more,
               relay::Dispatcher::OnDelivered on_delivered);

    assembly::RelayIdentity identity_;
    DemoFiles files_;
    mutable std::mutex mutex_;  // the page asks from its own thread
    std::vector<std::unique_ptr<relay::Pipeline>> pipelines_;
};

}  // namespace baton::cli
