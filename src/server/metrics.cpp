#include "server/metrics.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>

#include "baton/version.hpp"
#include "server/process_metrics.hpp"
#include "server/samples.hpp"

namespace baton::server {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using relay::PipelineStatus;

namespace {

struct PipelineMetric {
    const char* name;
    MetricType type;
    const char* help;
    double (*value)(const PipelineStatus& pipeline);
};

template <class Number>
double number(Number value) {
    return static_cast<double>(value);
}

constexpr PipelineMetric pipeline_metrics[] = {
    {"outbox_throughput", MetricType::Counter, "events delivered; its rate is the throughput",
     [](const PipelineStatus& pipeline) { return number(pipeline.counts.delivered); }},
    {"baton_pipeline_events_delivered_total", MetricType::Counter, "events delivered",
     [](const PipelineStatus& pipeline) { return number(pipeline.counts.delivered); }},
    {"baton_pipeline_events_read_total", MetricType::Counter, "events read",
     [](const PipelineStatus& pipeline) { return number(pipeline.read); }},
    {"baton_pipeline_events_filtered_total", MetricType::Counter, "events that the pipeline does not want",
     [](const PipelineStatus& pipeline) { return number(pipeline.counts.filtered); }},
    {"baton_pipeline_events_parked_total", MetricType::Counter, "events parked for another attempt",
     [](const PipelineStatus& pipeline) { return number(pipeline.counts.parked); }},
    {"baton_pipeline_events_dead_total", MetricType::Counter, "events given up",
     [](const PipelineStatus& pipeline) { return number(pipeline.counts.dead); }},
    {"baton_pipeline_retries_total", MetricType::Counter, "events sent again",
     [](const PipelineStatus& pipeline) { return number(pipeline.counts.retried); }},
    {"baton_pipeline_sessions_total", MetricType::Counter, "times that the source was taken",
     [](const PipelineStatus& pipeline) { return number(pipeline.sessions); }},
    {"baton_pipeline_in_flight", MetricType::Gauge, "messages on their way to the sink",
     [](const PipelineStatus& pipeline) { return number(pipeline.in_flight); }},
    {"baton_pipeline_buffered_events", MetricType::Gauge, "events read and not settled",
     [](const PipelineStatus& pipeline) { return number(pipeline.buffered); }},
    {"baton_pipeline_buffered_bytes", MetricType::Gauge, "bytes of events read and not settled",
     [](const PipelineStatus& pipeline) { return number(pipeline.buffered_bytes); }},
    {"baton_pipeline_circuit_open", MetricType::Gauge,
     "1 while nothing is sent because the sink takes nothing",
     [](const PipelineStatus& pipeline) { return pipeline.circuit_open ? 1.0 : 0.0; }},
};

template <class Histogram>
ClientMetric histogram_sample(const Histogram& histogram, std::vector<ClientMetric::Label> labels = {}) {
    ClientMetric made;
    made.label = std::move(labels);
    auto& filled = made.histogram;
    for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
        filled.sample_count += histogram.counts()[i];
        if (i < histogram.bounds().size())
            filled.bucket.push_back({filled.sample_count, histogram.bounds()[i]});
    }
    filled.sample_sum = histogram.sum();
    return made;
}

MetricFamily gauge(const char* name, const char* help, double value,
                   std::vector<ClientMetric::Label> labels = {}) {
    return {name, help, MetricType::Gauge, {sample(MetricType::Gauge, value, std::move(labels))}};
}

MetricFamily counter(const char* name, const char* help, std::uint64_t value) {
    return {name, help, MetricType::Counter, {sample(MetricType::Counter, number(value))}};
}

MetricFamily failures(const char* name, const MetricsInput& input) {
    MetricFamily family{name, "events that a sink could not take, by type", MetricType::Counter, {}};
    for (const auto& [of, count] : input.failures)
        family.metric.push_back(
            sample(family.type, number(count), {{"pipeline", of.first}, {"event_type", of.second}}));
    return family;
}

MetricFamily states(const MetricsInput& input) {
    MetricFamily family{
        "baton_pipeline_state", "1 for the state that a pipeline is in", MetricType::Gauge, {}};
    for (const auto& pipeline : input.pipelines)
        family.metric.push_back(
            sample(family.type, 1, {{"pipeline", pipeline.name}, {"state", relay::name_of(pipeline.state)}}));
    return family;
}

MetricFamily came_back(const MetricsInput& input) {
    MetricFamily family{"baton_pipeline_sink_errors_total",
                        "messages that came back, by whose fault it is: moment, destination or event",
                        MetricType::Counter,
                        {}};
    for (const auto& pipeline : input.pipelines)
        for (const auto fault : {relay::Fault::moment, relay::Fault::destination, relay::Fault::event})
            family.metric.push_back(sample(family.type,
                                           number(pipeline.counts.came_back[static_cast<std::size_t>(fault)]),
                                           {{"pipeline", pipeline.name}, {"fault", relay::name_of(fault)}}));
    return family;
}

MetricFamily alerts(const MetricsInput& input) {
    MetricFamily family{"baton_alerts_total",
                        "alerts on the channel baton_alert while the relay led, by their event",
                        MetricType::Counter,
                        {}};
    for (const auto& [event, count] : input.database.alerts)
        family.metric.push_back(sample(family.type, number(count), {{"event", event}}));
    return family;
}

MetricFamily reloads(const MetricsInput& input) {
    MetricFamily family{"baton_configuration_reloads_total",
                        "reloads of the configuration, by their result: good or bad",
                        MetricType::Counter,
                        {}};
    family.metric = {sample(family.type, number(input.reloads.good), {{"result", "good"}}),
                     sample(family.type, number(input.reloads.bad), {{"result", "bad"}})};
    return family;
}

double owned(const MetricsInput& input) {
    return number(std::count_if(input.pipelines.begin(), input.pipelines.end(), [](const auto& pipeline) {
        return !pipeline.group.empty() && pipeline.state == relay::PipelineState::running;
    }));
}

template <class Histogram>
MetricFamily histogram(const char* name, const char* help, const MetricsInput& input,
                       const Histogram& (*of)(const PipelineStatus&)) {
    MetricFamily family{name, help, MetricType::Histogram, {}};
    for (const auto& pipeline : input.pipelines)
        family.metric.push_back(histogram_sample(of(pipeline), {{"pipeline", pipeline.name}}));
    return family;
}

}  // namespace

void FailureCounts::add(const std::string& pipeline, const std::string& event_type) {
    const std::lock_guard lock(mutex_);
    // Types come from users: a bounded number of them is counted one by one.
    const bool known = counts_.contains({pipeline, event_type}) || counts_.size() < 1000;
    ++counts_[{pipeline, known ? event_type : "other"}];
}

std::map<std::pair<std::string, std::string>, std::uint64_t> FailureCounts::all() const {
    const std::lock_guard lock(mutex_);
    return counts_;
}

std::vector<GroupLag> read_lags(postgres::Connection& db) {
    const auto rows = db.query(
        "select l.group_name, l.lag_rows::float8 from baton.group_lag l "
        "union all select a.outbox, coalesce(a.pending + a.claimed, 0) from baton.adopted_status() a");
    std::vector<GroupLag> groups;
    for (int row = 0; row < rows.rows(); ++row)
        groups.push_back({rows.text(row, 0), std::stod(rows.text(row, 1))});
    return groups;
}

std::vector<MetricFamily> metric_families(const MetricsInput& input) {
    std::vector<MetricFamily> all;
    all.push_back(failures("outbox_failures", input));
    all.push_back(failures("baton_pipeline_failures_total", input));
    for (const auto& metric : pipeline_metrics) {
        all.push_back({metric.name, metric.help, metric.type, {}});
        for (const auto& pipeline : input.pipelines)
            all.back().metric.push_back(
                sample(metric.type, metric.value(pipeline), {{"pipeline", pipeline.name}}));
    }
    all.push_back(came_back(input));
    all.push_back(states(input));
    all.push_back(histogram<relay::Latencies>(
        "baton_pipeline_latency_seconds",
        "time from when an event occurred, the beginning of its transaction, to its delivery", input,
        [](const PipelineStatus& pipeline) -> const relay::Latencies& { return pipeline.counts.latency; }));
    all.push_back(histogram<relay::Sizes>(
        "baton_pipeline_batch_events", "events in a batch that was read", input,
        [](const PipelineStatus& pipeline) -> const relay::Sizes& { return pipeline.batch_sizes; }));
    all.push_back(gauge("baton_database_up", "1 when the database answered", input.database.up ? 1 : 0));
    all.push_back({"baton_database_round_trip_seconds",
                   "time that the database took for a small question, asked every second",
                   MetricType::Histogram,
                   {histogram_sample(input.database.round_trips)}});
    add_database_metrics(all, input.database.answers);
    all.push_back(alerts(input));
    all.push_back(gauge("baton_relay_leader", "1 for the relay that tells of what belongs to no relay",
                        input.database.leads ? 1 : 0));
    all.push_back(gauge("baton_relay_groups_owned", "groups that the relay owns", owned(input)));
    all.push_back(gauge("baton_configuration_good",
                        "0 when the last reload failed, or a pipeline of the catalog is left out",
                        input.configuration_good ? 1 : 0));
    all.push_back(reloads(input));
    all.push_back(gauge("baton_configuration_last_reload_timestamp_seconds",
                        "when the configuration was last read without an error, in seconds since 1970",
                        input.reloads.last_good));
    all.push_back(
        counter("baton_spans_exported_total", "spans that the collector took", input.spans.exported));
    all.push_back(counter("baton_spans_dropped_total",
                          "spans that were not exported: the collector was away, slow or refused them",
                          input.spans.dropped));
    all.push_back(gauge("baton_build_info", "1; the version is a label", 1, {{"version", version()}}));
    add_process_metrics(all);
    return all;
}

std::string render_metrics(const MetricsInput& input) {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, metric_families(input));
    return std::move(text).str();
}

}  // namespace baton::server
