// What /metrics says, and that docs/metrics.md lists just that.

#include "server/metrics.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <set>

using namespace baton;
using namespace baton::server;

namespace {

const char* name_of(prometheus::MetricType type) {
    return type == prometheus::MetricType::Counter ? "counter"
           : type == prometheus::MetricType::Gauge ? "gauge"
                                                   : "histogram";
}

MetricsInput an_input() {
    MetricsInput input;
    relay::PipelineStatus pipeline;
    pipeline.name = "orders \"quoted\"\nand \\ more";
    pipeline.state = relay::PipelineState::running;
    pipeline.counts.delivered = 3'000'000'000;
    pipeline.counts.came_back = {4, 5, 6};
    for (const double latency : {0.001, 0.0011, 7200.0}) pipeline.counts.latency.add(latency);
    pipeline.batch_sizes.add(500);
    input.pipelines.push_back(pipeline);
    input.failures[{"orders", "OrderPlaced"}] = 7;
    input.database.alerts["job_failed"] = 9;
    for (const double round_trip : {0.0005, 0.2}) input.database.round_trips.add(round_trip);
    for (const auto& question : database_questions()) {
        DatabaseRow row;
        for (const auto* label : question.labels) row.labels.push_back(std::string("a ") + label);
        for (std::size_t i = 0; i < question.metrics.size(); ++i)
            row.numbers.emplace_back(static_cast<double>(i) + 0.5);
        input.database.answers.all[question.name] = {true, std::chrono::steady_clock::now(), {}, {row}, 0};
    }
    return input;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

}  // namespace

TEST(Metrics, say_what_they_are_given) {
    const auto lines = lines_of(render_metrics(an_input()));
    const std::string pipeline = R"(pipeline="orders \"quoted\"\nand \\ more")";
    for (const auto& expected : {
             "outbox_throughput{" + pipeline + "} 3000000000",
             "baton_pipeline_sink_errors_total{" + pipeline + ",fault=\"moment\"} 4",
             "baton_pipeline_sink_errors_total{" + pipeline + ",fault=\"destination\"} 5",
             "baton_pipeline_sink_errors_total{" + pipeline + ",fault=\"event\"} 6",
             "baton_pipeline_state{" + pipeline + ",state=\"running\"} 1",
             "baton_pipeline_latency_seconds_count{" + pipeline + "} 3",
             "baton_pipeline_latency_seconds_bucket{" + pipeline + ",le=\"0.001\"} 1",
             "baton_pipeline_latency_seconds_bucket{" + pipeline + ",le=\"3600\"} 2",
             "baton_pipeline_latency_seconds_bucket{" + pipeline + ",le=\"+Inf\"} 3",
             "baton_pipeline_batch_events_sum{" + pipeline + "} 500",
             std::string("outbox_failures{pipeline=\"orders\",event_type=\"OrderPlaced\"} 7"),
             std::string("outbox_lag_seconds{group=\"a group\"} 0.5"),
             std::string("outbox_dlq_depth{group=\"a group\"} 2.5"),
             std::string("baton_group_dead_letters{group=\"a group\"} 2.5"),
             std::string("baton_outbox_retention_blocked_seconds{outbox=\"a outbox\",group=\"a group\"} 0.5"),
             std::string("baton_database_oldest_transaction_seconds 0.5"),
             std::string("baton_database_answers{question=\"inboxes\"} 1"),
             std::string("baton_database_round_trip_seconds_bucket{le=\"0.001\"} 1"),
             std::string("baton_alerts_total{event=\"job_failed\"} 9"),
             std::string("baton_database_up 1"),
         })
        EXPECT_EQ(std::count(lines.begin(), lines.end(), expected), 1) << expected;
}

TEST(Metrics, cost_a_part_of_the_time_and_come_back_soon_after_a_failure) {
    using namespace std::chrono_literals;
    DatabaseAnswer answer;
    EXPECT_EQ(rest_after(answer), 0s) << "was never asked";
    answer = {true, {}, 100ms, {}, 0};
    EXPECT_EQ(rest_after(answer), 1s);
    answer.took = 1h;
    EXPECT_LE(rest_after(answer), 1min) << "the server was away for an hour";
    answer.good = false;
    answer.failures = 1;
    EXPECT_LE(rest_after(answer), 5s);
    auto before = rest_after(answer);
    for (answer.failures = 2; answer.failures < 100; ++answer.failures) {
        EXPECT_GE(rest_after(answer), before);
        before = rest_after(answer);
    }
    EXPECT_EQ(before, 1min);
}

TEST(Metrics, tell_what_the_process_uses) {
    for (const auto& family : metric_families({}))
        if (family.name.starts_with("process_")) {
            const auto& metric = family.metric.at(0);
            EXPECT_GT(metric.counter.value + metric.gauge.value, 0) << family.name;
        }
}

TEST(Metrics, say_that_files_are_used_up_when_none_is_left_to_look_with) {
    const auto value = [](const auto& families, const std::string& name) {
        for (const auto& family : families)
            if (family.name == name) return family.metric.at(0).gauge.value;
        return -1.0;
    };
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = ::dup(STDIN_FILENO);  // the lowest number that was free
    const rlimit none_left{static_cast<rlim_t>(next) + 1, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
    const auto families = metric_families({});
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    ::close(next);
    EXPECT_EQ(value(families, "process_open_fds"), next + 1);
    EXPECT_EQ(value(families, "process_max_fds"), next + 1);
}

TEST(Metrics, are_listed_in_the_docs_each_with_its_type_and_meaning) {
    std::set<std::string> listed;
    std::ifstream file(BATON_DOCS "/metrics.md");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("| `")) listed.insert(line);
    std::set<std::string> made;
    for (const auto& family : metric_families(an_input())) {
        std::string labels;
        ASSERT_FALSE(family.metric.empty()) << family.name;
        for (const auto& label : family.metric[0].label) labels += (labels.empty() ? "" : ", ") + label.name;
        made.insert("| `" + family.name + "` | " + name_of(family.type) + " | " + labels + " | " +
                    family.help + " |");
    }
    for (const auto& line : made) EXPECT_TRUE(listed.contains(line)) << "docs/metrics.md lacks\n" << line;
    for (const auto& line : listed) EXPECT_TRUE(made.contains(line)) << "there is no such metric:\n" << line;
}
