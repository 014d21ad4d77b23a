#include "audit/sleeper.hpp"

#include <algorithm>

#include "baton/error.hpp"

namespace baton::audit {

using namespace std::chrono_literals;
using postgres::Connection;

namespace {

constexpr auto sleep_time = 9s;
constexpr auto maintenance_pause = 250ms;
constexpr int visibility_seconds = 5;  // a batch whose server died comes again soon

}  // namespace

long count_unsettled(const std::string& db, const std::string& group) {
    try {
        Connection connection(db, "baton audit");
        return std::stol(connection.value(
            "select coalesce((select max(lag_rows) from baton.group_lag where group_name = $1), 0) + "
            "(select count(*) from baton_internal.parked join baton.consumer_groups using (group_id) where "
            "group_name = $1 and state <> 'dead')",
            {group}));
    } catch (const ConnectionError&) {
        return -1;
    }
}

void Sleeper::start() {
    // A lease that is lost with a server is no fault of its events.
    Connection(db_, "baton audit")
        .query(
            "select baton.create_consumer_group($1, $2, 'earliest', ordered => true, max_attempts => "
            "1000000)",
            {group_, outbox_});
    threads_.emplace_back([this] { keep_going(sleep_time, [this](Connection& db) { read_on(db); }); });
    threads_.emplace_back(
        [this] { keep_going(maintenance_pause, [this](Connection& db) { maintain(db); }); });
}

void Sleeper::stop() {
    stopping_ = true;
    for (auto& thread : threads_) thread.join();
    threads_.clear();
}

void Sleeper::finish(std::chrono::milliseconds limit) {
    stop();
    for (auto moved = Clock::now(); Clock::now() - moved < limit; std::this_thread::sleep_for(20ms)) {
        const auto before = arrived_.count();
        try {
            Connection db(db_, "baton audit");
            read_on(db);
        } catch (const ConnectionError&) {
        }
        if (arrived_.count() > before)
            moved = Clock::now();
        else if (count_unsettled(db_, group_) == 0)
            break;
    }
    Connection db(db_, "baton audit");
    maintain(db);
    const auto error =
        db.value("select coalesce(maintenance_error, '') from baton.outboxes where relation = $1::regclass",
                 {outbox_});
    if (!error.empty()) failure_ = "maintenance: " + error;
}

std::string Sleeper::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

Arrivals Sleeper::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(arrived_, {});
}

bool Sleeper::nap(std::chrono::milliseconds time) const {
    const auto until = Clock::now() + time;
    while (!stopping_ && Clock::now() < until)
        std::this_thread::sleep_for(std::min<Clock::duration>(20ms, until - Clock::now()));
    return !stopping_;
}

// Work again and again, on a new connection when one breaks.
void Sleeper::keep_going(std::chrono::milliseconds pause, const std::function<void(Connection&)>& work) {
    while (nap(100ms)) {
        try {
            Connection db(db_, "baton audit");
            while (nap(pause)) work(db);
        } catch (const ConnectionError&) {  // the server is away, perhaps on purpose
        } catch (const LeaseLost&) {        // it was, for longer than the lease
        } catch (const SqlError& error) {
            if (error.sqlstate().starts_with("57P0")) continue;
            const std::lock_guard lock(mutex_);
            failure_ = error.what();
            return;
        }
    }
}

// Take all that there is, and settle it.
void Sleeper::read_on(Connection& db) {
    for (;;) {
        const auto batch =
            db.query("select event_id, id, lease_token from baton.poll_outbox($1, 'sleeper', 5000, $2)",
                     {group_, visibility_seconds});
        if (batch.empty()) return;
        {
            const std::lock_guard lock(mutex_);
            for (int row = 0; row < batch.rows(); ++row) arrived_.add(names_, batch.view(row, 0));
        }
        db.query("select baton.commit_offset($1, 'sleeper', $2::bigint, $3::uuid)",
                 {group_, batch.text(batch.rows() - 1, 1), batch.text(0, 2)});
    }
}

// Partitions are numbered by the ranges of their ids, so the first one that is there tells how many are gone.
void Sleeper::maintain(Connection& db) {
    db.exec("call baton.run_maintenance(" + db.escape_literal(outbox_) + ")");
    retired_ = std::stol(db.value(
        "select coalesce(min(p.first_id) / 1000000000, 0) from baton_internal.outbox_partitions p join "
        "baton.outboxes o using (outbox_id) where o.relation = $1::regclass",
        {outbox_}));
}

}  // namespace baton::audit
