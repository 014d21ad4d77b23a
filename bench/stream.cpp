// Stream tables. What the capture of changes costs a writer: the same statements on a bare table and on
// tables whose changes are captured, in turn.

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "kit/measure.hpp"
#include "local_server/local_server.hpp"
#include "postgres/connection.hpp"

namespace {

using namespace baton;
using namespace baton::bench;
using namespace baton::postgres;
namespace fs = std::filesystem;

// The processor's time that a session has taken, in microseconds.
double processor_time(pid_t backend) {
    double nanoseconds = 0;
    std::ifstream("/proc/" + std::to_string(backend) + "/schedstat") >> nanoseconds;
    return nanoseconds / 1000;
}

// What an action takes, in microseconds.
struct Cost {
    double processor;
    double elapsed;
};

Cost measure(Connection& db, const std::function<void()>& action) {
    const double before = processor_time(db.backend_pid());
    const double elapsed = seconds(action) * 1e6;
    return {processor_time(db.backend_pid()) - before, elapsed};
}

// The tables: bare; all columns captured; only those that a sum per key needs.
constexpr std::array tables{"bare", "whole", "narrow"};

void make_tables(Connection& db) {
    for (const std::string table : tables) {
        db.exec("create table " + table +
                " (id bigint primary key, k int not null, v numeric(12,2), s text, at timestamptz default "
                "now())");
        db.exec("insert into " + table +
                " select g, g % 1000, g * 1.5, repeat('s', 40) from generate_series(1, 100000) g");
    }
    db.exec("select baton_internal.capture_source('whole', '{1,2,3,4,5}')");
    db.exec("select baton_internal.capture_source('narrow', '{2,3}')");
    db.exec("vacuum analyze");
}

// Empty the buffers, and give back the room of dead rows.
void tidy(Connection& db) {
    for (const std::string table : {"whole", "narrow"})
        db.exec("truncate " + db.value("select baton_internal.change_buffer('" + table + "')"));
    for (const std::string table : tables) db.exec("vacuum " + table);
}

using Costs = std::map<std::string, std::map<std::string, std::vector<Cost>>>;  // by statement and table

double middle(const std::vector<Cost>& costs, double Cost::*which) {
    std::vector<double> values;
    for (const auto& cost : costs) values.push_back(cost.*which);
    return median(values);
}

// Ratios round by round, then the median: what else the machine does hits both sides of a round.
double ratio(const Costs& costs, const std::string& statement, const std::string& table,
             double Cost::*which) {
    const auto& bare = costs.at(statement).at("bare");
    const auto& captured = costs.at(statement).at(table);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < bare.size(); ++i) ratios.push_back(captured[i].*which / bare[i].*which);
    return median(ratios);
}

void print_bulk(Connection& db) {
    const std::vector<std::pair<std::string, std::string>> statements{
        {"INSERT",
         "insert into {} select g, g % 1000, g * 1.5, repeat('s', 40) from generate_series(200001, 210000) "
         "g"},
        {"UPDATE", "update {} set v = v + 1 where id > 200000"},
        {"UPDATE of a column that the narrow one does not capture",
         "update {} set s = s || 'x' where id > 200000"},
        {"DELETE", "delete from {} where id > 200000"}};
    Costs costs;
    for (int round = 0; round < 31; ++round) {
        for (const std::string table : tables)
            for (const auto& [name, sql] : statements)
                costs[name][table].push_back(
                    measure(db, [&] { db.exec(fmt::format(fmt::runtime(sql), table)); }));
        tidy(db);
    }
    fmt::print(
        "\n## Capture: 10,000 rows in a statement, against a bare table\n\n| statement | bare, ms | all five "
        "columns, "
        "processor time | elapsed | two columns, processor time | elapsed |\n|---|---|---|---|---|---|\n");
    for (const auto& [name, sql] : statements)
        fmt::print("| {} | {:.1f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", name,
                   middle(costs[name]["bare"], &Cost::processor) / 1000,
                   ratio(costs, name, "whole", &Cost::processor), ratio(costs, name, "whole", &Cost::elapsed),
                   ratio(costs, name, "narrow", &Cost::processor),
                   ratio(costs, name, "narrow", &Cost::elapsed));
}

void print_single(Connection& db) {
    constexpr int statements_per_round = 1000;
    const std::vector<std::pair<std::string, std::string>> statements{
        {"INSERT", "insert into {} values ($1::bigint, 1, 1.5, repeat('s', 40))"},
        {"UPDATE", "update {} set v = v + 1 where id = $1"},
        {"DELETE", "delete from {} where id = $1"}};
    for (const std::string table : tables)
        for (const auto& [name, sql] : statements)
            db.prepare(name + table, fmt::format(fmt::runtime(sql), table));
    Costs costs;
    for (int round = 0; round < 31; ++round) {
        for (const std::string table : tables) {
            db.exec("begin");
            for (const auto& [name, sql] : statements)
                costs[name][table].push_back(measure(db, [&, &name = name] {
                    for (int n = 0; n < statements_per_round; ++n)
                        db.run_prepared(name + table, {300000 + n});
                }));
            db.exec("commit");
        }
        tidy(db);
    }
    fmt::print(
        "\n## Capture: one row in a statement, microseconds of processor time without the commit\n\n| "
        "statement | bare | "
        "all five columns | more | two columns | more |\n|---|---|---|---|---|---|\n");
    for (const auto& [name, sql] : statements) {
        const auto each = [&, &name = name](const std::string& table) {
            return middle(costs[name][table], &Cost::processor) / statements_per_round;
        };
        fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n", name, each("bare"), each("whole"),
                   each("whole") - each("bare"), each("narrow"), each("narrow") - each("bare"));
    }
}

}  // namespace

int main() {
    std::string folder = (fs::temp_directory_path() / "baton-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) return 1;
    local_server::LocalServer server({folder,
                                      0,
                                      true,
                                      true,
                                      {"shared_buffers = '512MB'", "max_wal_size = '8GB'",
                                       "checkpoint_timeout = '30min'", "autovacuum = off"}});
    int status = 0;
    try {
        server.create();
        server.start();
        Connection db(server.url());
        db.exec("create extension baton");
        db.exec("update baton.jobs set enabled = false");
        make_tables(db);
        print_bulk(db);
        print_single(db);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        status = 1;
    }
    server.remove();
    return status;
}
