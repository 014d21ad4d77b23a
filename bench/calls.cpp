// What the calls cost that people make from SQL, beside the bare statement that does the same: in both
// install forms, as ratios of rounds in turn. Processor time is that of the session's own process, without
// the commit; rates are of single statements that commit by themselves, from one session that does not wait
// for the disk. BATON_BENCH_ROUNDS sets the number of rounds (default 25).

#include <fmt/core.h>

#include "kit/measure.hpp"
#include "kit/stand.hpp"

namespace {

using namespace baton;
using namespace baton::bench;
using namespace baton::postgres;

struct Way {
    std::string name;
    std::string statement;
};

// The first way is the one that the others are compared with.
struct Comparison {
    std::string what;
    int calls;  // in one go
    int rows;   // per call
    std::vector<Way> ways;
};

struct Figures {
    std::vector<double> microseconds, rates;
};

int rounds() {
    const char* given = std::getenv("BATON_BENCH_ROUNDS");
    return given != nullptr ? std::atoi(given) : 25;
}

double processor_time_of(Connection& db, const std::string& name, int calls) {
    db.exec("begin");
    for (int i = 0; i < 10; ++i) db.run_prepared(name);
    const double before = processor_time(db.backend_pid());
    for (int i = 0; i < calls; ++i) db.run_prepared(name);
    const double taken = processor_time(db.backend_pid()) - before;
    db.exec("rollback");
    return taken / calls;
}

double rate_of(Connection& db, const std::string& name, int calls) {
    return calls / seconds([&] {
               for (int i = 0; i < calls; ++i) db.run_prepared(name);
           });
}

// The median over the rounds of one way's figure divided by that of the first.
double against_first(const std::vector<double>& figures, const std::vector<double>& first, bool is_time) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < figures.size(); ++i)
        ratios.push_back(is_time ? first[i] / figures[i] : figures[i] / first[i]);
    return median(ratios);
}

void compare(Connection& db, const char* form, const Comparison& comparison) {
    for (const auto& way : comparison.ways) db.prepare(way.name, way.statement);
    std::vector<Figures> figures(comparison.ways.size());
    for (int round = -1; round < rounds(); ++round)
        for (std::size_t i = 0; i < figures.size(); ++i) {
            const std::string& name = comparison.ways[i].name;
            const double time = processor_time_of(db, name, comparison.calls);
            const double rate = rate_of(db, name, comparison.calls);
            if (round < 0) continue;  // warms caches
            figures[i].microseconds.push_back(time / comparison.rows);
            figures[i].rates.push_back(rate * comparison.rows);
        }
    for (std::size_t i = 0; i < figures.size(); ++i)
        fmt::print("| {} | {} | {} | {:.1f} | {:.2f} | {:.0f} | {:.2f} |\n", form, comparison.what,
                   comparison.ways[i].name, median(figures[i].microseconds),
                   against_first(figures[i].microseconds, figures[0].microseconds, true),
                   median(figures[i].rates), against_first(figures[i].rates, figures[0].rates, false));
    std::fflush(stdout);
    db.exec("deallocate all");
}

const std::string body = "jsonb_build_object('note', repeat('x', 240))";

Comparison publishing() {
    return {"publish",
            100,
            1,
            {{"prepared INSERT",
              "insert into events (event_type, aggregate_id, payload) values ('order.placed', 'a1', " + body +
                  ") returning id"},
             {"the outbox's function",
              "select baton_internal.publish_1('order.placed', " + body + ", aggregate_id => 'a1')"},
             {"publish()",
              "select baton.publish('events', 'order.placed', " + body + ", aggregate_id => 'a1')"}}};
}

std::string hundred(const std::string& members) {
    return "(select jsonb_agg(jsonb_build_object(" + members + ", 'aggregate_id', 'a' || i, 'payload', " +
           body + ")) from generate_series(1, 100) i)";
}

Comparison publishing_many() {
    const std::string events = hundred("'event_type', 'order.placed'");
    return {"publish, 100 events",
            10,
            100,
            {{"prepared INSERT",
              "with e as (insert into events (event_type, aggregate_id, payload) select m.event_type, "
              "m.aggregate_id, m.payload from jsonb_to_recordset(" +
                  events +
                  ") as m (event_type text, aggregate_id text, payload jsonb) returning id) select count(*) "
                  "from e"},
             {"the outbox's function", "select count(*) from baton_internal.publish_many_1(" + events + ")"},
             {"publish_many()", "select count(*) from baton.publish_many('events', " + events + ")"}}};
}

Comparison receiving() {
    const std::string message = "('m' || nextval('numbers'), 'paid', " + body;
    return {"receive",
            100,
            1,
            {{"bare INSERT", "insert into bare (event_id, event_type, payload, aggregate_id) values " +
                                 message + ", 'a') on conflict do nothing"},
             {"INSERT into the inbox",
              "insert into payments (event_id, event_type, payload, aggregate_id) values " + message +
                  ", 'a') on conflict do nothing"},
             {"the inbox's function", "select baton_internal.receive_1" + message + ", aggregate_id => 'a')"},
             {"receive()", "select baton.receive('payments', 'm' || nextval('numbers'), 'paid', " + body +
                               ", aggregate_id => 'a')"}}};
}

Comparison receiving_many() {
    const std::string messages =
        hundred("'event_id', 'm' || nextval('numbers') || '-' || i, 'event_type', 'paid'");
    return {"receive, 100 messages",
            5,
            100,
            {{"bare INSERT",
              "insert into bare (event_id, event_type, aggregate_id, payload) select m.event_id, "
              "m.event_type, m.aggregate_id, m.payload from jsonb_to_recordset(" +
                  messages +
                  ") as m (event_id text, event_type text, aggregate_id text, payload jsonb) on conflict do "
                  "nothing"},
             {"receive_many()", "select count(*) from baton.receive_many('payments', " + messages + ")"}}};
}

Comparison polling() {
    return {"poll that finds nothing",
            40,
            1,
            {{"SELECT 1", "select 1"}, {"poll_outbox()", "select * from baton.poll_outbox('g', 'c')"}}};
}

void print_form(Stand& stand) {
    Connection db = stand.fresh();
    db.exec("set synchronous_commit = off");
    db.exec(
        "select baton.create_outbox('events'); select baton.create_inbox('payments'); create sequence "
        "numbers "
        "cache 1000; create table bare (event_id text primary key, event_type text not null, aggregate_id "
        "text, payload jsonb, received_at timestamptz not null default clock_timestamp(), processed_at "
        "timestamptz); create index on bare (received_at) where processed_at is null");
    for (const auto& comparison : {publishing(), publishing_many(), receiving(), receiving_many()})
        compare(db, stand.form(), comparison);
    db.exec("select baton.create_consumer_group('g', 'events', 'latest')");
    db.query("select * from baton.poll_outbox('g', 'c')");
    compare(db, stand.form(), polling());
}

}  // namespace

int main() {
    try {
        const char* module = std::getenv("BATON_MODULE");
        if (module == nullptr) throw Error("BATON_MODULE is not set: use bench/run calls");
        fmt::print(
            "One session; payloads of 250 bytes. Processor time is the session's, without the commit, a "
            "round "
            "trip of 7 to 10 us included; the rate is of statements that commit, with synchronous_commit "
            "off. Ratios are medians of {} "
            "rounds in turn, above 1 where the call is cheaper than the first line.\n\n"
            "| form | what | way | us of processor time | against the first | rows/s | against the first |\n"
            "|---|---|---|---|---|---|---|\n",
            rounds());
        for (const Form form : {Form::extension, Form::plain}) {
            Stand stand(LocalServer::share_folder(), module, form);
            print_form(stand);
        }
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
    return 0;
}
