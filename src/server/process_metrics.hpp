#pragma once
// What this process uses, by the names that Prometheus' own clients give it.

#include <prometheus/metric_family.h>

#include <vector>

namespace baton::server {

void add_process_metrics(std::vector<prometheus::MetricFamily>& families);

}  // namespace baton::server
