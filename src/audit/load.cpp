#include "audit/load.hpp"

#include <algorithm>

#include "baton/error.hpp"

namespace baton::audit {

using namespace std::chrono_literals;
using postgres::Connection;

struct Load::Draft {
    std::vector<std::string> ids;         // of what will be committed
    std::vector<std::string> taken_back;  // of what a savepoint took back
    bool committing = false;              // from here on a broken connection leaves doubt
};

Load::Load(std::string db, std::string name, LoadPlan plan)
    : db_(std::move(db)),
      name_(std::move(name)),
      plan_(plan),
      padding_(static_cast<std::size_t>(std::max(plan.payload_bytes - 40, 0)), 'x') {}

Load::~Load() {
    stop();
}

void Load::create() {
    Connection db(db_, "baton audit");
    db.exec("create schema " + name_);
    const std::string age = std::to_string(plan_.retention.count()) + " milliseconds";
    if (plan_.retention.count() > 0)
        db.query("select baton.create_outbox('events', $1, partition_interval => $2, retention => $2)",
                 {name_, age});
    else
        db.query("select baton.create_outbox('events', $1)", {name_});
    db.exec("create table " + name_ + ".keys (key text primary key, number bigint not null default 0); " +
            "create table " + name_ +
            ".ledger (event_id text primary key, key text not null, number bigint not null)");
    // Two more: one for the transaction that is held open, one for bulk.
    db.query("insert into " + name_ + ".keys select 'key-' || i from generate_series(0, $1 + 1) i",
             {plan_.keys});
}

void Load::remove() {
    Connection db(db_, "baton audit");
    db.exec("set client_min_messages = warning");
    db.query("select baton.drop_outbox($1, if_exists => true, cascade => true)", {outbox()});
    db.exec("drop schema if exists " + name_ + " cascade");
}

void Load::start() {
    for (int i = 0; i < plan_.writers; ++i)
        threads_.emplace_back([this, i] { write(static_cast<unsigned>(i)); });
    threads_.emplace_back([this] { hold_open(); });
}

void Load::stop() {
    stopping_ = true;
    for (auto& thread : threads_) thread.join();
    threads_.clear();
}

std::string Load::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

bool Load::nap(std::chrono::milliseconds time) const {
    const auto until = Clock::now() + time;
    while (!stopping_ && Clock::now() < until)
        std::this_thread::sleep_for(std::min<Clock::duration>(20ms, until - Clock::now()));
    return !stopping_;
}

// Work on a connection until it is time to stop; when it breaks, on a new one.
template <class Work>
void Load::keep_going(Work work) {
    while (!stopping_) {
        try {
            Connection db(db_, "baton audit writer");
            while (!stopping_) work(db);
        } catch (const ConnectionError&) {
            nap(100ms);  // the server is away, perhaps on purpose
        } catch (const SqlError& error) {
            // Two writers wanted each other's keys, or the server is going down or coming up.
            const std::string& state = error.sqlstate();
            if (state == "40P01" || state.starts_with("57P0")) continue;
            const std::lock_guard lock(mutex_);
            failure_ = error.what();
            return;
        }
    }
}

void Load::write(unsigned number) {
    std::mt19937 random(plan_.seed + number);
    // A transaction has three events on average, and one in two is larger.
    const double events = 3.0 * (1 + (plan_.burst - 1) / 4.0);
    const double pause = events * plan_.writers / std::max(plan_.rate, 0.1) * 1000;
    std::exponential_distribution<double> spread(1.0 / pause);
    auto next = Clock::now();
    keep_going([&](Connection& db) {
        next += std::chrono::microseconds(static_cast<long>(spread(random) * 1000));
        const auto ahead = next - Clock::now();
        if (ahead > 0ms && !nap(std::chrono::duration_cast<std::chrono::milliseconds>(ahead))) return;
        if (ahead < -2s) next = Clock::now();
        transact(db, random);
    });
}

// One after the other, transactions that stay open for seconds while everybody else goes on.
void Load::hold_open() {
    keep_going([this](Connection& db) {
        Draft draft;
        try {
            db.exec("begin");
            publish(db, draft, plan_.keys, 1);
            nap(4s);
            publish(db, draft, plan_.keys, 2);
            finish(db, draft, true);
        } catch (...) {
            forget(draft);
            throw;
        }
        nap(500ms);
    });
}

// One transaction of any kind.
void Load::transact(Connection& db, std::mt19937& random) {
    const auto dice = [&random](int sides) {
        return static_cast<int>(random() % static_cast<unsigned>(sides));
    };
    const int kind = dice(100);
    const int times = plan_.burst > 1 && dice(2) == 0 ? 1 + dice(plan_.burst) : 1;
    Draft draft;
    try {
        db.exec("begin");
        // In the order of keys, so that seldom two wait for each other.
        int key = dice(plan_.keys);
        publish(db, draft, key, times * (1 + dice(3)));
        if (kind < 10) nap(std::chrono::milliseconds(dice(150)));
        if (kind >= 20 && kind < 32) {  // a part is taken back
            db.exec("savepoint part");
            Draft part;
            publish(db, part, dice(plan_.keys), times * (1 + dice(2)));
            draft.taken_back.insert(draft.taken_back.end(), part.ids.begin(), part.ids.end());
            db.exec("rollback to part");
            publish(db, draft, key, 1);
        } else if (kind == 32 && dice(3) == 0) {  // bulk
            publish(db, draft, plan_.keys + 1, 200);
        } else if (kind > 60 && key + 1 < plan_.keys) {
            key += 1 + dice(plan_.keys - key - 1);
            publish(db, draft, key, times * (1 + dice(2)));
        }
        finish(db, draft, kind >= 20 || kind < 10);
    } catch (...) {
        forget(draft);
        throw;
    }
}

// Publish events of a key with its next numbers.
void Load::publish(Connection& db, Draft& draft, int key, int count) {
    const auto rows = db.query(
        "with own as (update " + name_ +
            ".keys set number = number + $2 where key = $1 returning key, number), numbered as (select key, "
            "number - $2 + i as number from own, generate_series(1, $2::int) i order by i), published as "
            "(insert into " +
            name_ +
            ".events (event_type, partition_key, payload) select 'audited', key, jsonb_build_object('key', "
            "key, "
            "'number', number, 'padding', $3::text) from numbered order by number returning event_id, "
            "partition_key, (payload ->> 'number')::bigint) insert into " +
            name_ + ".ledger select * from published returning event_id",
        {"key-" + std::to_string(key), count, padding_});
    for (int row = 0; row < rows.rows(); ++row) draft.ids.push_back(rows.text(row, 0));
}

void Load::finish(Connection& db, Draft& draft, bool commit) {
    if (!commit) {
        db.exec("rollback");
        return forget(draft);
    }
    draft.committing = true;
    db.exec("commit");
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    for (const auto& id : draft.ids) commits_.emplace(id, now);
    rolled_back_.insert(draft.taken_back.begin(), draft.taken_back.end());
    committed_ += static_cast<long>(draft.ids.size());
    draft = {};
}

// Note what was rolled back; what was being committed when the connection broke is left to the ledger.
void Load::forget(const Draft& draft) {
    const std::lock_guard lock(mutex_);
    rolled_back_.insert(draft.taken_back.begin(), draft.taken_back.end());
    (draft.committing ? in_doubt_ : rolled_back_).insert(draft.ids.begin(), draft.ids.end());
}

void Load::testify(Facts& facts) const {
    Connection db(db_, "baton audit");
    const auto rows = db.query("select event_id, key, number from " + name_ + ".ledger");
    const std::lock_guard lock(mutex_);
    for (int row = 0; row < rows.rows(); ++row) {
        const std::string id = rows.text(row, 0);
        Written written{rows.text(row, 1), rows.number<long>(row, 2), {}};
        if (const auto found = commits_.find(id); found != commits_.end()) written.committed = found->second;
        if (rolled_back_.contains(id)) throw Error("the ledger has " + id + ", which was rolled back");
        facts.committed.emplace(id, std::move(written));
    }
    for (const auto& id : in_doubt_)
        if (!facts.committed.contains(id))
            (plan_.database_may_lose ? facts.taken_back : facts.rolled_back).insert(id);
    for (const auto& [id, at] : commits_) {
        if (facts.committed.contains(id)) continue;
        if (!plan_.database_may_lose)
            throw Error("the database has lost " + id + ", which it said was committed",
                        "look at fsync, full_page_writes and the disks");
        facts.taken_back.insert(id);
    }
    facts.rolled_back.insert(rolled_back_.begin(), rolled_back_.end());
}

}  // namespace baton::audit
