#pragma once
// Real relays as child processes, all with the same pipelines, and faults of these processes.

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/process.hpp"

namespace baton::audit {

struct RelaysPlan {
    std::filesystem::path program;  // baton
    std::string db;                 // how the relays reach the database
    std::string admin_db;           // how the auditor reaches it
    std::filesystem::path config;
    std::filesystem::path folder;  // for their logs
    std::string group;             // the group whose owner counts
    int count = 1;
    std::vector<std::pair<std::string, std::string>> environment;
};

class Relays {
  public:
    explicit Relays(RelaysPlan plan) : plan_(std::move(plan)) {}

    void start();
    // Send SIGTERM to the relays, so that they drain.
    void stop();
    // Wait until a relay owns the group. Throws Error with the end of its log.
    void wait_for_owner(std::chrono::milliseconds limit);

    // Kill the owner with SIGKILL and start another relay in its place.
    void kill_owner();
    // Stop the owner with SIGSTOP for this long.
    void pause_owner(std::chrono::milliseconds time);
    // Break the relays' connections to the database.
    void cut_database() const;
    // Throws Error when a relay has ended by itself.
    void check();

    // The group whose owner counts. Places at brokers that were made for the audit have the same name.
    const std::string& group() const { return plan_.group; }
    std::string log_tail() const;

  private:
    struct Relay {
        Process process;
        std::filesystem::path log;
    };
    Relay launch();
    Relay& owner();
    std::string owner_name() const;

    RelaysPlan plan_;
    std::vector<Relay> relays_;
    int launched_ = 0;
    int turn_ = 0;
};

}  // namespace baton::audit
