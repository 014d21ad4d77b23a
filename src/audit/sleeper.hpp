#pragma once
// A second group of the audited outbox. It stands still most of the time, while maintenance retires
// partitions all the time: no partition may go that the group has not read.

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "audit/events.hpp"
#include "postgres/connection.hpp"

namespace baton::audit {

class Sleeper {
  public:
    Sleeper(std::string db, std::string outbox, std::string group, Names names)
        : db_(std::move(db)),
          outbox_(std::move(outbox)),
          group_(std::move(group)),
          names_(std::move(names)) {}
    ~Sleeper() { stop(); }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

    // Make the group. Begin to sleep, and to retire partitions.
    void start();
    // End both, then read what is left. Gives up when nothing has come for `limit`.
    void finish(std::chrono::milliseconds limit);
    void stop();

    // What went wrong although no fault explains it; empty when nothing did.
    std::string failure() const;
    // Take what the group got, in its order.
    Arrivals take();
    // How many partitions are gone.
    long retired() const { return retired_; }

  private:
    void read_on(postgres::Connection& db);
    void maintain(postgres::Connection& db);
    void keep_going(std::chrono::milliseconds pause, const std::function<void(postgres::Connection&)>& work);
    bool nap(std::chrono::milliseconds time) const;

    std::string db_;
    std::string outbox_;
    std::string group_;
    Names names_;
    std::vector<std::thread> threads_;
    std::atomic<bool> stopping_{false};
    std::atomic<long> retired_{0};
    mutable std::mutex mutex_;
    Arrivals arrived_;
    std::string failure_;
};

// How many events a group has not settled, without dead letters; -1 while the server is away.
long count_unsettled(const std::string& db, const std::string& group);

}  // namespace baton::audit
