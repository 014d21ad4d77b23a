#pragma once
// Real relays as child processes, all with the same pipelines, and what may be done to them.

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/process.hpp"

namespace baton::audit {

struct RelaysPlan {
    std::filesystem::path program;  // baton
    std::string db;                 // how the relays reach the database
    std::string admin_db;           // how we do
    std::filesystem::path config;
    std::filesystem::path folder;  // for their logs
    std::string group;             // whose owner counts
    int count = 1;
    std::vector<std::pair<std::string, std::string>> environment;
};

class Relays {
  public:
    explicit Relays(RelaysPlan plan) : plan_(std::move(plan)) {}

    void start();
    // SIGTERM, so that they drain.
    void stop();
    // Wait until one of them owns the group; throws Error with the end of its log.
    void wait_for_owner(std::chrono::milliseconds limit);

    // SIGKILL the owner and start another in its place.
    void kill_owner();
    // SIGSTOP the owner for this long.
    void pause_owner(std::chrono::milliseconds time);
    // Break the relays' connections to the database.
    void cut_database() const;
    // Throws Error when one has ended by itself.
    void check();

    // Whose owner counts. Places at brokers that were made for the audit have the same name.
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
