// What the inbox costs: taking messages in, working them off, keeping their order, finding gaps, and what it
// leaves behind. Ratios within one run.
//
// BATON_BENCH_PROCESSED sets the largest history of finished messages (default 10,000,000),
// BATON_BENCH_PENDING the backlog for the search for gaps (default 1,000,000), BATON_BENCH_FLOW the messages
// that run through before bloat is measured (default 5,000,000).

#include <fmt/core.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "kit/measure.hpp"
#include "local_server/local_server.hpp"
#include "postgres/connection.hpp"

namespace {

using namespace baton;
using namespace baton::bench;
using namespace baton::postgres;

long setting(const char* name, long fallback) {
    const char* given = std::getenv(name);
    return given != nullptr ? std::atol(given) : fallback;
}

// Run the statement in `clients` sessions for some time; each call gets a number of its own. Returns calls
// per second.
double rate(const std::string& url, int clients, const std::string& statement, double duration) {
    static std::atomic<long> number{0};
    std::atomic<bool> stop{false};
    std::atomic<long> calls{0};
    std::vector<std::thread> sessions;
    for (int i = 0; i < clients; ++i)
        sessions.emplace_back([&] {
            Connection db(url);
            db.prepare("call", statement);
            while (!stop) {
                db.run_prepared("call", {++number});
                ++calls;
            }
        });
    std::this_thread::sleep_for(Seconds(duration));
    stop = true;
    for (auto& session : sessions) session.join();
    return static_cast<double>(calls) / duration;
}

// A batch of 100 messages as JSON, made in the server from the call's number.
const std::string batch =
    "(select jsonb_agg(jsonb_build_object('event_id', 'm' || $1::bigint || '-' || i, 'event_type', 'paid', "
    "'aggregate_id', "
    "'a' || i, 'payload', jsonb_build_object('note', repeat('x', 240)))) from generate_series(1, 100) i)";

void receiving(const std::string& url) {
    Connection db(url);
    db.exec(
        "select baton.create_inbox('payments'); create table bare (event_id text primary key, event_type "
        "text not null, "
        "aggregate_id text, payload jsonb, received_at timestamptz not null default clock_timestamp(), "
        "processed_at "
        "timestamptz)");
    db.exec("create index on bare (received_at) where processed_at is null");
    const std::string bare_one =
        "insert into bare (event_id, event_type, aggregate_id, payload) values ('m' || $1::bigint, 'paid', "
        "'a', "
        "jsonb_build_object('note', repeat('x', 240))) on conflict do nothing";
    const std::string one =
        "select baton.receive('payments', 'm' || $1::bigint, 'paid', jsonb_build_object('note', repeat('x', "
        "240)), "
        "aggregate_id => 'a')";
    const std::string bare_many =
        "insert into bare (event_id, event_type, aggregate_id, payload) select m.event_id, m.event_type, "
        "m.aggregate_id, "
        "m.payload from jsonb_to_recordset(" +
        batch +
        ") as m (event_id text, event_type text, aggregate_id text, payload jsonb) on conflict do nothing";
    const std::string many = "select count(*) from baton.receive_many('payments', " + batch + ")";
    fmt::print(
        "## Taking messages in, against a bare INSERT ... ON CONFLICT DO NOTHING of the same rows\n\n"
        "| clients | bare, messages/s | receive() | bare in batches of 100, messages/s | receive_many() |\n"
        "|---|---|---|---|---|\n");
    for (const int clients : {1, 4}) {
        std::vector<double> bare, single, bare_batches, batches;
        for (int round = 0; round < 3; ++round) {
            bare.push_back(rate(url, clients, bare_one, 2));
            single.push_back(rate(url, clients, one, 2));
            bare_batches.push_back(rate(url, clients, bare_many, 2) * 100);
            batches.push_back(rate(url, clients, many, 2) * 100);
        }
        fmt::print("| {} | {:.0f} | {:.2f} | {:.0f} | {:.2f} |\n", clients, median(bare),
                   median(single) / median(bare), median(bare_batches),
                   median(batches) / median(bare_batches));
        std::fflush(stdout);
    }
    db.exec("select baton.drop_inbox('payments', cascade => true)");
}

void put(Connection& db, const std::string& inbox, long from, long upto, const std::string& aggregate,
         const std::string& sequence, bool processed) {
    db.query("insert into " + inbox +
                 " (event_id, event_type, aggregate_id, sequence_num, payload, processed_at) select 'e' || "
                 "i, 'paid', " +
                 aggregate + ", " + sequence + ", '{\"n\": 1}', " +
                 (processed ? "clock_timestamp()" : "null") +
                 " from generate_series($1::bigint, $2::bigint) i",
             {from, upto});
}

void working(const std::string& url) {
    fmt::print(
        "\n## Claiming and completing, batches of 100, each batch in one transaction\n\n| workers | "
        "messages/s |\n|---|---|\n");
    for (const int workers : {1, 4, 10}) {
        Connection db(url);
        db.exec("select baton.create_inbox('work')");
        put(db, "work", 1, 200'000, "'a' || i % 1000", "null", false);
        db.exec("vacuum analyze work");
        std::atomic<long> done{0};
        const double time = seconds([&] {
            std::vector<std::thread> threads;
            for (int w = 0; w < workers; ++w)
                threads.emplace_back([&, w] {
                    Connection mine(url);
                    mine.prepare("step",
                                 "with c as materialized (select * from baton.claim_inbox('work', 'w" +
                                     std::to_string(w) +
                                     "', 100)) select baton.complete('work', array_agg(c.event_id), "
                                     "(array_agg(c.lease_token))"
                                     "[1]) from c having count(*) > 0");
                    for (;;) {
                        const auto answer = mine.run_prepared("step");
                        if (answer.empty()) return;
                        done += std::stol(answer.text(0, 0));
                    }
                });
            for (auto& thread : threads) thread.join();
        });
        fmt::print("| {} | {:.0f} |\n", workers, static_cast<double>(done) / time);
        std::fflush(stdout);
        db.exec("select baton.drop_inbox('work', cascade => true)");
    }
}

// One claim of 10, undone; in milliseconds.
double time_of_a_claim(Connection& db, const std::string& inbox) {
    db.exec("begin");
    long claimed = 0;
    const double time = seconds([&] { claimed = db.run_prepared(inbox).rows(); }) * 1000;
    db.exec("rollback");
    if (claimed != 10) throw std::runtime_error(fmt::format("claimed {} instead of 10", claimed));
    return time;
}

void ordered_claims(const std::string& url, long most) {
    Connection db(url);
    const std::vector<long> histories{0, most / 10, most};
    std::vector<std::string> inboxes;
    for (const long processed : histories) {
        const std::string& inbox = inboxes.emplace_back("line_" + std::to_string(processed));
        db.exec("select baton.create_inbox('" + inbox + "')");
        if (processed > 0) put(db, inbox, 1, processed, "'a' || i % 1000", "i / 1000 + 1", true);
        db.exec("select baton.enable_inbox_ordering('" + inbox + "', sequence_num_col => 'sequence_num')");
        put(db, inbox, processed + 1, processed + 1000, "'a' || i % 1000",
            "coalesce((select s.last_sequence from baton_internal.inbox_sequences s join baton.inboxes b on "
            "b.id = "
            "s.inbox "
            "where b.name = '" +
                inbox + "' and s.aggregate = 'a' || i % 1000), 0) + 1",
            false);
        db.exec("vacuum analyze " + inbox);
        db.prepare(inbox, "select event_id from baton.claim_inbox('" + inbox + "', 'w', 10, 600)");
    }
    db.exec("vacuum analyze baton_internal.inbox_sequences");
    db.exec("checkpoint");
    // In turn, so that whatever else goes on touches all of them alike.
    std::vector<std::vector<double>> times(histories.size());
    for (int round = 0; round < 20; ++round)
        for (std::size_t i = 0; i < inboxes.size(); ++i)
            for (int claim = 0; claim < 20; ++claim) times[i].push_back(time_of_a_claim(db, inboxes[i]));
    fmt::print(
        "\n## An ordered claim of 10 with 1000 pending messages of 1000 aggregates, by processed history\n\n"
        "| processed | milliseconds, p50 | p99 | against none |\n|---|---|---|---|\n");
    for (std::size_t i = 0; i < inboxes.size(); ++i) {
        fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} |\n", histories[i], median(times[i]),
                   percentile(times[i], 0.99), median(times[i]) / median(times[0]));
        db.exec("select baton.drop_inbox('" + inboxes[i] + "', cascade => true)");
    }
    std::fflush(stdout);
}

void gaps(const std::string& url, long pending) {
    Connection db(url);
    db.exec("select baton.create_inbox('holes')");
    db.exec("select baton.enable_inbox_ordering('holes', sequence_num_col => 'sequence_num')");
    // of every aggregate's sequence each tenth message is missing
    put(db, "holes", 1, pending, "'a' || i % 10000", "(i / 10000) * 10 / 9 + 1", false);
    db.exec("vacuum analyze holes");
    long found = 0;
    std::vector<double> times;
    for (int i = 0; i < 5; ++i)
        times.push_back(seconds(
            [&] { found = std::stol(db.value("select count(*) from baton.inbox_ordering_gaps('holes')")); }));
    fmt::print(
        "\n## Finding gaps\n\n{} gaps among {} pending messages of 10,000 aggregates: {:.2f} s (median of "
        "5).\n",
        found, pending, median(times));
    std::fflush(stdout);
    db.exec("select baton.drop_inbox('holes', cascade => true)");
}

std::string size_of(Connection& db, const std::string& what) {
    return db.value("select pg_size_pretty(" + what + ")");
}

// Run messages through while two workers finish them and the jobs delete old ones; autovacuum is on.
void bloat(const std::string& url, long messages) {
    Connection db(url);
    db.exec("select baton.create_inbox('flow')");
    std::atomic<bool> filled{false};
    std::thread filler([&] {
        Connection mine(url);
        for (long sent = 0; sent < messages; sent += 10'000) {
            put(mine, "flow", sent + 1, sent + 10'000, "'a'", "null", false);
            while (std::stol(mine.value(
                       "select count(*) from (select from flow where processed_at is null limit 50001) n")) >
                   50'000)
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        filled = true;
    });
    std::atomic<long> done{0};
    std::vector<std::thread> workers;
    for (int w = 0; w < 2; ++w)
        workers.emplace_back([&, w] {
            Connection mine(url);
            mine.prepare(
                "step",
                "with c as materialized (select * from baton.claim_inbox('flow', 'w" + std::to_string(w) +
                    "', 500)) select baton.complete('flow', array_agg(c.event_id), (array_agg(c.lease_token))"
                    "[1]) from c having count(*) > 0");
            for (;;) {
                const bool last = filled;
                const auto answer = mine.run_prepared("step");
                if (!answer.empty())
                    done += std::stol(answer.text(0, 0));
                else if (last)
                    return;
            }
        });
    const double time = seconds([&] {
        filler.join();
        for (auto& worker : workers) worker.join();
    });
    const std::string table = size_of(db, "pg_relation_size('flow')"),
                      indexes = size_of(db, "pg_indexes_size('flow')");
    const std::string pending = size_of(db, "pg_relation_size('flow_pending')");
    db.exec("create table dense as select * from flow");
    const double ratio =
        std::stod(db.value("select pg_relation_size('flow')::float8 / pg_relation_size('dense')"));
    fmt::print(
        "\n## After {} messages ({} finished, {:.0f}/s in and out), autovacuum on\n\n"
        "| table | against the same rows written anew | all indexes | index of pending messages "
        "|\n|---|---|---|---|\n"
        "| {} | {:.2f} | {} | {} |\n",
        messages, done.load(), static_cast<double>(messages) / time, table, ratio, indexes, pending);
}

}  // namespace

int main() {
    std::string folder = (std::filesystem::temp_directory_path() / "baton-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) return 1;
    local_server::LocalServer server(
        {folder,
         0,
         true,
         true,
         {"shared_buffers = '1GB'", "max_wal_size = '8GB'", "checkpoint_timeout = '30min'",
          "max_connections = 100", "autovacuum_naptime = '10s'"}});
    try {
        server.create();
        server.start();
        const std::string url = server.url();
        Connection(url).exec("create extension baton");
        receiving(url);
        working(url);
        ordered_claims(url, setting("BATON_BENCH_PROCESSED", 10'000'000));
        gaps(url, setting("BATON_BENCH_PENDING", 1'000'000));
        bloat(url, setting("BATON_BENCH_FLOW", 5'000'000));
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        server.remove();
        return 1;
    }
    server.remove();
    return 0;
}
