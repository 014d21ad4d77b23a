#include "audit/load.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/error.hpp"

namespace baton::audit {

using namespace std::chrono_literals;
using postgres::Connection;

struct Load::Draft {
    std::vector<Range> events;      // will be committed
    std::vector<Range> taken_back;  // by a savepoint
    bool committing = false;        // from here on a broken connection leaves doubt
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
    db.exec(
        "create table " + name_ + ".keys (key text primary key, number bigint not null default 0); " +
        "create table " + name_ +
        ".ledger (first bigint primary key, events int not null, key text not null, number bigint not null)");
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
            publish(db, draft.events, plan_.keys, 1, Way::insert);
            nap(4s);
            publish(db, draft.events, plan_.keys, 2, Way::insert);
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
    // A list that is to be parsed is the slowest for many events, and COPY for few.
    const int luck = dice(20);
    const Way way = luck == 0 ? Way::publish_many : luck < (times > 1 ? 16 : 2) ? Way::copy : Way::insert;
    Draft draft;
    try {
        db.exec("begin");
        // In the order of keys, so that seldom two wait for each other.
        int key = dice(plan_.keys);
        publish(db, draft.events, key, times * (1 + dice(3)), way);
        if (kind < 10) nap(std::chrono::milliseconds(dice(150)));
        if (kind >= 20 && kind < 32) {  // a part is taken back
            db.exec("savepoint part");
            publish(db, draft.taken_back, dice(plan_.keys), times * (1 + dice(2)), way);
            db.exec("rollback to part");
            publish(db, draft.events, key, 1, Way::insert);
        } else if (kind == 32 && dice(3) == 0) {  // bulk
            publish(db, draft.events, plan_.keys + 1, 200, Way::insert);
        } else if (kind > 60 && key + 1 < plan_.keys) {
            key += 1 + dice(plan_.keys - key - 1);
            publish(db, draft.events, key, times * (1 + dice(2)), way);
        }
        finish(db, draft, kind >= 20 || kind < 10);
    } catch (...) {
        forget(draft);
        throw;
    }
}

// Take the key's next numbers and write the ledger, and the events where they are inserted. Not prepared: a
// pool gives the next statement another session.
std::string Load::statement(Way way) const {
    std::string sql = fmt::format(
        "with own as (update {0}.keys set number = number + $2::int where key = $1 returning number - "
        "$2::int as "
        "number), noted as (insert into {0}.ledger select $3::bigint, $2::int, $1, number + 1 from own)",
        name_);
    if (way == Way::insert)
        sql += fmt::format(
            ", published as (insert into {}.events (event_id, event_type, partition_key, "
            "payload) select ($4::text || lpad(to_hex($3::bigint + i - 1), {}, '0'))::uuid, "
            "'audited', $1, jsonb_build_object('key', $1, 'number', number + i, 'padding', "
            "$5::text) from own, generate_series(1, $2::int) i order by i)",
            name_, Names::digits);
    return sql + " select number + 1 from own";
}

// Publish events of a key with its next numbers.
void Load::publish(Connection& db, std::vector<Range>& ranges, int key, int count, Way way) {
    const Range range = begin_events(key, count);
    ranges.push_back(range);
    postgres::Params params{"key-" + std::to_string(key), count, static_cast<long>(range.first)};
    if (way == Way::insert) {
        params.emplace_back(names_.prefix());
        params.emplace_back(padding_);
    }
    const auto number = db.query(statement(way), params).number<long>(0, 0);
    number_events(range, number);
    if (way == Way::publish_many) publish_many(db, range, key, number);
    if (way == Way::copy) copy(db, range, key, number);
}

std::string Load::payload(int key, long number) const {
    return fmt::format(R"({{"key": "key-{}", "number": {}, "padding": "{}"}})", key, number, padding_);
}

void Load::publish_many(Connection& db, Range range, int key, long number) const {
    std::string list = "[";
    for (Index i = 0; i < range.count; ++i)
        list += fmt::format(
            R"({}{{"event_id": "{}", "event_type": "audited", "partition_key": "key-{}", "payload": {}}})",
            i == 0 ? "" : ",", names_.id(range.first + i), key, payload(key, number + i));
    db.query("select count(*) from baton.publish_many($1, $2)", {outbox(), list + "]"});
}

void Load::copy(Connection& db, Range range, int key, long number) const {
    Index i = 0;
    db.copy_in("copy " + outbox() + " (event_id, event_type, partition_key, payload) from stdin",
               [&](std::string& chunk) {
                   for (const Index end = std::min(i + 500, range.count); i < end; ++i)
                       fmt::format_to(std::back_inserter(chunk), "{}\taudited\tkey-{}\t{}\n",
                                      names_.id(range.first + i), key, payload(key, number + i));
                   return !chunk.empty();
               });
}

// Books are opened before anything is sent: whatever is seen of these events later, they are known.
Load::Range Load::begin_events(int key, int count) {
    const std::lock_guard lock(mutex_);
    const Range range{static_cast<Index>(events_.size()), static_cast<Index>(count)};
    Event event;
    event.key = static_cast<std::uint32_t>(key);
    events_.insert(events_.end(), range.count, event);
    return range;
}

void Load::number_events(Range range, long first) {
    const std::lock_guard lock(mutex_);
    for (Index i = 0; i < range.count; ++i)
        events_[range.first + i].number = static_cast<std::uint32_t>(first) + i;
}

void Load::settle(const std::vector<Range>& ranges, Fate fate, Clock::time_point at) {
    const std::lock_guard lock(mutex_);
    for (const Range& range : ranges)
        for (Index i = range.first; i < range.first + range.count; ++i) {
            events_[i].fate = fate;
            events_[i].committed = at;
        }
}

void Load::finish(Connection& db, Draft& draft, bool commit) {
    if (!commit) {
        db.exec("rollback");
        return forget(draft);
    }
    draft.committing = true;
    db.exec("commit");
    settle(draft.events, Fate::committed, Clock::now());
    settle(draft.taken_back, Fate::rolled_back);
    for (const Range& range : draft.events) committed_ += range.count;
    draft = {};
}

// Note what was rolled back; what was being committed when the connection broke is left to the ledger.
void Load::forget(const Draft& draft) {
    settle(draft.events, draft.committing ? Fate::in_doubt : Fate::rolled_back);
    settle(draft.taken_back, Fate::rolled_back);
}

void Load::testify(Facts& facts) {
    compare_with_ledger();
    facts.names = names_;
    for (int key = 0; key < plan_.keys + 2; ++key) facts.keys.push_back("key-" + std::to_string(key));
    facts.events = std::exchange(events_, {});
}

// The ledger has the last word.
void Load::compare_with_ledger() {
    Connection db(db_, "baton audit");
    const auto rows = db.query("select first, events, key, number from " + name_ + ".ledger");
    std::vector<bool> noted(events_.size());
    for (int row = 0; row < rows.rows(); ++row)
        for (Index i = 0; i < rows.number<Index>(row, 1); ++i) {
            const Index index = rows.number<Index>(row, 0) + i;
            const Event& event = events_.at(index);
            if (rows.view(row, 2) != "key-" + std::to_string(event.key) ||
                rows.number<Index>(row, 3) + i != event.number)
                throw Error("the ledger has " + names_.id(index) + " under another number than was given");
            noted[index] = true;
        }
    for (Index index = 0; index < events_.size(); ++index) {
        Event& event = events_[index];
        if (noted[index] && event.fate == Fate::rolled_back)
            throw Error("the ledger has " + names_.id(index) + ", which was rolled back");
        if (noted[index]) {
            event.fate = Fate::committed;
        } else if (event.fate == Fate::in_doubt) {
            event.fate = plan_.database_may_lose ? Fate::taken_back : Fate::rolled_back;
        } else if (event.fate == Fate::committed) {
            if (!plan_.database_may_lose)
                throw Error("the database has lost " + names_.id(index) + ", which it said was committed",
                            "look at fsync, full_page_writes and the disks");
            event.fate = Fate::taken_back;
        }
    }
}

}  // namespace baton::audit
