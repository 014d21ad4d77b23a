#pragma once
// What the database says of groups, outboxes, inboxes, stream tables and jobs, as metrics.
//
// Each question is one statement with a limit on its time. A question that took long rests before it is asked
// again, so that the questions take a small part of a processor, however often somebody asks. A question that
// fails leaves the others alone. It is asked again soon, then less and less often.

#include <prometheus/metric_family.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "postgres/connection.hpp"

namespace baton::server {

struct DatabaseMetric {
    const char* name;
    prometheus::MetricType type;
    const char* help;
    std::size_t column;  // of the numbers in a row
};

struct DatabaseQuestion {
    const char* name;
    bool of_leader;  // only the leader asks; the others ask of their own groups
    std::vector<const char*> labels;
    std::vector<DatabaseMetric> metrics;
    const char* sql;  // labels first, then numbers
};

const std::vector<DatabaseQuestion>& database_questions();

struct DatabaseRow {
    std::vector<std::string> labels;
    std::vector<std::optional<double>> numbers;
};

struct DatabaseAnswer {
    bool good = false;
    std::chrono::steady_clock::time_point asked_at{};
    std::chrono::steady_clock::duration took{};
    std::vector<DatabaseRow> rows;
    int failures = 0;  // since the last good answer
};

// How long a question with this answer is not asked again.
std::chrono::steady_clock::duration rest_after(const DatabaseAnswer& answer);

// Answers by the name of the question.
struct DatabaseAnswers {
    bool leads = false;
    std::map<std::string, DatabaseAnswer> all;
};

class DatabaseReader {
  public:
    // `relay` is this relay's name.
    explicit DatabaseReader(std::string relay) : relay_(std::move(relay)) {}

    // Ask what is to be asked. `leads`: this relay tells of everything that belongs to no relay. Throws
    // ConnectionError.
    const DatabaseAnswers& read(postgres::Connection& db, bool leads);

  private:
    DatabaseAnswer ask(postgres::Connection& db, const DatabaseQuestion& question) const;

    const std::string relay_;
    DatabaseAnswers answers_;
};

void add_database_metrics(std::vector<prometheus::MetricFamily>& families, const DatabaseAnswers& answers);

}  // namespace baton::server
