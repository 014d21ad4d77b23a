// What an event costs its writer, and what reading the log costs: ratios within one run.
// BATON_BENCH_EVENTS sets the size of the backlog (default 1,000,000).

#include <fmt/core.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "postgres/connection.hpp"
#include "postgres/local_server.hpp"

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
// own.
double rate(const std::string& url, int clients, const std::vector<std::string>& statements,
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
                if (statements.size() > 1) db.exec("begin");
                for (std::size_t n = 0; n < statements.size(); ++n)
                    db.run_prepared("s" + std::to_string(n), {i});
                if (statements.size() > 1) db.exec("commit");
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
        "| clients | without, tps | event in the same round trip | event in a round trip of its own "
        "|\n|---|---|---|---|\n");
    for (const int clients : {1, 8, 32}) {
        double bare = 0, same = 0, apart = 0;
        for (int round = 0; round < 3; ++round) {  // interleaved, so that noise hits all alike
            bare += rate(url, clients, {business}, 2);
            same += rate(url, clients, {together}, 2);
            apart += rate(url, clients, {business, event}, 2);
        }
        fmt::print("| {} | {:.0f} | {:.2f} | {:.2f} |\n", clients, bare / 3, same / bare, apart / bare);
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

void backlog(const std::string& url, long events) {
    Connection db(url);
    db.exec(
        "select baton.create_outbox('big_events'); select baton.create_consumer_group('plain', 'big_events', "
        "'earliest'), "
        "baton.create_consumer_group('held', 'big_events', 'earliest'), baton.create_consumer_group('idle', "
        "'big_events', 'earliest')");
    fill(db, "big_events", events);
    const auto lag_time = seconds([&] { db.value("select lag_rows from baton.consumer_lag('idle')"); });
    long bytes = 0;
    const auto copy_time = seconds([&] {
        db.exec(
            "copy (select id, event_id, aggregate_id, event_type, partition_key, payload, occurred_at from "
            "big_events order by id) to stdout");
        char* row = nullptr;
        while (const int length = PQgetCopyData(db.native(), &row, 0)) {
            if (length < 0) break;
            bytes += length;
            PQfreemem(row);
        }
        while (PGresult* rest = PQgetResult(db.native())) PQclear(rest);
    });
    long read = 0;
    const auto drain_time = seconds([&] { read = drain(db, "plain", 1000); });
    Connection open(url);
    open.exec("begin; insert into big_events (event_type) values ('held open')");
    long read_held = 0;
    const auto held_time = seconds([&] { read_held = drain(db, "held", 1000); });
    open.exec("rollback");
    const auto per_second = [](long n, double t) { return static_cast<double>(n) / t; };
    fmt::print("\n## Draining {} events of 300 bytes\n\n| way | events/s | against COPY |\n|---|---|---|\n",
               events);
    fmt::print("| COPY (SELECT ...) TO STDOUT | {:.0f} | 1.00 |\n", per_second(events, copy_time));
    fmt::print("| poll + commit, batches of 1000 | {:.0f} | {:.2f} |\n", per_second(read, drain_time),
               copy_time / drain_time);
    fmt::print("| the same while a transaction is open | {:.0f} | {:.2f} |\n",
               per_second(read_held, held_time), copy_time / held_time);
    fmt::print(
        "\nWith a transaction held open the drain takes {:.2f} of the time without. `consumer_lag()` with {} "
        "events to read: {:.1f} ms.\n",
        held_time / drain_time, events, lag_time * 1000);

    const auto idle = [&](const std::string& group) {
        db.prepare("idle_" + group, "select * from baton.poll_outbox('" + group + "', 'c')");
        db.run_prepared("idle_" + group);
        return seconds([&] {
                   for (int i = 0; i < 200; ++i) db.run_prepared("idle_" + group);
               }) /
               200 * 1e6;
    };
    db.exec(
        "select baton.create_outbox('small_events'); select baton.create_consumer_group('small', "
        "'small_events', 'earliest')");
    fill(db, "small_events", 1000);
    drain(db, "small", 1000);
    fmt::print(
        "\n## An idle poll\n\n| settled events in the log | microseconds |\n|---|---|\n| 1000 | {:.0f} |\n| "
        "{} | {:.0f} |\n",
        idle("small"), events, idle("plain"));
}

}  // namespace

int main() {
    std::string folder = (std::filesystem::temp_directory_path() / "baton-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) return 1;
    LocalServer server({folder,
                        0,
                        true,
                        true,
                        {"shared_buffers = '1GB'", "max_wal_size = '8GB'", "checkpoint_timeout = '30min'",
                         "max_connections = 100"}});
    try {
        server.create();
        server.start();
        const std::string url = server.url();
        Connection(url).exec(
            "create extension baton; select baton.create_outbox('events'); create table orders (id bigint "
            "generated always as identity primary key, customer int, note text)");
        const char* wanted = std::getenv("BATON_BENCH_EVENTS");
        writers(url);
        write_ahead_log(url);
        backlog(url, wanted != nullptr ? std::atol(wanted) : 1'000'000);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        server.remove();
        return 1;
    }
    server.remove();
    return 0;
}
