#pragma once
// Follows a destination in a thread of its own, and notes when each message arrived first.

#include <atomic>
#include <mutex>
#include <thread>

#include "audit/judge.hpp"
#include "brokers/audit_place.hpp"

namespace baton::audit {

class Watcher {
  public:
    Watcher(brokers::AuditPlace& destination, Names names)
        : names_(std::move(names)), thread_([this, &destination] { run(destination); }) {}
    ~Watcher() { stop(); }
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    void stop();
    std::size_t count() const;
    // By event.
    std::deque<Clock::time_point> take_seen();

  private:
    void run(brokers::AuditPlace& destination);
    void note(std::string_view id, Clock::time_point now);

    mutable std::mutex mutex_;
    Names names_;
    std::deque<Clock::time_point> seen_;
    std::size_t count_ = 0;
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

}  // namespace baton::audit
