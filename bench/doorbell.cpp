// What waking readers costs writers, and how fast it is.
//
// Writers insert single events, each in its own transaction, into three tables that differ only in their
// trigger: none, the doorbell, pg_notify. One reader waits in the way that belongs to the table. The rounds
// of the three are interleaved, so that what else the machine does hits all alike; only their ratios mean
// something.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "local_server/local_server.hpp"
#include "postgres/connection.hpp"

using namespace baton;
using postgres::Connection;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int rounds = 5;
constexpr auto round_time = std::chrono::milliseconds(1500);
constexpr int latency_samples = 3000;
const std::vector<std::string> kinds{"none", "doorbell", "pg_notify"};

// A kind of table, with a reader that is woken or without.
struct Way {
    std::string kind;
    bool with_reader;
};
const std::vector<Way> ways{{"none", false}, {"doorbell", false}, {"doorbell", true}, {"pg_notify", true}};

// A private server below the temporary directory, gone at the end.
class BenchServer {
  public:
    BenchServer() : server_(options()) {
        server_.create();
        server_.start();
    }
    ~BenchServer() {
        server_.stop(local_server::LocalServer::Stop::immediate);
        std::error_code ignored;
        std::filesystem::remove_all(server_.folder(), ignored);
    }
    BenchServer(const BenchServer&) = delete;
    BenchServer& operator=(const BenchServer&) = delete;

    std::string url() const { return server_.url(); }

  private:
    // fsync is off: the disk would hide what the processor does.
    static local_server::LocalServer::Options options() {
        local_server::LocalServer::Options chosen;
        std::string pattern = (std::filesystem::temp_directory_path() / "baton-bench-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr)
            throw Error("cannot make a folder below the temporary directory");
        chosen.folder = pattern;
        chosen.settings = {"fsync = off", "track_commit_timestamp = on", "max_connections = 100",
                           "shared_buffers = '128MB'", "max_wal_size = '2GB'"};
        return chosen;
    }

    local_server::LocalServer server_;
};

void create_tables(Connection& db) {
    db.exec("create extension baton");
    db.exec(
        "create function notify_readers() returns trigger language plpgsql as "
        "$$ begin perform pg_notify('bench', ''); return null; end $$");
    for (const auto& kind : kinds)
        db.exec("create table " + kind +
                "_events (id bigint generated always as identity primary key, payload text)");
    db.exec(
        "create trigger ring after insert on doorbell_events for each statement execute function "
        "baton_internal.ring_doorbell()");
    db.exec(
        "create trigger ring after insert on pg_notify_events for each statement execute function "
        "notify_readers()");
}

// A writer's connection. The tables here are no outboxes, only tables with a trigger: what a session checks
// once for each outbox is marked as done.
Connection open_writer(const std::string& url) {
    Connection db(url);
    db.exec("select set_config('baton_session.era_' || 'doorbell_events'::regclass::oid, 'on', false)");
    return db;
}

// Sleep and wake in the way of `kind` until told to stop; `on_wake` runs after every wake.
void read_until(const std::atomic<bool>& stop, const std::string& url, const std::string& kind,
                const std::function<void(Connection&)>& on_wake) {
    Connection db(url);
    if (kind == "pg_notify") db.exec("listen bench");
    std::string since = db.value("select baton.doorbell_value('doorbell_events')");
    while (!stop) {
        bool woken = false;
        if (kind == "doorbell") {
            const auto now =
                db.query("call baton.wait_for_events('doorbell_events', $1, '200 ms')", {since}).text(0, 0);
            woken = now != since;
            since = now;
        } else if (kind == "pg_notify") {
            db.wait_readable(std::chrono::milliseconds(200));
            woken = !db.take_notifications().empty();
        } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        if (woken) on_wake(db);
    }
}

// Have `clients` writers insert for one round; returns transactions per second.
double write_one_round(const std::string& url, const Way& way, int clients) {
    const std::string& kind = way.kind;
    std::atomic<bool> stop{false};
    std::atomic<long> transactions{0};
    std::atomic<int> ready{0};
    std::thread reader([&] {
        if (way.with_reader) read_until(stop, url, kind, [](Connection&) {});
    });
    std::vector<std::thread> writers;
    for (int i = 0; i < clients; ++i)
        writers.emplace_back([&] {
            Connection db = open_writer(url);
            db.prepare("publish", "insert into " + kind + "_events (payload) values (repeat('x', 200))");
            ++ready;
            while (ready < clients) std::this_thread::yield();
            long done = 0;
            for (const auto end = Clock::now() + round_time; Clock::now() < end; ++done)
                db.run_prepared("publish");
            transactions += done;
        });
    for (auto& writer : writers) writer.join();
    stop = true;
    reader.join();
    return static_cast<double>(transactions) / std::chrono::duration<double>(round_time).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void compare_cost(const std::string& url) {
    std::printf(
        "## Cost to writers\n\nTransactions per second (median of %d interleaved rounds of %.1f s), and the "
        "median "
        "ratio to none in the same round. A reader that is woken after every commit also takes its share of "
        "the "
        "processors from the writers.\n\n",
        rounds, std::chrono::duration<double>(round_time).count());
    std::printf(
        "| clients | none | doorbell, nobody waits | doorbell, a reader waits | pg_notify, a reader waits |\n"
        "|--:|--:|--:|--:|--:|\n");
    for (const int clients : {1, 8, 32}) {
        std::vector<std::vector<double>> speed(ways.size());
        std::vector<std::vector<double>> ratio(ways.size());
        for (int round = 0; round < rounds; ++round)
            for (std::size_t i = 0; i < ways.size(); ++i) {
                speed[i].push_back(write_one_round(url, ways[i], clients));
                ratio[i].push_back(speed[i].back() / speed[0].back());
            }
        std::printf("| %d | %.0f |", clients, median(speed[0]));
        for (std::size_t i = 1; i < ways.size(); ++i)
            std::printf(" %.0f (%.2f) |", median(speed[i]), median(ratio[i]));
        std::printf("\n");
        std::fflush(stdout);
    }
}

double microseconds(Clock::duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
}

// One writer commits, one reader wakes, again and again; prints how long after the commit was sent the reader
// was awake.
void measure_latency(const std::string& url, const std::string& kind) {
    std::atomic<bool> stop{false};
    std::atomic<long> wakes{0};
    std::atomic<Clock::rep> woken_at{0};
    std::thread reader([&] {
        read_until(stop, url, kind, [&](Connection&) {
            woken_at = Clock::now().time_since_epoch().count();
            ++wakes;
            wakes.notify_one();
        });
    });
    Connection db = open_writer(url);
    db.prepare("publish", "insert into " + kind + "_events (payload) values ('x')");
    std::vector<double> from_send;
    for (int i = 0; i < latency_samples + 100; ++i) {
        const long before = wakes;
        std::this_thread::sleep_for(std::chrono::microseconds(300));  // the reader goes back to sleep
        const auto sent = Clock::now();
        db.run_prepared("publish");
        wakes.wait(before);
        if (i >= 100)
            from_send.push_back(microseconds(Clock::duration(woken_at.load()) - sent.time_since_epoch()));
    }
    stop = true;
    reader.join();
    std::sort(from_send.begin(), from_send.end());
    const auto at = [&](double share) {
        return from_send[static_cast<std::size_t>(share * static_cast<double>(from_send.size() - 1))];
    };
    std::printf("| %s | %.0f | %.0f | %.0f |\n", kind.c_str(), at(0.5), at(0.99), from_send.back());
}

// Print what the insert itself takes, to compare with.
void measure_round_trip(const std::string& url) {
    Connection db(url);
    db.prepare("publish", "insert into none_events (payload) values ('x')");
    std::vector<double> spent;
    for (int i = 0; i < latency_samples; ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        const auto sent = Clock::now();
        db.run_prepared("publish");
        spent.push_back(microseconds(Clock::now() - sent));
    }
    std::sort(spent.begin(), spent.end());
    const auto at = [&](double share) {
        return spent[static_cast<std::size_t>(share * static_cast<double>(spent.size() - 1))];
    };
    std::printf("| (the insert alone) | %.0f | %.0f | %.0f |\n", at(0.5), at(0.99), spent.back());
}

// The same inside the server: from the commit's own time stamp to the moment at which the woken backend runs
// again. The reader is one statement, so no client is in between.
void measure_ring_to_wake(const std::string& url) {
    Connection db = open_writer(url);
    db.exec("create table wakes (at timestamptz); truncate doorbell_events");
    std::thread reader([&] {
        Connection(url).exec(R"(do $$
            declare
                since bigint := baton.doorbell_value('doorbell_events');
                before bigint;
            begin
                loop
                    before := since;
                    call baton.wait_for_events('doorbell_events', since, '1 second');
                    exit when since = before;
                    insert into wakes values (clock_timestamp());
                    commit;
                end loop;
            end $$)");
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    db.prepare("publish", "insert into doorbell_events (payload) values ('x')");
    for (int i = 0; i < latency_samples; ++i) {
        db.run_prepared("publish");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    reader.join();
    db.exec(
        "create table commits as select pg_xact_commit_timestamp(xmin) as at from doorbell_events; create "
        "index on "
        "commits (at); analyze commits");
    const auto spread = db.query(
        "select percentile_disc(array[0.5, 0.99, 1.0]) within group (order by extract(epoch from w.at - "
        "c.at) * "
        "1e6)::float8[] from wakes w cross join lateral (select at from commits where at <= w.at order by at "
        "desc "
        "limit 1) c");
    const std::string list = spread.text(0, 0);
    double p50 = 0, p99 = 0, most = 0;
    std::sscanf(list.c_str(), "{%lf,%lf,%lf}", &p50, &p99, &most);
    std::printf("| doorbell, inside the server: commit to awake backend | %.0f | %.0f | %.0f |\n", p50, p99,
                most);
}

}  // namespace

int main() {
    try {
        const BenchServer server;
        Connection admin(server.url());
        create_tables(admin);
        compare_cost(server.url());
        std::printf(
            "\n## From the insert to the awake reader\n\nMicroseconds from sending the insert (own "
            "transaction) to the reader's "
            "client being awake, %d samples; the last line leaves the clients out.\n\n| way | p50 | p99 | "
            "max |\n|---|--:|--:|--:|\n",
            latency_samples);
        measure_round_trip(server.url());
        measure_latency(server.url(), "doorbell");
        measure_latency(server.url(), "pg_notify");
        measure_ring_to_wake(server.url());
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "doorbell: %s\n", error.what());
        return 1;
    }
}
