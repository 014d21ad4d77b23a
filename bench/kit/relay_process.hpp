#pragma once
// A relay in a process of its own, a log for it to carry, and what carrying the log costs.

#include <filesystem>
#include <optional>
#include <string>

#include "base/process.hpp"
#include "postgres/connection.hpp"

namespace baton::bench {

// The relay's file with one pipeline. `sink` are the lines of [pipeline.sink].
std::string config_of(const std::string& group, const std::string& outbox, const std::string& sink,
                      const std::string& start = "earliest");

// Name a group that no other measurement of this run uses.
std::string new_group();

class RelayProcess {
  public:
    RelayProcess(const std::string& url, const std::filesystem::path& folder, const std::string& config);
    // The most memory that the relay had so far, in megabytes.
    double peak_memory() const;
    // Seconds of processor time that the relay used, user and system.
    double processor_time() const;
    void stop() { process_->stop(); }

  private:
    std::filesystem::path file_;
    std::optional<Process> process_;
};

struct Drain {
    double seconds = 0;
    double processor = 0;  // seconds
    double memory = 0;     // megabytes
};

// Carry the whole outbox through a new group. The clock starts when the relay has the group.
Drain drain(const std::string& url, const std::filesystem::path& folder, const std::string& outbox,
            const std::string& sink);

// Make an outbox and publish events of 300 bytes to it.
void fill(postgres::Connection& db, const std::string& outbox, const std::string& type, long events);

}  // namespace baton::bench
