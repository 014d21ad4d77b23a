// What finding work costs, and what the door costs a publisher: with few and many partitions, a backlog,
// parked events; in both install forms. BATON_BENCH_BEFORE names the build folder of another commit
// (share/baton and lib/baton.so): its figures then stand first, from rounds in turn with this one's. All of
// it is processor time of the session's own process, which other work on the machine disturbs least.

#include <fmt/core.h>

#include "kit/measure.hpp"
#include "kit/stand.hpp"

namespace {

using namespace baton;
using namespace baton::bench;
using namespace baton::postgres;

// The same form of both builds, that of before first; or this one's alone.
using Stands = std::vector<std::unique_ptr<Stand>>;

void settle_all(Connection& db) {
    while (db.value("select count(*) from baton.poll_outbox('g', 'c', 1000)") != "0")
        db.exec(
            "select baton.commit_offset('g', 'c', max(upto_id), lease_token) from baton_internal.pieces "
            "group by lease_token");
}

void make_log(Connection& db) {
    db.exec(
        "select baton.create_outbox('events'); select baton.create_consumer_group('g', 'events', "
        "'earliest')");
    for (int i = 0; i < 5; ++i) {
        db.exec("insert into events (event_type) select 'e' from generate_series(1, 20)");
        settle_all(db);
    }
}

void add_partitions(Connection& db, int partitions) {
    for (int i = 0; i < partitions; ++i) {
        db.exec(
            "select baton_internal.add_partition(o) from baton.outboxes o; select setval('events_id_seq', "
            "(last_value / 1000000000 + 1) * 1000000000) from events_id_seq; insert into events "
            "(event_type) values ('e')");
        settle_all(db);
    }
}

// What a relay sends to find its next window, prepared as `open`; returns its values.
Params prepare_open(Connection& db) {
    db.exec(
        "set enable_seqscan = off; set enable_sort = off; set "
        "enable_bitmapscan = off; set jit = off");
    const auto taken = db.query("select * from baton_internal.take_group('g', 'a relay', '1 h')");
    const auto text = [&taken](const char* name) { return taken.optional_text(0, taken.column(name)); };
    db.prepare("open", *text("open_sql"));
    Params values{text("group_id"), 99, text("era"), text("seen")};
    for (const char* name : {"fresh_id", "fresh_xid", "late_id"})
        if (db.value("select to_regclass('baton_internal.stray_events') is not null") == "t")
            values.push_back(text(name));
    db.query("select baton_internal.release_group($1, $2)", {text("group_id"), text("epoch")});
    return values;
}

// What an action takes, the median of so many, in turn with the other stand's.
std::vector<double> in_turn(std::vector<Connection>& sessions, int rounds,
                            const std::function<double(std::size_t)>& measure) {
    std::vector<std::vector<double>> times(sessions.size());
    for (int round = 0; round < rounds; ++round)
        for (std::size_t i = 0; i < sessions.size(); ++i) times[i].push_back(measure(i));
    std::vector<double> middles;
    for (const auto& each : times) middles.push_back(median(each));
    return middles;
}

// "before", "now" and their ratio; or "now" alone.
std::string cells(const std::vector<double>& values, int digits) {
    std::string row;
    for (const double value : values) row += fmt::format(" {:.{}f} |", value, digits);
    if (values.size() == 2) row += fmt::format(" {:.2f} |", values[1] / values[0]);
    return row;
}

std::string heads(const Stands& stands, const std::string& what) {
    return stands.size() == 2 ? " " + what + ", before | now | now / before |" : " " + what + " |";
}

std::string rules(const Stands& stands) {
    return stands.size() == 2 ? "---|---|---|" : "---|";
}

std::vector<Connection> make_sessions(const Stands& stands) {
    std::vector<Connection> sessions;
    for (const auto& stand : stands) {
        sessions.push_back(stand->fresh());
        make_log(sessions.back());
    }
    return sessions;
}

// A look for work by a consumer and by a relay, while other transactions go on.
void print_looks(std::vector<Connection>& sessions, const char* form, const std::string& label, int rounds,
                 bool with_relay) {
    const auto timed = [&](std::size_t i, const std::function<void()>& look) {
        sessions[i].exec("select pg_current_xact_id()");
        sessions[i].exec("begin");
        const double before = processor_time(sessions[i].backend_pid());
        look();
        const double taken = processor_time(sessions[i].backend_pid()) - before;
        sessions[i].exec("rollback");
        return taken;
    };
    for (auto& db : sessions) {
        db.exec("deallocate all");
        db.prepare("poll", "select * from baton.poll_outbox('g', 'c', 100)");
    }
    fmt::print(
        "| {} | {} |{}", form, label,
        cells(in_turn(sessions, rounds,
                      [&](std::size_t i) { return timed(i, [&] { sessions[i].run_prepared("poll"); }); }),
              0));
    if (with_relay) {
        std::vector<Params> values;
        for (auto& db : sessions) values.push_back(prepare_open(db));
        fmt::print("{}", cells(in_turn(sessions, rounds,
                                       [&](std::size_t i) {
                                           return timed(i,
                                                        [&] { sessions[i].run_prepared("open", values[i]); });
                                       }),
                               0));
        for (auto& db : sessions) db.exec("reset all");
    }
    fmt::print("\n");
    std::fflush(stdout);
}

void by_partitions(const Stands& stands) {
    auto sessions = make_sessions(stands);
    int partitions = 3;
    for (const int wanted : {3, 30, 120}) {
        for (auto& db : sessions) add_partitions(db, wanted - partitions);
        partitions = wanted;
        print_looks(sessions, stands[0]->form(), std::to_string(wanted), 200, true);
    }
}

void by_backlog(const Stands& stands) {
    auto sessions = make_sessions(stands);
    long events = 0;
    for (const long wanted : {1'000L, 1'000'000L}) {
        for (auto& db : sessions) {
            db.query(
                "insert into events (event_type, partition_key, payload) select 'e', 'k' || i % 1000, '{}' "
                "from "
                "generate_series(1, $1::bigint) i",
                {wanted - events});
            db.exec("vacuum analyze events");
        }
        events = wanted;
        print_looks(sessions, stands[0]->form(), std::to_string(wanted), 9, true);
    }
}

void by_parked(const Stands& stands) {
    auto sessions = make_sessions(stands);
    long events = 0;
    for (const long wanted : {10L, 30'000L}) {
        for (auto& db : sessions) {
            db.query(
                "insert into events (event_type, partition_key, available_at) select 'e', 'k' || i, now() + "
                "interval '1 day' from generate_series(1, $1::bigint) i",
                {wanted - events});
            settle_all(db);
            while (db.value("select count(*) from baton_internal.parked") != std::to_string(wanted))
                db.query("select * from baton.poll_outbox('g', 'c', 1000)");
            db.exec("vacuum analyze");
        }
        events = wanted;
        print_looks(sessions, stands[0]->form(), std::to_string(wanted), 200, false);
    }
}

// Microseconds of processor time per event, with the door, and as a ratio to an outbox whose door is open.
void by_door(const Stands& stands) {
    std::vector<Connection> sessions;
    for (const auto& stand : stands) sessions.push_back(stand->fresh());
    for (const std::string type : {"json", "jsonb"}) {
        for (auto& db : sessions)
            for (const std::string& outbox : {"guarded_" + type, "open_" + type})
                db.exec("select baton.create_outbox('" + outbox + "', payload_type => '" + type + "')");
        for (auto& db : sessions) db.exec("alter table open_" + type + " disable trigger baton_event");
        for (const int rows : {1, 100}) {
            const auto per_event = [&](std::size_t i, const std::string& outbox) {
                Connection& db = sessions[i];
                const int statements = rows == 1 ? 1000 : 30;
                const std::string name = outbox + std::to_string(rows);
                db.exec("begin");
                for (int n = 0; n < 20; ++n) db.run_prepared(name);
                const double before = processor_time(db.backend_pid());
                for (int n = 0; n < statements; ++n) db.run_prepared(name);
                const double taken = processor_time(db.backend_pid()) - before;
                db.exec("rollback");
                return taken / (statements * rows);
            };
            for (auto& db : sessions)
                for (const std::string& outbox : {"guarded_" + type, "open_" + type})
                    db.prepare(
                        outbox + std::to_string(rows),
                        "insert into " + outbox +
                            " (event_type, aggregate_type, aggregate_id, payload) select 'order.placed', "
                            "'Order', "
                            "i::text, ('{\"n\": ' || i || ', \"note\": \"' || repeat('x', 240) || '\"}')::" +
                            type + " from generate_series(1, " + std::to_string(rows) + ") i");
            std::vector<std::vector<double>> ratios(sessions.size());
            const auto guarded = in_turn(sessions, 31, [&](std::size_t i) {
                const double with = per_event(i, "guarded_" + type);
                ratios[i].push_back(with / per_event(i, "open_" + type));
                return with;
            });
            std::vector<double> against_open;
            for (const auto& each : ratios) against_open.push_back(median(each));
            fmt::print("| {} | {} | {} |{}{}\n", stands[0]->form(), type, rows, cells(guarded, 1),
                       cells(against_open, 2));
            std::fflush(stdout);
        }
    }
}

void print_pages(const std::vector<Stands>& forms) {
    const Stands& any = forms[0];
    const auto table = [&](const std::string& title, const std::string& first, void (*part)(const Stands&),
                           bool with_relay) {
        fmt::print("\n## {}\n\n| form | {} |{}{}\n|---|---|{}{}\n", title, first, heads(any, "poll, us"),
                   with_relay ? heads(any, "a relay's statement, us") : "", rules(any),
                   with_relay ? rules(any) : "");
        for (const auto& stands : forms) part(stands);
    };
    table("A look for work that finds nothing", "partitions", by_partitions, true);
    table("A look for work that finds a backlog (polls take 100 events)", "events", by_backlog, true);
    table("A look for work that finds nothing, with parked events", "parked", by_parked, false);
    fmt::print(
        "\n## The door: processor time per event of 300 bytes, without the commit\n\n| form | payload | rows "
        "in the "
        "insert |{}{}\n|---|---|---|{}{}\n",
        heads(any, "microseconds"), heads(any, "against no door"), rules(any), rules(any));
    for (const auto& stands : forms) by_door(stands);
}

}  // namespace

int main() {
    try {
        const char* before = std::getenv("BATON_BENCH_BEFORE");
        const fs::path share = LocalServer::share_folder();
        const char* module = std::getenv("BATON_MODULE");
        if (module == nullptr) throw Error("BATON_MODULE is not set: use bench/run costs");
        const fs::path here = module;
        std::vector<Stands> forms;
        for (const Form form : {Form::extension, Form::plain}) {
            Stands& stands = forms.emplace_back();
            if (before != nullptr)
                stands.push_back(std::make_unique<Stand>(fs::path(before) / "share/baton",
                                                         fs::path(before) / "lib/baton.so", form));
            stands.push_back(std::make_unique<Stand>(share, here, form));
        }
        print_pages(forms);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
    return 0;
}
