#pragma once
// Metrics for Prometheus: what the relay's pipelines did, what the database says about their groups, and what
// the process uses. docs/metrics.md lists them all; a test compares.

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <prometheus/metric_family.h>

#include "postgres/connection.hpp"
#include "relay/pipeline.hpp"
#include "server/database_metrics.hpp"

namespace baton::server {

// Failed events by pipeline and type, counted as they fail.
class FailureCounts {
  public:
    void add(const std::string& pipeline, const std::string& event_type);
    std::map<std::pair<std::string, std::string>, std::uint64_t> all() const;

  private:
    mutable std::mutex mutex_;
    std::map<std::pair<std::string, std::string>, std::uint64_t> counts_;
};

struct GroupLag {
    std::string group;
    double events = 0;
};

// Ask the database; throws like any query.
std::vector<GroupLag> read_lags(postgres::Connection& db);

// What is known of the database.
struct DatabaseView {
    bool up = true;
    bool leads = false;  // this relay tells of what belongs to no relay
    DatabaseAnswers answers;
    relay::Latencies round_trips;
    std::map<std::string, std::uint64_t> alerts;  // by event
};

struct ReloadCounts {
    std::uint64_t good = 0;
    std::uint64_t bad = 0;
    double last_good = 0;  // in seconds since 1970; the start counts
};

// What became of the relay's spans.
struct SpanCounts {
    std::uint64_t exported = 0;
    std::uint64_t dropped = 0;
};

struct MetricsInput {
    std::vector<relay::PipelineStatus> pipelines;
    std::map<std::pair<std::string, std::string>, std::uint64_t> failures;
    DatabaseView database;
    ReloadCounts reloads;
    SpanCounts spans;
    bool configuration_good = true;
};

std::vector<prometheus::MetricFamily> metric_families(const MetricsInput& input);
std::string render_metrics(const MetricsInput& input);

}  // namespace baton::server
