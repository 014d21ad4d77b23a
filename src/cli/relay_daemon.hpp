#pragma once
// The relay as a daemon: runs the pipelines of its file and of the catalog, follows changes of both, answers
// on its endpoints, and runs the scheduler's jobs where nobody else does.

#include <filesystem>
#include <optional>

#include "assembly/pipeline_parts.hpp"
#include "base/log.hpp"
#include "cli/database_watch.hpp"
#include "cli/server_settings.hpp"
#include "cli/stop_signal.hpp"
#include "cli/traces.hpp"
#include "relay/config.hpp"
#include "relay/supervisor.hpp"
#include "server/api.hpp"
#include "server/metrics.hpp"
#include "server/status_server.hpp"

namespace baton::cli {

struct DaemonOptions {
    std::string db;
    std::filesystem::path file;  // or a folder; empty: only the catalog
    std::string listen;          // empty: as the file says, or nowhere
    std::string log_format;      // empty: as the file says
    std::string token_file;      // empty: as the file says
};

// Combine what the file and the command line say about the log and the draining. Each function throws
// SettingsError.
Log make_log(const relay::Config& config, const std::string& format);
std::chrono::milliseconds read_drain(const relay::Config& config);

class RelayDaemon {
  public:
    // Throws SettingsError when the file cannot work.
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
    void flush_traces() const;
    void listen();
    std::string metrics();
    server::Answer ready();
    server::Answer drained();
    std::vector<std::string> troubles();
    std::vector<Trouble> own_troubles();
    server::RelayNow now();
    std::string render(postgres::Connection& db, const std::string& pipeline, int events);

    DaemonOptions options_;
    relay::Config config_;
    ServerSettings server_;
    Log log_;
    assembly::RelayIdentity identity_;
    RelayTraces traces_;
    server::FailureCounts failures_;
    std::unique_ptr<relay::Supervisor> supervisor_;
    std::vector<relay::Settings> catalog_;
    // What the system knows of the files, without reading them. The time alone is too coarse: a file may be
    // read after it was emptied and before it is written.
    using FileMarks =
        std::map<std::filesystem::path, std::pair<std::filesystem::file_time_type, std::uintmax_t>>;
    std::optional<FileMarks> file_marks_;
    mutable std::mutex trouble_mutex_;             // guards what follows
    std::string reload_trouble_;                   // why the last reload failed; empty when it succeeded
    std::map<std::string, std::string> left_out_;  // pipelines of the catalog that cannot run, and why
    std::vector<relay::Settings> wanted_;          // pipelines that run
    server::ReloadCounts reloads_;
    std::chrono::milliseconds longest_drain_{0};
    std::chrono::steady_clock::time_point secrets_seen_at_{};
    std::unique_ptr<DatabaseWatch> database_;
    std::string started_at_;
    std::unique_ptr<server::Api> api_;
    std::unique_ptr<server::StatusServer> endpoints_;
};

}  // namespace baton::cli
