#pragma once
// The relay as a daemon: runs the pipelines of its file and of the catalog, follows changes of both, answers
// on its endpoints, and runs the scheduler's jobs where nobody else does.

#include <filesystem>
#include <optional>

#include "base/log.hpp"
#include "cli/database_watch.hpp"
#include "cli/pipeline_parts.hpp"
#include "cli/stop_signal.hpp"
#include "relay/config.hpp"
#include "relay/supervisor.hpp"
#include "server/metrics.hpp"
#include "server/status_server.hpp"

namespace baton::cli {

struct DaemonOptions {
    std::string db;
    std::filesystem::path file;  // empty: only the catalog
    std::string listen;          // empty: as the file says, or nowhere
    std::string log_format;      // empty: as the file says
};

// Settle what the file and the command line say about the log.
Log make_log(const relay::Config& config, const std::string& format);

class RelayDaemon {
  public:
    // Throws SettingsError when the file cannot be.
    explicit RelayDaemon(DaemonOptions options);

    // Run until a stop is asked for, then drain.
    void run(const StopSignal& stop);

  private:
    relay::PipelineParts make(const relay::Settings& settings);
    void reload();
    void follow_secrets();
    bool file_changed();
    void apply(bool first);
    void stop_pipelines();
    void listen();
    std::string metrics();
    server::Answer ready();
    server::Answer drained();

    DaemonOptions options_;
    relay::Config config_;
    Log log_;
    RelayIdentity identity_;
    server::FailureCounts failures_;
    std::unique_ptr<relay::Supervisor> supervisor_;
    std::vector<relay::Settings> catalog_;
    std::optional<std::filesystem::file_time_type> file_time_;
    std::chrono::milliseconds longest_drain_{0};
    std::chrono::steady_clock::time_point secrets_seen_at_{};
    std::unique_ptr<DatabaseWatch> database_;
    std::unique_ptr<server::StatusServer> endpoints_;
};

}  // namespace baton::cli
