#include "server/database_metrics.hpp"

#include <algorithm>

#include "baton/error.hpp"

namespace baton::server {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using postgres::Connection;
using prometheus::ClientMetric;
using prometheus::MetricFamily;

namespace {

constexpr auto counter = prometheus::MetricType::Counter;
constexpr auto gauge = prometheus::MetricType::Gauge;

constexpr auto longest_rest = 30s;
constexpr auto longest_back_off = 60s;

const DatabaseQuestion groups{
    "groups",
    false,
    {"group"},
    {{"outbox_lag_seconds", gauge, "age of the oldest event that a group has not settled", 0},
     {"outbox_dlq_depth", gauge, "dead letters of a group", 2},
     {"baton_group_lag_seconds", gauge, "age of the oldest event that a group has not settled", 0},
     {"baton_group_lag_events", gauge, "events that a group has not settled", 1},
     {"baton_group_dead_letters", gauge, "dead letters of a group", 2},
     {"baton_group_parked_events", gauge, "events of a group that wait for another attempt or their time", 3},
     {"baton_group_most_attempts", gauge,
      "attempts made at the event that was tried most and waits for another", 4},
     {"baton_group_leases", gauge, "leases that consumers of a group hold", 5},
     {"baton_group_consumers", gauge, "consumers of a group", 6},
     {"baton_group_unhealthy_consumers", gauge, "consumers of a group that have been silent for a minute",
      7}},
    "select * from baton_internal.tell_groups($1, $2) "
    "union all select a.outbox, a.lag_seconds, a.pending + a.claimed, a.dlq_depth, null, null, null, null, "
    "null "
    "from baton.adopted_status() a where $2"};

const DatabaseQuestion outboxes{
    "outboxes",
    true,
    {"outbox"},
    {{"baton_outbox_events_published_total", counter,
      "events published, with those of transactions that were rolled back", 0},
     {"baton_outbox_size_bytes", gauge, "size of an outbox with its indexes", 1},
     {"baton_outbox_partitions", gauge, "partitions of an outbox", 2},
     {"baton_outbox_partitions_ahead", gauge, "partitions that are ready for the events to come", 3},
     {"baton_outbox_retention_overdue_seconds", gauge,
      "how long the oldest partition has been kept beyond its time", 4},
     {"baton_outbox_maintenance_failing", gauge, "1 when the last maintenance of an outbox failed", 5},
     {"baton_outbox_storage_critical", gauge, "1 when an outbox is larger than outbox_storage_critical_mb",
      6},
     {"baton_outbox_open_publishers", gauge, "transactions that have published and are still open", 7},
     {"baton_outbox_oldest_publisher_seconds", gauge, "age of the oldest of these transactions", 8}},
    "select * from baton_internal.tell_outboxes()"};

const DatabaseQuestion retention{
    "retention",
    true,
    {"outbox", "group"},
    {{"baton_outbox_retention_blocked_seconds", gauge,
      "how long a partition has been kept beyond its time because the group has not settled it", 0}},
    "select outbox, group_name, extract(epoch from blocked_for) from baton.retention_blocked"};

const DatabaseQuestion inboxes{
    "inboxes",
    true,
    {"inbox"},
    {{"baton_inbox_readable", gauge, "0 when the table of an inbox is gone or cannot be read", 0},
     {"baton_inbox_pending_messages", gauge, "messages that are not processed", 1},
     {"baton_inbox_oldest_pending_seconds", gauge, "age of the oldest message that is not processed", 2},
     {"baton_inbox_dead_letters", gauge, "dead letters of an inbox", 3},
     {"baton_inbox_gaps", gauge, "gaps in the sequences of an ordered inbox", 4},
     {"baton_inbox_oldest_gap_seconds", gauge, "age of the oldest gap", 5},
     {"baton_inbox_stalled_aggregates", gauge, "aggregates of an ordered inbox that wait for a message", 6},
     {"baton_inbox_oldest_stall_seconds", gauge, "how long the first of them has waited", 7},
     {"baton_inbox_unclaimable_messages", gauge,
      "messages that no worker gets in order: without a number, or with an id that is too long", 8}},
    "select * from baton_internal.tell_inboxes()"};

const DatabaseQuestion stream_tables{
    "stream_tables",
    true,
    {"stream_table"},
    {{"baton_stream_table_overdue_seconds", gauge,
      "how long a refresh has been due although something has changed", 0},
     {"baton_stream_table_last_refresh_timestamp_seconds", gauge,
      "when the last refresh ended, in seconds since 1970", 1},
     {"baton_stream_table_refreshes_total", counter, "refreshes that ended well", 2},
     {"baton_stream_table_failed_in_a_row", gauge, "refreshes that failed since the last that ended well", 3},
     {"baton_stream_table_stopped", gauge,
      "1 when a stream table is not refreshed any more, until somebody mends it", 4},
     {"baton_stream_table_paused", gauge, "1 when somebody has paused a stream table", 5},
     {"baton_stream_table_last_refresh_duration_seconds", gauge, "how long the last refresh took", 6}},
    "select * from baton_internal.tell_streams()"};

const DatabaseQuestion jobs{
    "jobs",
    true,
    {"task"},
    {{"baton_job_last_success_timestamp_seconds", gauge, "when a job last ended well, in seconds since 1970",
      0},
     {"baton_job_runs_total", counter, "runs of a job", 1},
     {"baton_job_failures_total", counter, "runs of a job that failed", 2},
     {"baton_job_failed_in_a_row", gauge, "runs of a job that failed since the last that ended well", 3},
     {"baton_job_overdue_seconds", gauge, "how long a job has been due", 4},
     {"baton_job_running_seconds", gauge, "how long a job has been running", 5}},
    "select * from baton_internal.tell_jobs()"};

const DatabaseQuestion transactions{"transactions",
                                    true,
                                    {},
                                    {{"baton_database_oldest_transaction_seconds", gauge,
                                      "age of the oldest transaction that is open in the database", 0}},
                                    "select * from baton_internal.tell_transactions()"};

std::vector<DatabaseRow> read_rows(const postgres::Result& result, std::size_t labels) {
    std::vector<DatabaseRow> rows(static_cast<std::size_t>(result.rows()));
    for (int row = 0; row < result.rows(); ++row) {
        auto& filled = rows[static_cast<std::size_t>(row)];
        for (int column = 0; column < result.columns(); ++column) {
            if (static_cast<std::size_t>(column) < labels)
                filled.labels.push_back(result.text(row, column));
            else if (result.is_null(row, column))
                filled.numbers.emplace_back();
            else
                filled.numbers.emplace_back(std::stod(result.text(row, column)));
        }
    }
    return rows;
}

ClientMetric sample(const DatabaseQuestion& question, const DatabaseMetric& metric, const DatabaseRow& row) {
    ClientMetric made;
    for (std::size_t i = 0; i < question.labels.size(); ++i)
        made.label.push_back({question.labels[i], row.labels[i]});
    (metric.type == counter ? made.counter.value : made.gauge.value) = *row.numbers[metric.column];
    return made;
}

}  // namespace

const std::vector<DatabaseQuestion>& database_questions() {
    static const std::vector<DatabaseQuestion> all{groups,        outboxes, retention,   inboxes,
                                                   stream_tables, jobs,     transactions};
    return all;
}

// Ask in a transaction of its own, whose limits end with it: a pooler may give the session to others.
DatabaseAnswer DatabaseReader::ask(Connection& db, const DatabaseQuestion& question) const {
    DatabaseAnswer answer;
    answer.asked_at = Clock::now();
    try {
        postgres::Transaction reading(db,
                                      "begin read only; set local statement_timeout = '5s'; set local "
                                      "lock_timeout = '1s'; set local jit = off");
        const postgres::Params who{relay_, answers_.leads};
        answer.rows = read_rows(db.query(question.sql, question.of_leader ? postgres::Params{} : who),
                                question.labels.size());
        reading.commit();
        answer.good = true;
    } catch (const SqlError&) {
        answer.rows.clear();
    }
    answer.took = Clock::now() - answer.asked_at;
    return answer;
}

Clock::duration rest_after(const DatabaseAnswer& answer) {
    if (answer.good) return std::min<Clock::duration>(10 * answer.took, longest_rest);
    if (answer.failures == 0) return {};
    // A server that hung for a moment is asked again soon.
    return std::min<Clock::duration>(2s * (1 << std::min(answer.failures, 10)), longest_back_off);
}

const DatabaseAnswers& DatabaseReader::read(Connection& db, bool leads) {
    if (answers_.leads != leads) answers_.all.clear();
    answers_.leads = leads;
    for (const auto& question : database_questions()) {
        if (question.of_leader && !leads) continue;
        auto& answer = answers_.all[question.name];
        if (Clock::now() < answer.asked_at + rest_after(answer)) continue;
        const int failures = answer.failures;
        answer = ask(db, question);
        if (!answer.good) answer.failures = failures + 1;
    }
    return answers_;
}

void add_database_metrics(std::vector<MetricFamily>& families, const DatabaseAnswers& answers) {
    MetricFamily good{
        "baton_database_answers", "0 when a question for metrics failed or took too long", gauge, {}};
    MetricFamily age{"baton_database_answer_age_seconds", "how old the answer to a question is", gauge, {}};
    for (const auto& question : database_questions()) {
        const auto found = answers.all.find(question.name);
        for (const auto& metric : question.metrics) {
            families.push_back({metric.name, metric.help, metric.type, {}});
            if (found == answers.all.end()) continue;
            for (const auto& row : found->second.rows)
                if (metric.column < row.numbers.size() && row.numbers[metric.column])
                    families.back().metric.push_back(sample(question, metric, row));
        }
        if (found == answers.all.end()) continue;
        const std::chrono::duration<double> old = Clock::now() - found->second.asked_at;
        const auto add = [&question](MetricFamily& family, double value) {
            family.metric.emplace_back();
            family.metric.back().label = {{"question", question.name}};
            family.metric.back().gauge.value = value;
        };
        add(good, found->second.good ? 1 : 0);
        add(age, old.count());
    }
    families.push_back(std::move(good));
    families.push_back(std::move(age));
}

}  // namespace baton::server
