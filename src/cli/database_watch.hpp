#pragma once
// The relay's questions to its own database. They have threads of their own, so neither a signal nor an
// endpoint waits for a database that does not answer.
//
//   looking  the catalog of pipelines, every second
//   notes    what the pipelines do, have counted, and are hindered by, is noted in the database
//   groups   how far behind the groups are, when somebody wants to know
//   metrics  what the database says of itself, when somebody wants to know
//   jobs     the scheduler's jobs, where nobody else runs them
//
// While somebody asks for metrics, one relay of all leads: it tells of what belongs to no relay.

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.hpp"
#include "cli/question.hpp"
#include "cli/relay_notes.hpp"
#include "postgres/connection.hpp"
#include "relay/settings.hpp"
#include "server/metrics.hpp"

namespace baton::cli {

class DatabaseWatch {
  public:
    using Clock = std::chrono::steady_clock;

    // `owner` is this relay's name; no other relay has it. The log outlives this object. `notes` are asked
    // from a thread of this object: how the relay is now.
    DatabaseWatch(std::string db, std::string owner, const Log& log, RelayNotes::Sources notes);
    ~DatabaseWatch();
    DatabaseWatch(const DatabaseWatch&) = delete;
    DatabaseWatch& operator=(const DatabaseWatch&) = delete;

    // The pipelines of the catalog, when they changed since the last call.
    std::optional<std::vector<relay::Settings>> take_changes();
    // Why the database counts as away; empty while it answers.
    std::string trouble() const;
    // How far behind the groups are now. Waits a moment for the database. Throws Error when the database does
    // not answer.
    std::vector<server::GroupLag> groups();
    // What the database says of itself, now or lately. Waits a moment for the database.
    server::DatabaseView view();

    // End what is under way. The destructor waits for the threads.
    void request_stop();

  private:
    void look_on(const std::stop_token& stop);
    static void listen(postgres::Connection& db);
    void look(std::optional<postgres::Connection>& db, std::string& state);
    void note_answer();
    void note_failure(const std::string& why);
    bool jobs_are_due(postgres::Connection& db) const;
    server::DatabaseAnswers ask_for_metrics(postgres::Connection& db);
    bool take_lead(postgres::Connection& db);
    void keep_lead(postgres::Connection& db);
    void leave();
    void count_alerts(postgres::Connection& db);
    void run_jobs_on(const std::stop_token& stop);
    void run_jobs(std::optional<postgres::Connection>& db);

    const std::string db_;
    const std::string owner_;
    const Log& log_;
    RelayNotes notes_;  // used by the thread that looks
    const std::shared_ptr<postgres::Patience> looking_, working_;

    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable_any changed_;
    std::optional<std::vector<relay::Settings>> catalog_;  // not taken yet
    Clock::time_point answered_at_ = Clock::now();
    bool answered_ = false;
    std::string error_;

    relay::Latencies round_trips_;
    Clock::time_point asked_for_metrics_at_{};
    Clock::time_point lead_taken_at_{};
    Clock::time_point leads_until_{};
    std::map<std::string, std::uint64_t> alerts_;

    bool jobs_wanted_ = false;
    std::string jobs_error_;

    server::DatabaseReader reader_;  // used by the thread of metrics_
    Question<std::vector<server::GroupLag>> groups_;
    Question<server::DatabaseAnswers> metrics_;
    std::vector<std::jthread> threads_;
};

}  // namespace baton::cli
