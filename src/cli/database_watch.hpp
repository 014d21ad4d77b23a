#pragma once
// The relay's questions to its own database. They have threads of their own, so neither a signal nor an
// endpoint waits for a database that does not answer.
//
//   looking  the catalog of pipelines, every second
//   health   how the groups are, when somebody wants to know
//   jobs     the scheduler's jobs, where nobody else runs them

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.hpp"
#include "postgres/connection.hpp"
#include "relay/settings.hpp"
#include "server/metrics.hpp"

namespace baton::cli {

class DatabaseWatch {
  public:
    using Clock = std::chrono::steady_clock;

    // `owner` is this relay's name; no other relay has it. The log outlives this object.
    DatabaseWatch(std::string db, std::string owner, const Log& log);
    ~DatabaseWatch();
    DatabaseWatch(const DatabaseWatch&) = delete;
    DatabaseWatch& operator=(const DatabaseWatch&) = delete;

    // The pipelines of the catalog, when they changed since the last call.
    std::optional<std::vector<relay::Settings>> take_changes();
    // Why the database counts as away; empty while it answers.
    std::string trouble() const;
    // How the groups are, or were at most `age` ago. Waits a moment for the database. Throws Error when the
    // database does not answer.
    std::vector<server::GroupHealth> groups(Clock::duration age);

    // End what is under way. The destructor waits for the threads.
    void request_stop();

  private:
    void look_on(const std::stop_token& stop);
    void look(std::optional<postgres::Connection>& db, std::string& state);
    void note_answer();
    void note_failure(const std::string& why);
    bool jobs_are_due(postgres::Connection& db) const;
    void check_health_on(const std::stop_token& stop);
    void run_jobs_on(const std::stop_token& stop);
    void run_jobs(std::optional<postgres::Connection>& db);

    const std::string db_;
    const std::string owner_;
    const Log& log_;
    const std::shared_ptr<postgres::Patience> looking_, checking_, working_;

    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable_any changed_;
    std::optional<std::vector<relay::Settings>> catalog_;  // not taken yet
    Clock::time_point answered_at_ = Clock::now();
    bool answered_ = false;
    std::string error_;

    Clock::time_point health_wanted_{};  // an older answer is not good enough
    std::vector<server::GroupHealth> health_;
    Clock::time_point health_at_{};  // when the answer was asked for
    std::optional<Clock::time_point> checking_since_;
    Clock::time_point health_failed_at_{};
    std::string health_error_;

    bool jobs_wanted_ = false;
    std::string jobs_error_;

    std::vector<std::jthread> threads_;
};

}  // namespace baton::cli
