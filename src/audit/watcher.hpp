#pragma once
// Follows a destination in a thread of its own, and notes when each message arrived first.

#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "audit/judge.hpp"
#include "brokers/audit_place.hpp"

namespace baton::audit {

class Watcher {
  public:
    explicit Watcher(brokers::AuditPlace& destination)
        : thread_([this, &destination] { run(destination); }) {}
    ~Watcher() { stop(); }
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    void stop();
    std::size_t count() const;
    std::unordered_map<std::string, Clock::time_point> seen() const;

  private:
    void run(brokers::AuditPlace& destination);

    mutable std::mutex mutex_;
    std::unordered_map<std::string, Clock::time_point> seen_;
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

}  // namespace baton::audit
