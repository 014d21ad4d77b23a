#pragma once
// Extends a lease while a handler takes long. The keeper has its own connection and thread, which are made
// when they are first needed.

#include <condition_variable>
#include <mutex>
#include <thread>

#include "client/queue.hpp"

namespace baton::client {

class LeaseKeeper {
  public:
    using Trouble = std::function<void(const std::string&)>;

    // `every`: how often a lease is extended. `trouble` is called from the keeper's thread.
    LeaseKeeper(const Queue& queue, std::string conninfo, std::chrono::milliseconds every, Trouble trouble);
    ~LeaseKeeper();
    LeaseKeeper(const LeaseKeeper&) = delete;
    LeaseKeeper& operator=(const LeaseKeeper&) = delete;

    // Keep this lease until let_go(). When the lease is lost, the worker learns so when it settles.
    void hold(std::string token, std::span<const Delivery> deliveries);
    // Stop. Waits for an extension that is under way, so that the extension does not cross the settling.
    void let_go();

  private:
    void keep(const std::stop_token& stop);
    void extend(std::unique_lock<std::mutex>& lock);

    const Queue& queue_;
    std::string conninfo_;
    std::chrono::milliseconds every_;
    Trouble trouble_;

    std::mutex mutex_;
    std::condition_variable_any changed_;
    bool held_ = false;
    bool extending_ = false;
    std::uint64_t turn_ = 0;  // counts the leases
    std::string token_;
    std::vector<EventId> ids_;
    std::unique_ptr<postgres::Connection> db_;
    std::jthread thread_;
};

}  // namespace baton::client
