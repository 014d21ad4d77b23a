// What an event costs its writer, and what reading the log costs: ratios within one run.
// BATON_BENCH_EVENTS sets the size of the backlog (default 1,000,000), BATON_BENCH_SETTLED that of the
// largest settled log (default 10,000,000).

#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "local_server/local_server.hpp"
#include "postgres/connection.hpp"

namespace {

using namespace baton;
using namespace baton::postgres;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

double seconds(const std::function<void()>& action) {
    const auto start = Clock::now();
    action();
    return Seconds(Clock::now() - start).count();
}

// Transactions per second of `clients` sessions that repeat these statements, each in a round trip of its
// own; within BEGIN and COMMIT when `wrapped`.
double rate(const std::string& url, int clients, const std::vector<std::string>& statements, bool wrapped,
            double duration) {
    std::atomic<long> done{0};
    std::atomic<bool> stop{false};
    std::vector<std::thread> sessions;
    for (int i = 0; i < clients; ++i)
        sessions.emplace_back([&, i] {
            Connection db(url);
            for (std::size_t n = 0; n < statements.size(); ++n)
                db.prepare("s" + std::to_string(n), statements[n]);
            while (!stop) {
                if (wrapped) db.exec("begin");
                for (std::size_t n = 0; n < statements.size(); ++n)
                    db.run_prepared("s" + std::to_string(n), {i});
                if (wrapped) db.exec("commit");
                ++done;
            }
        });
    const auto start = Clock::now();
    std::this_thread::sleep_for(Seconds(duration));
    stop = true;
    for (auto& session : sessions) session.join();
    return static_cast<double>(done) / Seconds(Clock::now() - start).count();
}

void writers(const std::string& url) {
    const std::string business = "insert into orders (customer, note) values ($1::int, repeat('n', 100))";
    const std::string event =
        "insert into events (event_type, aggregate_id, payload) values ('order.placed', $1::int::text, "
        "jsonb_build_object('note', repeat('x', 240)))";
    const std::string together =
        "with o as (" + business +
        " returning customer) insert into events (event_type, aggregate_id, payload) "
        "select 'order.placed', customer::text, jsonb_build_object('note', repeat('x', 240)) from o";
    fmt::print(
        "## A business transaction with an event, against the same without\n\n"
        "A transaction is BEGIN, one insert, COMMIT, each a round trip; the last two columns are for a "
        "single "
        "statement that commits by itself.\n\n"
        "| clients | without, tps | event in the same round trip | event in one of its own | single "
        "statement, "
        "tps | with its event |\n|---|---|---|---|---|---|\n");
    for (const int clients : {1, 8, 32}) {
        double bare = 0, same = 0, apart = 0, single = 0, single_same = 0;
        for (int round = 0; round < 3; ++round) {  // interleaved, so that noise hits all alike
            bare += rate(url, clients, {business}, true, 2);
            same += rate(url, clients, {together}, true, 2);
            apart += rate(url, clients, {business, event}, true, 2);
            single += rate(url, clients, {business}, false, 2);
            single_same += rate(url, clients, {together}, false, 2);
        }
        fmt::print("| {} | {:.0f} | {:.2f} | {:.2f} | {:.0f} | {:.2f} |\n", clients, bare / 3, same / bare,
                   apart / bare, single / 3, single_same / single);
    }
}

long position(Connection& db) {
    return std::stol(db.value("select (pg_current_wal_insert_lsn() - '0/0')::bigint"));
}

void fill(Connection& db, const std::string& outbox, long events) {
    db.query("insert into " + outbox +
                 " (event_type, aggregate_id, partition_key, payload) select 'order.placed', i::text, 'k' || "
                 "i % 10000, "
                 "jsonb_build_object('n', i, 'note', repeat('x', 240)) from generate_series(1, $1::bigint) i",
             {events});
    db.exec("vacuum analyze " + outbox);
}

// Poll and commit until the log is drained; returns the events read.
long drain(Connection& db, const std::string& group, int batch) {
    long read = 0;
    db.prepare("poll_" + group, "select * from baton.poll_outbox('" + group + "', 'c', $1, 600)");
    db.prepare("commit_" + group, "select baton.commit_offset('" + group + "', 'c', $1, $2::uuid)");
    for (;;) {
        const auto rows = db.run_prepared("poll_" + group, {batch});
        if (rows.empty()) return read;
        read += rows.rows();
        db.run_prepared("commit_" + group,
                        {rows.text(rows.rows() - 1, 0), rows.text(0, rows.column("lease_token"))});
    }
}

void write_ahead_log(const std::string& url) {
    Connection db(url);
    db.exec(
        "select baton.create_outbox('wal_events'); select baton.create_consumer_group('wal', 'wal_events', "
        "'earliest'); checkpoint");
    const long before = position(db);
    for (int i = 0; i < 200; ++i)
        db.exec(
            "insert into wal_events (event_type, aggregate_id, payload) select 'e', i::text, "
            "jsonb_build_object('note', repeat('x', 240)) from generate_series(1, 100) i");
    const long inserted = position(db);
    const long events = drain(db, "wal", 1000);
    const long settled = position(db);
    fmt::print(
        "\n## Bytes of write-ahead log per event ({} events, batches of 1000)\n\n| insert | poll and commit "
        "| end to end / insert |\n|---|---|---|\n| {:.0f} | {:.1f} | {:.3f} |\n",
        events, static_cast<double>(inserted - before) / static_cast<double>(events),
        static_cast<double>(settled - inserted) / static_cast<double>(events),
        static_cast<double>(settled - before) / static_cast<double>(inserted - before));
}

// Read everything as COPY gives it; returns the seconds.
double copy_out(Connection& db) {
    return seconds([&] {
        db.exec(
            "copy (select id, event_id, aggregate_id, event_type, partition_key, payload, occurred_at from "
            "big_events order by id) to stdout");
        char* row = nullptr;
        while (PQgetCopyData(db.native(), &row, 0) > 0) PQfreemem(row);
        while (PGresult* rest = PQgetResult(db.native())) PQclear(rest);
    });
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

void backlog(const std::string& url, long events) {
    Connection db(url);
    db.exec("select baton.create_outbox('big_events')");
    fill(db, "big_events", events);
    db.exec("select baton.create_consumer_group('idle', 'big_events', 'earliest')");
    const auto lag_time = seconds([&] { db.value("select lag_rows from baton.consumer_lag('idle')"); });

    int groups = 0;
    const auto timed_drain = [&] {
        const std::string group = "g" + std::to_string(++groups);
        db.exec("select baton.create_consumer_group('" + group + "', 'big_events', 'earliest')");
        return seconds([&] { drain(db, group, 1000); });
    };
    std::vector<double> copies, plain, lazy, held, ratios;
    timed_drain();  // warms caches
    for (int round = 0; round < 5; ++round) {
        copies.push_back(copy_out(db));
        plain.push_back(timed_drain());
        {
            Connection open(url);
            open.exec("begin; insert into big_events (event_type) values ('held open')");
            held.push_back(timed_drain());
            open.exec("rollback");
        }
        ratios.push_back(held.back() / plain.back());
        db.exec("set synchronous_commit = off");
        lazy.push_back(timed_drain());
        db.exec("set synchronous_commit = on");
    }
    const auto row = [&](const char* way, const std::vector<double>& times) {
        fmt::print("| {} | {:.0f} | {:.2f} |\n", way, static_cast<double>(events) / median(times),
                   median(copies) / median(times));
    };
    fmt::print(
        "\n## Draining {} events of 300 bytes (median of 5 interleaved rounds)\n\n"
        "| way | events/s | against COPY |\n|---|---|---|\n",
        events);
    row("COPY (SELECT ...) TO STDOUT", copies);
    row("poll + commit, batches of 1000", plain);
    row("the same while a transaction is open", held);
    row("the same, synchronous_commit = off", lazy);
    fmt::print(
        "\nWith a transaction held open the drain takes {:.2f} of the time without (median of the rounds' "
        "ratios; {:.2f} to {:.2f}). `consumer_lag()` with {} events to read: {:.1f} ms.\n",
        median(ratios), std::ranges::min(ratios), std::ranges::max(ratios), events, lag_time * 1000);
}

// What a poll costs that finds nothing, while other transactions go on, by the size of the settled log.
void idle_polls(const std::string& url, long most) {
    Connection db(url);
    db.exec("create table noise (n int); insert into noise values (0)");
    fmt::print("\n## An idle poll\n\n| settled events in the log | microseconds |\n|---|---|\n");
    for (const long size : {1000L, 1'000'000L, most}) {
        const std::string outbox = "settled_" + std::to_string(size), group = "of_" + outbox;
        db.exec("select baton.create_outbox('" + outbox + "')");
        db.query("insert into " + outbox +
                     " (event_type, payload) select 'e', '{}' from generate_series(1, $1::bigint)",
                 {size});
        db.exec("vacuum analyze " + outbox);
        db.exec("select baton.create_consumer_group('" + group + "', '" + outbox + "', 'latest')");
        db.prepare(group, "select * from baton.poll_outbox('" + group + "', 'c')");
        std::vector<double> times;
        for (int i = 0; i < 1000; ++i) {
            db.exec("update noise set n = n + 1");
            times.push_back(seconds([&] { db.run_prepared(group); }));
        }
        fmt::print("| {} | {:.0f} |\n", size, median(times) * 1e6);
    }
}

}  // namespace

int main() {
    std::string folder = (std::filesystem::temp_directory_path() / "baton-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) return 1;
    local_server::LocalServer server({folder,
                                      0,
                                      true,
                                      true,
                                      {"shared_buffers = '1GB'", "max_wal_size = '8GB'",
                                       "checkpoint_timeout = '30min'", "max_connections = 100"}});
    try {
        server.create();
        server.start();
        const std::string url = server.url();
        Connection(url).exec(
            "create extension baton; select baton.create_outbox('events'); create table orders (id bigint "
            "generated always as identity primary key, customer int, note text)");
        const auto setting = [](const char* name, long fallback) {
            const char* given = std::getenv(name);
            return given != nullptr ? std::atol(given) : fallback;
        };
        writers(url);
        write_ahead_log(url);
        backlog(url, setting("BATON_BENCH_EVENTS", 1'000'000));
        idle_polls(url, setting("BATON_BENCH_SETTLED", 10'000'000));
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        server.remove();
        return 1;
    }
    server.remove();
    return 0;
}
