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

struct GroupHealth {
    std::string group;
    double lag_seconds = 0;
    double lag_events = 0;
    double dead_letters = 0;
};

// Ask the database; throws like any query.
std::vector<GroupHealth> read_groups(postgres::Connection& db);

struct MetricsInput {
    std::vector<relay::PipelineStatus> pipelines;
    std::map<std::pair<std::string, std::string>, std::uint64_t> failures;
    std::vector<GroupHealth> groups;
    bool database_up = true;
    bool configuration_good = true;
};

std::vector<prometheus::MetricFamily> metric_families(const MetricsInput& input);
std::string render_metrics(const MetricsInput& input);

}  // namespace baton::server
