#pragma once
// What the page is looked at with: a database with a bit of everything, a broker and a webhook, a relay that
// carries events to both and serves the page, and a browser that plays a scenario.

#include <httplib.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/process.hpp"
#include "brokers/redis/tests/server.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace baton::test {

// Takes every event but those whose total is null.
class Webhook {
  public:
    Webhook();
    ~Webhook();
    int port() const { return port_; }
    bool has(const std::string& text) const;

  private:
    httplib::Server server_;
    int port_;
    mutable std::mutex mutex_;
    std::vector<std::string> bodies_;
    std::thread thread_;
};

class Stage {
  public:
    Stage();
    ~Stage();

    // Let the browser play scenarios/NAME.mjs. Returns what it said; empty when all went well.
    std::string play(const std::string& scenario);

  private:
    void furnish();
    void start_relay();
    std::string start_dashboard();
    void hold(const std::string& statements);
    void publish_all_the_time();
    // What a scenario may ask for while it plays.
    std::string answer(const std::string& what, const std::string& words);
    std::string stream_has(const std::string& stream, const std::string& text) const;

    std::string url_;
    TemporaryFolder folder_;
    RedisServer redis_;
    Webhook webhook_;
    int port_;
    std::unique_ptr<Process> relay_, dashboard_;
    std::unique_ptr<Connection> held_;  // a transaction that stays open
    std::atomic<bool> ends_{false};
    std::thread publisher_;
};

}  // namespace baton::test
