// Refreshes of stream tables: differential against full, the choice of AUTO, what an idle one costs, how fast
// a live one is, what the outbox adds, what IMMEDIATE costs a writer, chains and diamonds. Modes take turns
// over the same changes. Words name the parts to be run (shapes, outbox, immediate, chain, live, idle);
// without any, all are.
//
// Times are the processor's where a refresh is compared with another, and the clock's where somebody waits.
// For the latter the processes that are measured ask for a real-time priority: other work on the machine does
// not push in.

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "assembly/pipeline_parts.hpp"
#include "base/life_sign.hpp"
#include "brokers/redis/tests/server.hpp"
#include "kit/measure.hpp"
#include "kit/relay_process.hpp"
#include "local_server/local_server.hpp"
#include "postgres/connection.hpp"
#include "relay/config.hpp"
#include "relay/pipeline.hpp"

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

double processor_seconds(pid_t process) {
    double nanoseconds = 0;
    std::ifstream("/proc/" + std::to_string(process) + "/schedstat") >> nanoseconds;
    return nanoseconds / 1e9;
}

// Milliseconds of the processor's time that a session takes for something.
double processor_time(Connection& db, const std::function<void()>& action) {
    const double before = processor_seconds(db.backend_pid());
    action();
    return (processor_seconds(db.backend_pid()) - before) * 1000;
}

double refresh(Connection& db, const std::string& name) {
    return processor_time(db, [&] { db.exec("select * from baton.refresh_stream_table('" + name + "')"); });
}

// Put a process before all others, while this lives. Without the right to do so nothing happens.
class Urgent {
  public:
    explicit Urgent(std::vector<pid_t> processes) : processes_(std::move(processes)) {
        for (const pid_t process : processes_) set(process, SCHED_FIFO, 5);
    }
    ~Urgent() {
        for (const pid_t process : processes_) set(process, SCHED_OTHER, 0);
    }
    Urgent(const Urgent&) = delete;
    Urgent& operator=(const Urgent&) = delete;

  private:
    static void set(pid_t process, int policy, int priority) {
        const sched_param how{priority};
        static_cast<void>(::sched_setscheduler(process, policy, &how));
    }
    std::vector<pid_t> processes_;
};

pid_t worker_of(Connection& db) {
    return std::stoi(
        db.value("select pid from pg_stat_activity where application_name = 'baton worker' and datname = "
                 "current_database() order by backend_start limit 1"));
}

// Give back the room of dead rows, also of captured changes.
void tidy(Connection& db, const std::vector<std::string>& tables) {
    db.exec("select baton_internal.tidy_captures(false)");
    for (const auto& table : tables) db.exec("vacuum " + table);
    db.exec("vacuum " + db.value("select baton_internal.change_buffer('bench.orders')"));
    db.exec("vacuum baton.stream_tables");
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
        "\n## {} rows: milliseconds of processor time of a refresh after a change of some rows, medians\n\n| "
        "query | rows "
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
                tidy(db, {"bench.orders", "bench.st_differential", "bench.st_full", "bench.st_auto"});
            }
            const double differential = median(took[0]);
            const double full = median(took[1]);
            std::vector<double> against_better;  // round by round
            for (std::size_t i = 0; i < took[2].size(); ++i)
                against_better.push_back(took[2][i] / (differential < full ? took[0][i] : took[1][i]));
            fmt::print("| {} | {} % | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.2f} |\n", shape.name,
                       share * 100, differential, full, full / differential, median(took[2]),
                       median(against_better));
            std::fflush(stdout);
        }
    }
}

void print_nothing(Connection& db) {
    make_tables(db, 1000);
    create(db, "bench.idle", shapes[2].query, "DIFFERENTIAL");
    const Urgent urgent({db.backend_pid(), 0});
    std::vector<double> took;
    for (int i = 0; i < 200; ++i)
        took.push_back(seconds([&] { db.exec("select * from baton.refresh_stream_table('bench.idle')"); }) *
                       1000);
    fmt::print(
        "\n## Nothing to do\n\nA refresh with nothing to do: {:.2f} ms (p50), {:.2f} ms (p99), seen by the "
        "caller.\n",
        median(took), percentile(took, 0.99));
}

void print_idle(Connection& db) {
    print_nothing(db);
    constexpr int many = 1000;
    for (int i = 0; i < many; ++i) {
        db.exec(
            fmt::format("create table bench.t{0} (n int); select baton.create_stream_table('bench.s{0}', "
                        "'select n, count(*) as c from bench.t{0} group by n', '1s')",
                        i));
    }
    db.exec("vacuum analyze");  // as the server does by itself after a while
    db.exec("update baton.jobs set enabled = true");
    const auto used = [&] { return processor_seconds(worker_of(db)); };
    std::this_thread::sleep_for(std::chrono::seconds(5));
    const auto begun = Clock::now();
    const double at_first = used();
    // The worker finds out about each of them once, then knows.
    for (double took = 1; took > 0.5 && Seconds(Clock::now() - begun).count() < 600;) {
        const double before = used();
        std::this_thread::sleep_for(std::chrono::seconds(10));
        took = used() - before;
    }
    const double before = used();
    const double elapsed = seconds([] { std::this_thread::sleep_for(std::chrono::seconds(130)); });
    fmt::print(
        "\n{} idle stream tables with schedule 1s: the worker takes {:.2f} % of a core over {:.0f} s, after "
        "it has got to "
        "know them ({:.0f} s of processor time, once).\n",
        many, 100 * (used() - before) / elapsed, elapsed, before - at_first);
    db.exec("update baton.jobs set enabled = false");
}

// Wait until the worker has looked after a live stream table.
void start_jobs(Connection& db) {
    db.exec("update baton.jobs set enabled = true; select pg_sleep(3)");
}

void print_spread(const char* what, const std::vector<double>& times) {
    fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} |\n", what, median(times), percentile(times, 0.9),
               percentile(times, 0.99));
    std::fflush(stdout);
}

std::vector<double> times_to_visible(Connection& db, const std::string& url) {
    Connection writer(url);
    const Urgent urgent({worker_of(db), db.backend_pid(), writer.backend_pid(), 0});
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
    return visible;
}

// The relay runs in this process, and its sink tells when redis has acknowledged a delta.
std::vector<double> times_to_broker(Connection& db, const std::string& url) {
    test::RedisServer redis;
    redis.start();
    const auto config = relay::parse_config(
        config_of(
            new_group(), "bench.outbox_live",
            fmt::format("type = \"redis\"\nurl = \"redis://127.0.0.1:{}\"\nstream = \"bench\"", redis.port()),
            "latest"),
        "bench");
    auto parts = assembly::make_parts(config.pipelines.front(), {url, show_life()});
    std::atomic<int> arrived{0};
    std::atomic<Clock::time_point> at{};
    parts.on_delivered = [&](const Event&) {
        at = Clock::now();
        ++arrived;
    };
    relay::Pipeline pipeline(std::move(parts));
    pipeline.start();
    while (pipeline.status().state != relay::PipelineState::running)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Connection writer(url);
    std::vector<pid_t> measured{worker_of(db), writer.backend_pid()};
    const auto sessions = db.query(
        "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()");
    for (int i = 0; i < sessions.rows(); ++i) measured.push_back(std::stoi(sessions.text(i, 0)));
    for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
        measured.push_back(std::stoi(thread.path().filename().string()));
        std::ifstream children(thread.path() / "children");  // redis is one of them
        for (pid_t child = 0; children >> child;) {
            measured.push_back(child);
            for (const auto& part : fs::directory_iterator(fmt::format("/proc/{}/task", child)))
                measured.push_back(std::stoi(part.path().filename().string()));
        }
    }
    const Urgent urgent(measured);
    std::vector<double> times;
    for (int i = 0; i < 300; ++i) {
        const int before = arrived;
        writer.exec("update bench.orders set amount = amount + 1 where id = 7");
        const auto committed = Clock::now();
        while (arrived == before) std::this_thread::sleep_for(std::chrono::microseconds(50));
        times.push_back(std::max(0.0, Seconds(at.load() - committed).count() * 1000));
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    pipeline.request_stop();
    pipeline.join();
    return times;
}

void print_live(Connection& db, const std::string& url) {
    make_tables(db, 100000);
    create(db, "bench.live", shapes[2].query, "DIFFERENTIAL", "'live'");
    start_jobs(db);
    fmt::print(
        "\n## Live: milliseconds from the writer's commit, 10 commits a second\n\n| until | p50 | p90 | p99 "
        "|\n|---|---|---|---|\n");
    print_spread("a reader sees the change", times_to_visible(db, url));
    db.exec("select baton.enable_outbox('bench.live')");
    print_spread("a reader sees the change, with an outbox", times_to_visible(db, url));
    print_spread("redis has acknowledged the delta (append-only file, synced)", times_to_broker(db, url));
    db.exec("update baton.jobs set enabled = false");
}

void print_outbox(Connection& db) {
    fmt::print(
        "\n## The outbox's share, processor time\n\n| rows changed | without, ms | with, ms | ratio "
        "|\n|---|---|---|---|\n");
    for (const auto& [share, what, rounds] :
         {std::tuple{0.01, "1,000 (in the event)", 32}, std::tuple{0.5, "50,000 (claim-check)", 14}}) {
        make_tables(db, 100000);
        create(db, "bench.without", shapes[0].query, "DIFFERENTIAL");
        create(db, "bench.within", shapes[0].query, "DIFFERENTIAL");
        db.exec("select baton.enable_outbox('bench.within')");
        std::vector<double> without, with, ratios;
        for (int round = 0; round < rounds; ++round) {
            change(db, share, round);
            double one = 0, other = 0;
            if (round % 2 == 0) one = refresh(db, "bench.without");
            other = refresh(db, "bench.within");
            if (round % 2 == 1) one = refresh(db, "bench.without");
            tidy(db, {"bench.orders", "bench.without", "bench.within"});
            if (round < 2) continue;
            without.push_back(one);
            with.push_back(other);
            ratios.push_back(other / one);
        }
        fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} |\n", what, median(without), median(with),
                   median(ratios));
        std::fflush(stdout);
    }
}

void print_immediate(Connection& db) {
    fmt::print(
        "\n## IMMEDIATE: milliseconds of processor time of a statement of one row, without the commit\n\n| "
        "stream tables | "
        "statement |\n|---|---|\n");
    make_tables(db, 100000);
    for (int count = 0; count <= 4; ++count) {
        if (count > 0)
            create(db, "bench.now" + std::to_string(count), shapes[static_cast<std::size_t>(count - 1)].query,
                   "IMMEDIATE");
        std::vector<double> took;
        db.exec("begin");
        for (int i = 0; i < 100; ++i)
            took.push_back(processor_time(db, [&] {
                db.exec("update bench.orders set amount = amount + 1 where id = " + std::to_string(i + 1));
            }));
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
        const double ms = processor_time(db, [&] { refresh_due(db, "bench.c1"); });
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
        const double ms = processor_time(db, [&] { refresh_due(db, "bench.tip"); });
        if (round > 1) diamond.push_back(ms);
    }
    fmt::print(
        "\n## Together\n\nA chain of ten after 100 changed rows: {:.1f} ms of processor time. A diamond of "
        "three: {:.1f} ms.\n",
        median(chain), median(diamond));
}

}  // namespace

int main(int count, char** words) {
    const auto asked = [&](const std::string& part) {
        return count == 1 || std::find(words + 1, words + count, part) != words + count;
    };
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
        if (asked("outbox")) print_outbox(db);
        if (asked("live")) print_live(db, server.url());
        if (asked("immediate")) print_immediate(db);
        if (asked("chain")) print_chain(db);
        if (asked("shapes")) print_shapes(db, 100000);
        if (asked("shapes")) print_shapes(db, 1000000);
        if (asked("idle")) print_idle(db);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        status = 1;
    }
    server.remove();
    return status;
}
