#pragma once
// One value of a metric, with its labels.

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <utility>
#include <vector>

namespace baton::server {

inline prometheus::ClientMetric sample(prometheus::MetricType type, double value,
                                       std::vector<prometheus::ClientMetric::Label> labels = {}) {
    prometheus::ClientMetric made;
    made.label = std::move(labels);
    (type == prometheus::MetricType::Counter ? made.counter.value : made.gauge.value) = value;
    return made;
}

}  // namespace baton::server
