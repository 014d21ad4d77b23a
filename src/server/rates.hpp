#pragma once
// Rates and percentiles from two looks at counters: those of the relay inside this program, and those that
// other relays noted in the database every few seconds.

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "relay/histogram.hpp"
#include "server/history.hpp"

namespace baton::server {

// How many values fell under each bound: whole numbers for counters, a second's share for rates.
using Buckets = std::array<double, relay::latency_bounds.size() + 1>;

// A pipeline as its relay noted it, see baton.relay_pipelines.
struct NotedPipeline {
    std::string relay, pipeline, group, state, detail, trouble;
    double delivered = 0;
    double failed = 0;
    double buffered = 0;
    Buckets latency{};
    double began = 0;  // counting; like what follows in seconds since 1970, by the database's clock
    double noted_at = 0;
};

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
        std::vector<NotedPipeline> noted = {};
        double now = 0;  // seconds since 1970, by its clock
    };
    // The relay inside this program.
    struct Inside {
        std::string relay;
        std::vector<NotedPipeline> pipelines;
    };
    // Of a pipeline, for a second.
    struct Flow {
        double delivered = 0;
        double failed = 0;
        Buckets latency{};

        Flow& operator+=(const Flow& other);
        PipelineValues values() const;
    };
    using Key = std::pair<std::string, std::string>;  // relay and pipeline

    // `seconds`: any clock. Where no relay reads a group, what was delivered is computed from the group's
    // lag.
    Sample sample(double seconds, const std::optional<Database>& database,
                  const std::optional<Inside>& inside);
    // Of each pipeline at the last sample.
    const std::map<Key, Flow>& flows() const { return flows_; }

  private:
    struct Counted {
        double delivered = 0;
        double failed = 0;
        Buckets latency{};
    };
    struct Noted {
        Counted counted;
        double noted_at = 0;
        std::optional<Flow> flow;  // nothing: a first look tells no rate
    };
    static Flow flow(Counted before, const Counted& now, double time);
    void follow(const Inside& inside, double time);
    void follow(const Database& database, const std::string& but_for);
    void count_groups(const Database& database, double time, const std::set<std::string>& read_by_relays,
                      Sample& sample) const;
    void sum_up(Sample& sample, bool counted) const;

    double at_ = 0;
    std::optional<Database> before_;
    double looked_at_ = 0;  // last, at the database and by its clock
    std::map<std::string, Counted> inside_;
    bool began_ = false;
    std::map<Key, Noted> noted_;
    std::map<Key, Flow> flows_;
};

}  // namespace baton::server
