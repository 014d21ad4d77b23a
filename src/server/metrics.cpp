#include "server/metrics.hpp"

#include <fmt/format.h>

namespace baton::server {

namespace {

std::string label(std::string_view value) {
    std::string out;
    for (const char c : value) {
        if (c == '\\' || c == '"') out += '\\';
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out;
}

void head(std::string& out, const char* name, const char* type, const char* help) {
    out += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

// One metric of every pipeline.
template <class Value>
void per_pipeline(std::string& out, const MetricsInput& input, const char* name, const char* type,
                  const char* help, Value value) {
    head(out, name, type, help);
    for (const auto& pipeline : input.pipelines)
        out += fmt::format("{}{{pipeline=\"{}\"}} {}\n", name, label(pipeline.name), value(pipeline));
}

template <class Value>
void per_group(std::string& out, const MetricsInput& input, const char* name, const char* help, Value value) {
    head(out, name, "gauge", help);
    for (const auto& group : input.groups)
        out += fmt::format("{}{{group=\"{}\"}} {}\n", name, label(group.group), value(group));
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

std::vector<GroupHealth> read_groups(postgres::Connection& db) {
    const auto rows = db.query(
        "select d.group_name, coalesce(l.lag_seconds, 0)::float8, coalesce(l.lag_rows, 0)::float8, "
        "d.dead_letters::float8 "
        "from baton.dead_letter_depth d left join baton.group_lag l using (group_name) "
        "union all select a.outbox, coalesce(a.lag_seconds, 0), coalesce(a.pending + a.claimed, 0)::float8, "
        "coalesce(a.dlq_depth, 0)::float8 from baton.adopted_status() a order by 1");
    std::vector<GroupHealth> groups;
    for (int row = 0; row < rows.rows(); ++row)
        groups.push_back({rows.text(row, 0), std::stod(rows.text(row, 1)), std::stod(rows.text(row, 2)),
                          std::stod(rows.text(row, 3))});
    return groups;
}

std::string render_metrics(const MetricsInput& input) {
    using Status = relay::PipelineStatus;
    std::string out;
    per_group(out, input, "outbox_lag_seconds", "age of the oldest event that a group has not settled",
              [](const GroupHealth& group) { return group.lag_seconds; });
    per_group(out, input, "outbox_lag_events", "events that a group has not settled",
              [](const GroupHealth& group) { return group.lag_events; });
    per_group(out, input, "outbox_dlq_depth", "dead letters of a group",
              [](const GroupHealth& group) { return group.dead_letters; });
    per_pipeline(out, input, "outbox_throughput", "counter", "events delivered; its rate is the throughput",
                 [](const Status& pipeline) { return pipeline.counts.delivered; });
    head(out, "outbox_failures", "counter", "events that a sink could not take, by type");
    for (const auto& [name, count] : input.failures)
        out += fmt::format("outbox_failures{{pipeline=\"{}\",event_type=\"{}\"}} {}\n", label(name.first),
                           label(name.second), count);
    per_pipeline(out, input, "baton_pipeline_events_read_total", "counter", "events read",
                 [](const Status& pipeline) { return pipeline.read; });
    per_pipeline(out, input, "baton_pipeline_events_filtered_total", "counter",
                 "events that the pipeline does not want",
                 [](const Status& pipeline) { return pipeline.counts.filtered; });
    per_pipeline(out, input, "baton_pipeline_events_parked_total", "counter",
                 "events parked for another attempt",
                 [](const Status& pipeline) { return pipeline.counts.parked; });
    per_pipeline(out, input, "baton_pipeline_events_dead_total", "counter", "events given up",
                 [](const Status& pipeline) { return pipeline.counts.dead; });
    per_pipeline(out, input, "baton_pipeline_retries_total", "counter", "events sent again",
                 [](const Status& pipeline) { return pipeline.counts.retried; });
    per_pipeline(out, input, "baton_pipeline_sessions_total", "counter", "times that the source was taken",
                 [](const Status& pipeline) { return pipeline.sessions; });
    per_pipeline(out, input, "baton_pipeline_in_flight", "gauge", "messages on their way to the sink",
                 [](const Status& pipeline) { return pipeline.in_flight; });
    per_pipeline(out, input, "baton_pipeline_buffered_events", "gauge", "events read and not settled",
                 [](const Status& pipeline) { return pipeline.buffered; });
    per_pipeline(out, input, "baton_pipeline_buffered_bytes", "gauge", "bytes of events read and not settled",
                 [](const Status& pipeline) { return pipeline.buffered_bytes; });
    per_pipeline(out, input, "baton_pipeline_circuit_open", "gauge",
                 "1 while nothing is sent because the sink takes nothing",
                 [](const Status& pipeline) { return pipeline.circuit_open ? 1 : 0; });
    head(out, "baton_pipeline_state", "gauge", "1 for the state that a pipeline is in");
    for (const auto& pipeline : input.pipelines)
        out += fmt::format("baton_pipeline_state{{pipeline=\"{}\",state=\"{}\"}} 1\n", label(pipeline.name),
                           relay::name_of(pipeline.state));
    head(out, "baton_database_up", "gauge", "1 when the database answered");
    out += fmt::format("baton_database_up {}\n", input.database_up ? 1 : 0);
    head(out, "baton_configuration_good", "gauge",
         "0 when the last reload failed, or a pipeline of the catalog is left out");
    return out + fmt::format("baton_configuration_good {}\n", input.configuration_good ? 1 : 0);
}

}  // namespace baton::server
