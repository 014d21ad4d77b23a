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
#include "server/rates.hpp"

namespace baton::server {

// The relay inside this program, now.
struct RelayNow {
    std::string name;
    std::vector<relay::PipelineStatus> pipelines;
    std::vector<std::string> reasons;  // why it is not ready; empty when it is
    std::string started_at;
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
    // Pipelines of all relays: those of the relay inside, and what the others noted.
    Json relays() const;
    Json alerts() const;  // the newest first
    Json history(long long since, long long step) const { return history_.read(since, step); }

  private:
    using Clock = std::chrono::steady_clock;

    void work(const std::stop_token& stop);
    void look(std::optional<postgres::Connection>& db);
    void read_overview(postgres::Connection& db);
    Rates::Database read_numbers(postgres::Connection& db) const;
    void note(const std::optional<Rates::Database>& numbers);
    std::vector<Json> with_rates(const std::vector<NotedPipeline>& pipelines) const;
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
    std::map<Rates::Key, Rates::Flow> flows_;
    std::vector<NotedPipeline> noted_;
    std::string trouble_;
    std::deque<Json> alerts_;
    Clock::duration took_{};
    std::jthread thread_;
};

}  // namespace baton::server
