#pragma once
// The one reader of the database for everybody who watches: the overview, the numbers for the charts, the
// alerts, and whether the database answers at all. It has one connection and one thread. What it knows can be
// asked for without waiting.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "operations/operation.hpp"
#include "postgres/connection.hpp"
#include "relay/pipeline.hpp"
#include "server/history.hpp"

namespace baton::server {

// The relay inside this program, now.
struct RelayNow {
    std::string name;
    std::vector<relay::PipelineStatus> pipelines;
    std::vector<std::string> reasons;  // why it is not ready; empty when it is
    std::string started_at;
};

// Rates and percentiles from two looks at counters.
class Rates {
  public:
    struct Group {
        double lag_events = 0;
        double lag_seconds = 0;
        double published = 0;  // to its outbox, since ever
    };
    struct Database {
        double published = 0;  // since ever
        double dead_letters = 0;
        std::map<std::string, Group> groups;
    };

    // `seconds`: any clock. Without a relay, what was delivered is computed from the groups' lags.
    Sample sample(double seconds, const std::optional<Database>& database,
                  const std::optional<std::vector<relay::PipelineStatus>>& pipelines);

  private:
    struct Counted {
        double delivered = 0;
        double failed = 0;
        relay::Latencies latency;
    };
    void count_groups(const Database& database, double time, bool alone, Sample& sample) const;
    void count_pipelines(const std::map<std::string, Counted>& now, double time, Sample& sample) const;

    double at_ = 0;
    std::optional<Database> before_;
    std::map<std::string, Counted> pipelines_;
    bool began_ = false;
};

class Watch {
  public:
    using Json = operations::Json;

    struct Listeners {
        std::function<std::optional<RelayNow>()> relay;          // nothing: there is no relay inside
        std::function<void(const std::string& why)> on_trouble;  // empty: the database answers
        std::function<void(const std::string& alert)> on_alert;
        std::function<bool()> somebody_watches;
    };

    Watch(std::string db, Listeners listeners);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // The data of a tick.
    std::string tick() const;
    Json relay() const;
    Json alerts() const;  // the newest first
    Json history(long long since, long long step) const { return history_.read(since, step); }

  private:
    using Clock = std::chrono::steady_clock;

    void work(const std::stop_token& stop);
    void look(std::optional<postgres::Connection>& db);
    void read_overview(postgres::Connection& db);
    Rates::Database read_numbers(postgres::Connection& db) const;
    void note(const Sample& sample);
    void hear(postgres::Connection& db);
    void set_trouble(const std::string& why);
    Clock::duration interval() const;

    const std::string db_;
    const Listeners listeners_;
    const std::shared_ptr<postgres::Patience> patience_;
    Rates rates_;  // of the thread
    History history_;
    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable_any changed_;
    std::string overview_ = "null";
    Sample last_;
    std::string trouble_;
    std::deque<Json> alerts_;
    Clock::duration took_{};
    std::jthread thread_;
};

}  // namespace baton::server
