#pragma once
// What a relay writes down in the database, for whoever watches all relays: what hinders it (when that
// begins, changes or ends), and what its pipelines do and have counted (every few seconds).

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "cli/trouble_notes.hpp"
#include "postgres/connection.hpp"
#include "relay/pipeline.hpp"

namespace baton::cli {

// When the pipelines are to be written, and since when each of them counts.
class PipelineNotes {
  public:
    using Time = std::chrono::steady_clock::time_point;
    using Pipelines = std::vector<relay::PipelineStatus>;

    static constexpr auto pause = std::chrono::seconds(5);
    static constexpr auto lease = std::chrono::seconds(15);

    // True when the time has come, or when a pipeline's state is another one than the database knows.
    bool due(const Pipelines& now, Time at);
    // As baton_internal.note_pipelines() takes it.
    nlohmann::json written(const Pipelines& now, Time at);
    // The database does not know any more.
    void forget() { lost_ = true; }

  private:
    struct Known {
        Time began;  // counting
        relay::PipelineState state;
        bool troubled;
        std::uint64_t settled;
    };
    static Known known(const relay::PipelineStatus& status, Time began);

    std::map<std::string, Known> known_;
    Time written_at_{};
    bool lost_ = true;
};

class RelayNotes {
  public:
    struct Sources {
        std::function<std::vector<Trouble>()> troubles;
        std::function<std::vector<relay::PipelineStatus>()> pipelines;
    };

    // The log outlives this object.
    RelayNotes(std::string owner, const Log& log, Sources sources);

    // A session began. Behind a pooler no session is the relay's own: what hinders it is written with a
    // lease.
    void begin(bool pooled);
    // Write what is due.
    void write(postgres::Connection& db);
    // The relay ends, and its pipelines with it.
    void end(postgres::Connection& db);
    bool wrote() const { return wrote_; }

  private:
    void write_troubles(postgres::Connection& db);
    void write_pipelines(postgres::Connection& db);
    void attempt(const std::function<void()>& writing);

    const std::string owner_;
    const Log& log_;
    const Sources sources_;
    TroubleNotes troubles_;
    PipelineNotes pipelines_;
    bool leased_ = false;
    bool wrote_ = false;
};

}  // namespace baton::cli
