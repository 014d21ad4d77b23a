// Refreshes of stream tables: differential against full, the choice of AUTO, what an idle one costs, how fast
// a live one is, what the outbox adds, what IMMEDIATE costs a writer, chains and diamonds. Modes take turns
// over the same changes.

#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "kit/measure.hpp"
#include "local_server/local_server.hpp"
#include "postgres/connection.hpp"

namespace {

using namespace baton;
using namespace baton::bench;
using namespace baton::postgres;
namespace fs = std::filesystem;

struct Shape {
    std::string name;
    std::string query;
};

const std::array shapes{
    Shape{"filter and project", "select id, amount * 2 as double from bench.orders where status <> 'void'"},
    Shape{"join",
          "select o.id, o.amount, c.region from bench.orders o join bench.customers c on c.id = o.customer"},
    Shape{"sum per customer",
          "select customer, count(*) as n, sum(amount) as total from bench.orders group by customer"},
    Shape{"sum per region over a join",
          "select c.region, count(*) as n, sum(o.amount) as total from bench.orders o join bench.customers c "
          "on c.id = o.customer group by c.region"},
    Shape{"rank within a customer",
          "select id, customer, rank() over (partition by customer order by amount desc, id) as place from "
          "bench.orders"}};

constexpr std::array modes{"DIFFERENTIAL", "FULL", "AUTO"};

void make_tables(Connection& db, int rows) {
    db.exec("drop schema if exists bench cascade; create schema bench");
    db.exec(fmt::format(
        "create table bench.customers (id int primary key, region text);"
        "create table bench.orders (id int primary key, customer int not null, amount numeric(12,2) not "
        "null, status text);"
        "insert into bench.customers select n, 'region ' || n % 20 from generate_series(1, {0}) n;"
        "insert into bench.orders select n, n % {0} + 1, n % 1000, (array['new', 'paid', 'void'])[n % 3 + 1] "
        "from generate_series(1, {1}) n;"
        "create index on bench.orders (customer)",
        rows / 100, rows));
    db.exec("vacuum analyze bench.orders");
    db.exec("vacuum analyze bench.customers");
}

double refresh(Connection& db, const std::string& name) {
    return seconds([&] { db.exec("select * from baton.refresh_stream_table('" + name + "')"); }) * 1000;
}

std::string create(Connection& db, const std::string& name, const std::string& query, const std::string& mode,
                   const std::string& schedule = "null") {
    db.exec(fmt::format("select baton.create_stream_table('{}', $q${}$q$, {}, '{}'); analyze {}", name, query,
                        schedule, mode, name));
    return name;
}

// Change that share of the rows, other ones in each round.
void change(Connection& db, double share, int round) {
    const int every = static_cast<int>(1 / share);
    db.exec(
        fmt::format("update bench.orders set amount = amount + 1 where id % {} = {}", every, round % every));
}

void print_shapes(Connection& db, int rows) {
    fmt::print(
        "\n## {} rows: milliseconds of a refresh after a change of some rows, medians\n\n| query | rows "
        "changed | DIFFERENTIAL | FULL | FULL / DIFFERENTIAL | AUTO | AUTO / the "
        "better |\n|---|---|---|---|---|---|---|\n",
        rows);
    for (const auto& shape : shapes) {
        make_tables(db, rows);
        for (const std::string mode : modes) create(db, "bench.st_" + mode, shape.query, mode);
        for (const double share : {0.001, 0.01, 0.1}) {
            std::array<std::vector<double>, modes.size()> took;
            for (int round = 0; round < 7; ++round) {
                change(db, share, round);
                for (std::size_t i = 0; i < modes.size(); ++i) {
                    const double ms = refresh(db, std::string("bench.st_") + modes[i]);
                    if (round > 1) took[i].push_back(ms);  // the first ones make plans, and let AUTO learn
                }
                db.exec("select baton_internal.tidy_captures(false)");
                db.exec("vacuum bench.orders");
                for (const std::string mode : modes) db.exec("vacuum bench.st_" + mode);
            }
            const double differential = median(took[0]);
            const double full = median(took[1]);
            fmt::print("| {} | {} % | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.2f} |\n", shape.name,
                       share * 100, differential, full, full / differential, median(took[2]),
                       median(took[2]) / std::min(differential, full));
        }
    }
}

double processor_seconds(pid_t backend) {
    double nanoseconds = 0;
    std::ifstream("/proc/" + std::to_string(backend) + "/schedstat") >> nanoseconds;
    return nanoseconds / 1e9;
}

void print_idle(Connection& db) {
    make_tables(db, 1000);
    create(db, "bench.idle", shapes[2].query, "DIFFERENTIAL");
    std::vector<double> took;
    for (int i = 0; i < 200; ++i) took.push_back(refresh(db, "bench.idle"));
    fmt::print(
        "\n## Nothing to do\n\nA refresh with nothing to do: {:.2f} ms (p50), {:.2f} ms (p99), seen by the "
        "caller.\n",
        median(took), percentile(took, 0.99));
    constexpr int many = 1000;
    for (int i = 0; i < many; ++i) {
        db.exec(
            fmt::format("create table bench.t{0} (n int); select baton.create_stream_table('bench.s{0}', "
                        "'select n, count(*) as c from bench.t{0} group by n', '1s')",
                        i));
    }
    db.exec("update baton.jobs set enabled = true");
    std::this_thread::sleep_for(std::chrono::seconds(40));
    const pid_t worker =
        std::stoi(db.value("select pid from pg_stat_activity where application_name = 'baton worker' and "
                           "datname = current_database()"));
    const double before = processor_seconds(worker);
    const double elapsed = seconds([] { std::this_thread::sleep_for(std::chrono::seconds(60)); });
    fmt::print(
        "\n{} idle stream tables with schedule 1s: the worker takes {:.2f} % of a core over {:.0f} s.\n",
        many, 100 * (processor_seconds(worker) - before) / elapsed, elapsed);
    db.exec("update baton.jobs set enabled = false");
}

void print_live(Connection& db, const std::string& url) {
    make_tables(db, 100000);
    create(db, "bench.live", shapes[2].query, "DIFFERENTIAL", "'live'");
    db.exec("update baton.jobs set enabled = true; select pg_sleep(3)");
    Connection writer(url);
    std::vector<double> visible;
    for (int i = 0; i < 300; ++i) {
        const auto before = db.value("select total from bench.live where customer = 8");
        writer.exec("update bench.orders set amount = amount + 1 where id = 7");
        visible.push_back(seconds([&] {
                              while (db.value("select total from bench.live where customer = 8") == before)
                                  std::this_thread::yield();
                          }) *
                          1000);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    fmt::print(
        "\n## Live\n\nFrom the writer's commit to what a reader sees, 10 commits a second: {:.1f} ms (p50), "
        "{:.1f} ms (p90), {:.1f} ms (p99).\n",
        median(visible), percentile(visible, 0.9), percentile(visible, 0.99));
    db.exec("update baton.jobs set enabled = false");
}

void print_outbox(Connection& db) {
    fmt::print(
        "\n## The outbox's share\n\n| rows changed | without, ms | with, ms | ratio |\n|---|---|---|---|\n");
    for (const auto& [share, what] :
         {std::pair{0.01, "1,000 (in the event)"}, std::pair{0.5, "50,000 (claim-check)"}}) {
        make_tables(db, 100000);
        create(db, "bench.without", shapes[0].query, "DIFFERENTIAL");
        create(db, "bench.within", shapes[0].query, "DIFFERENTIAL");
        db.exec("select baton.enable_outbox('bench.within')");
        std::vector<double> without, with, ratios;
        for (int round = 0; round < 9; ++round) {
            change(db, share, round);
            const double one = refresh(db, "bench.without");
            const double other = refresh(db, "bench.within");
            if (round < 2) continue;
            without.push_back(one);
            with.push_back(other);
            ratios.push_back(other / one);
        }
        fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} |\n", what, median(without), median(with),
                   median(ratios));
    }
}

void print_immediate(Connection& db) {
    fmt::print(
        "\n## IMMEDIATE: what a statement of one row takes, ms without the commit\n\n| stream tables | "
        "statement |\n|---|---|\n");
    make_tables(db, 100000);
    for (int count = 0; count <= 4; ++count) {
        if (count > 0)
            create(db, "bench.now" + std::to_string(count), shapes[static_cast<std::size_t>(count - 1)].query,
                   "IMMEDIATE");
        std::vector<double> took;
        db.exec("begin");
        for (int i = 0; i < 100; ++i)
            took.push_back(seconds([&] {
                               db.exec("update bench.orders set amount = amount + 1 where id = " +
                                       std::to_string(i + 1));
                           }) *
                           1000);
        db.exec("commit");
        fmt::print("| {} | {:.2f} |\n", count, median(took));
    }
}

// What the job does when a stream table is due.
void refresh_due(Connection& db, const std::string& name) {
    db.exec("update baton.stream_tables set next_due = '-infinity' where relation = '" + name +
            "'::regclass");
    db.exec("select baton_internal.refresh_due_stream(null)");
}

void print_chain(Connection& db) {
    make_tables(db, 100000);
    create(db, "bench.c1", shapes[2].query, "DIFFERENTIAL", "'1 hour'");
    for (int i = 2; i <= 10; ++i)
        create(db, fmt::format("bench.c{}", i),
               fmt::format("select customer, n, total + 1 as total from bench.c{}", i - 1), "DIFFERENTIAL",
               "'1 hour'");
    std::vector<double> chain;
    for (int round = 0; round < 12; ++round) {
        change(db, 0.001, round);
        const double ms = seconds([&] { refresh_due(db, "bench.c1"); }) * 1000;
        if (round > 1) chain.push_back(ms);
    }
    create(db, "bench.left_side", shapes[2].query, "DIFFERENTIAL", "'2 hours'");
    create(db, "bench.right_side", shapes[3].query, "DIFFERENTIAL", "'2 hours'");
    create(db, "bench.tip",
           "select l.customer, l.total, r.total as of_region from bench.left_side l join bench.customers c "
           "on c.id = l.customer join bench.right_side r on r.region = c.region",
           "DIFFERENTIAL", "'2 hours'");
    std::vector<double> diamond;
    for (int round = 0; round < 12; ++round) {
        change(db, 0.001, round);
        const double ms = seconds([&] { refresh_due(db, "bench.tip"); }) * 1000;
        if (round > 1) diamond.push_back(ms);
    }
    fmt::print(
        "\n## Together\n\nA chain of ten after 100 changed rows: {:.1f} ms. A diamond of three: {:.1f} ms.\n",
        median(chain), median(diamond));
}

}  // namespace

int main() {
    std::string folder = (fs::temp_directory_path() / "baton-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) return 1;
    local_server::LocalServer server({folder,
                                      0,
                                      true,
                                      true,
                                      {"shared_buffers = '1GB'", "max_wal_size = '8GB'",
                                       "checkpoint_timeout = '30min'", "autovacuum = off"}});
    int status = 0;
    try {
        server.create();
        server.start();
        Connection db(server.url());
        db.exec("create extension baton; update baton.jobs set enabled = false; set work_mem = '64MB'");
        print_shapes(db, 100000);
        print_shapes(db, 1000000);
        print_outbox(db);
        print_immediate(db);
        print_chain(db);
        print_live(db, server.url());
        print_idle(db);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        status = 1;
    }
    server.remove();
    return status;
}
