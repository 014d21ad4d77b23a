#include "isolation/outbox_workload.hpp"

#include <random>

namespace baton::test {

namespace {

constexpr int keys = 60;

int dice(unsigned& seed, int sides) {
    return static_cast<int>(static_cast<unsigned>(::rand_r(&seed)) % static_cast<unsigned>(sides));
}

// Publish one event for a key, taking the key's next version under its row lock.
std::string publish_sql(const std::string& outbox, int key, int count = 1) {
    return "with v as (update key_versions set version = version + " + std::to_string(count) +
           " where key = 'k" + std::to_string(key) +
           "' returning key, version), numbered as (select key, version - " + std::to_string(count) +
           " + i as version, nextval('event_numbers') as number from v, generate_series(1, " +
           std::to_string(count) +
           ") i order by i), booked as (insert into ledger select number, key from numbered) insert into " +
           outbox +
           " (event_type, partition_key, payload) select 'test', key, jsonb_build_object('number', number, "
           "'version', version) "
           "from numbered order by version";
}

}  // namespace

void Journal::handled(Handled event) {
    const std::lock_guard lock(mutex_);
    const auto settled = settled_.find(event.event);
    if (settled != settled_.end() && settled->second < event.polled_at) ++revived_;
    handled_.push_back(std::move(event));
}

void Journal::settled(const std::string& event) {
    const std::lock_guard lock(mutex_);
    settled_.emplace(event, settled_.size());
}

std::size_t Journal::moment() const {
    const std::lock_guard lock(mutex_);
    return settled_.size();
}

std::string untrue_floors(Connection& db) {
    return db.value(R"(
        with known as (
            select distinct on (p.group_id) p.*, g.outbox_id,
                   (select coalesce(max(o.last_id), 0) from baton_internal.outbox_eras o
                     where o.outbox_id = g.outbox_id) as last_of_past
              from baton_internal.group_positions p join baton.consumer_groups g using (group_id)
              join baton_internal.outbox_eras e on e.outbox_id = g.outbox_id and e.era = p.era and e.last_id is null
             order by p.group_id, p.generation desc),
        expected as (
            select e.* from events e
             where not exists (select from baton_internal.stray_events s where s.xid = e.xid and s.id = e.id)),
        untrue as (
            select k.group_id, 'floor' as what, e.id from known k join expected e
                on e.xid >= k.fresh_xid and e.id <= k.fresh_id and e.id > k.last_of_past
            union all
            select k.group_id, 'late_id', e.id from known k join expected e
                on not pg_visible_in_snapshot(e.xid, k.seen) and e.id <= k.late_id and e.id > k.last_of_past
            union all
            select k.group_id, 'start_id', e.id from known k join baton_internal.windows w using (group_id, era)
              join events e on pg_visible_in_snapshot(e.xid, w.sight) and not pg_visible_in_snapshot(e.xid, w.seen)
               and e.id < w.start_id and e.id > k.last_of_past and pg_snapshot_xmax(w.seen) <> '3'
            union all
            select k.group_id, 'mark', k.fresh_id from known k
             where k.fresh_id > pg_sequence_last_value(baton_internal.floor_sequence(k.outbox_id)))
        select coalesce(string_agg(format('group %s: %s, id %s', u.group_id, u.what, u.id), '; '), '')
          from (select * from untrue order by id limit 10) u)");
}

std::string GroupReader::poll(int batch) {
    const auto rows =
        db_.query("select id, lease_token from baton.poll_outbox($1, 'reader', $2)", {group_, batch});
    std::string ids;
    last_id_.clear();
    for (int row = 0; row < rows.rows(); ++row) {
        last_id_ = rows.text(row, 0);
        token_ = rows.text(row, 1);
        ids += (row > 0 ? "," : "") + last_id_;
    }
    return ids;
}

void GroupReader::settle() {
    if (!last_id_.empty())
        db_.query("select baton.commit_offset($1, 'reader', $2, $3)", {group_, last_id_, token_});
}

std::string GroupReader::drain() {
    std::string all;
    for (std::string ids = poll(); !ids.empty(); ids = poll()) {
        settle();
        all += (all.empty() ? "" : ",") + ids;
    }
    return all;
}

Journal::Verdict Journal::compare(const std::map<std::string, std::string>& committed) const {
    const std::lock_guard lock(mutex_);
    Verdict verdict;
    verdict.expected = committed.size();
    verdict.handled = handled_.size();
    verdict.settled = settled_.size();
    verdict.revived = revived_;
    std::set<std::string> seen;
    std::map<std::string, long> newest;
    std::map<std::string, std::string> history;  // of each key
    const auto note = [&](const char* what, const std::string& event) {
        if (verdict.examples.size() < 400) verdict.examples += std::string(what) + " " + event + "; ";
    };
    for (const auto& event : handled_) {
        history[event.key] += std::to_string(event.version) + " by " + event.lease + " polled at " +
                              std::to_string(event.polled_at) + "\n";
        if (!committed.contains(event.event)) ++verdict.phantom, note("phantom", event.event);
        if (!seen.insert(event.event).second) {
            ++verdict.repeated;
            continue;
        }
        auto& last = newest[event.key];
        if (event.version < last)
            ++verdict.out_of_order,
                note("out of order", event.key + "/" + std::to_string(event.version) + " after " +
                                         std::to_string(last) + ":\n" + history[event.key]);
        last = std::max(last, event.version);
    }
    for (const auto& [event, key] : committed)
        if (!seen.contains(event)) ++verdict.lost, note("lost", event + " of " + key);
    return verdict;
}

Workload::Workload(std::string url, std::string outbox) : url_(std::move(url)), outbox_(std::move(outbox)) {
    Connection db(url_);
    db.exec(
        "create table key_versions (key text primary key, version bigint not null default 0); "
        "create table ledger (number bigint primary key, key text); create sequence event_numbers; "
        "insert into key_versions select 'k' || i from generate_series(0, " +
        std::to_string(keys + 20) + ") i");
}

Workload::~Workload() {
    given_up_ = true;
    for (auto& thread : members_) thread.join();
}

void Workload::long_transaction(std::chrono::steady_clock::time_point until) {
    Connection db(url_);
    Transaction tx(db);
    db.exec(publish_sql(outbox_, keys + 1));
    std::this_thread::sleep_until(until);
    db.exec(publish_sql(outbox_, keys + 1));
    tx.commit();
}

// Draw an id, wait, and publish under that id in a transaction that begins only then.
void Workload::publish_under_an_old_id(Connection& db, const std::string& key,
                                       std::chrono::milliseconds age) {
    const auto id = db.value("select nextval(pg_get_serial_sequence($1, 'id'))", {outbox_});
    std::this_thread::sleep_for(age);
    try {
        db.query(
            "with booked as (insert into ledger values (nextval('event_numbers'), $2) returning *) insert "
            "into " +
                outbox_ +
                " (id, event_type, partition_key, payload) overriding system value select $1, 'test', key, "
                "jsonb_build_object('number', number, 'version', 1) from booked",
            {id, key});
    } catch (const SqlError& error) {
        if (error.sqlstate() != "23514") throw;  // retention has taken the id's partition away meanwhile
    }
}

void Workload::writer(int number, std::chrono::steady_clock::time_point until) {
    Connection db(url_);
    unsigned seed = static_cast<unsigned>(number) * 7919 + 1;
    for (int n = 0; std::chrono::steady_clock::now() < until; ++n) {
        const int kind = dice(seed, 100);
        try {
            if (kind >= 90) {  // long before its transaction begins
                publish_under_an_old_id(db, "old" + std::to_string(number) + "_" + std::to_string(n),
                                        std::chrono::milliseconds(dice(seed, 60)));
                continue;
            }
            Transaction tx(db);
            db.exec(publish_sql(outbox_, dice(seed, keys), 1 + dice(seed, 3)));
            if (kind < 12) {  // slow
                std::this_thread::sleep_for(std::chrono::milliseconds(dice(seed, 150)));
            } else if (kind < 24) {  // aborted
                tx.rollback();
                continue;
            } else if (kind < 36) {  // a part is rolled back
                db.exec("savepoint a");
                db.exec(publish_sql(outbox_, dice(seed, keys)));
                db.exec("rollback to a");
                db.exec("savepoint b");
                db.exec(publish_sql(outbox_, dice(seed, keys)));
            } else if (n == 10 + number * 10 && number < 2) {  // bulk
                db.exec(publish_sql(outbox_, keys + 2 + number, 10000));
            } else if (kind < 48) {  // two phases
                const std::string name = "'w" + std::to_string(number) + "_" + std::to_string(n) + "'";
                db.exec("prepare transaction " + name);
                tx.commit();  // of nothing: the transaction is prepared
                std::this_thread::sleep_for(std::chrono::milliseconds(dice(seed, 60)));
                db.exec((dice(seed, 3) == 0 ? "rollback prepared " : "commit prepared ") + name);
                continue;
            }
            tx.commit();
        } catch (const SqlError& error) {
            if (error.sqlstate() != "40P01") throw;  // two writers wanted each other's keys
        }
    }
}

void Workload::write(std::chrono::milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    std::vector<std::thread> writers;
    const auto guarded = [this](auto action) {
        try {
            action();
        } catch (const std::exception& error) {
            const std::lock_guard lock(error_mutex_);
            error_ = error.what();
        }
    };
    writers.emplace_back([&] { guarded([&] { long_transaction(until); }); });
    for (int i = 0; i < 10; ++i) writers.emplace_back([&, i] { guarded([&] { writer(i, until); }); });
    for (auto& thread : writers) thread.join();
    if (!error_.empty()) throw Error("a writer failed: " + error_);
}

bool Workload::handle_batch(Connection& db, const Member& member, const std::string& name, Journal& account,
                            unsigned& seed) {
    const auto polled_at = account.moment();
    const auto batch = db.query(
        "select id, payload->>'number', partition_key, (payload->>'version')::bigint, lease_token from "
        "baton.poll_outbox($1, $2, $3, $4)",
        {member.group, name, 1 + dice(seed, 200), member.visibility_seconds});
    if (batch.empty()) return false;
    const std::string token = batch.text(0, 4);
    const auto commit = [&](int row) {  // false when the lease is gone
        return db.value("select baton.commit_offset($1, $2, $3::bigint, $4::uuid)",
                        {member.group, name, batch.text(row, 0), token}) == "t";
    };
    const int crash_at = dice(seed, 100) < member.crash_percent ? dice(seed, batch.rows() + 1) : -1;
    const int fail_at = dice(seed, 100) < member.fail_percent ? dice(seed, batch.rows()) : -1;
    const int pause_at = dice(seed, 100) < member.partial_percent ? dice(seed, batch.rows()) : -1;
    const int stall_at = dice(seed, 100) < member.stall_percent ? dice(seed, batch.rows()) : -1;
    std::set<std::string> skipped;
    for (int row = 0; row < batch.rows(); ++row) {
        if (row == stall_at) std::this_thread::sleep_for(std::chrono::milliseconds(dice(seed, 2000)));
        if (row == crash_at) return true;
        if (skipped.contains(batch.text(row, 0))) continue;
        if (member.deadly.contains(batch.text(row, 1))) return true;
        if (row == fail_at) {
            const auto parked = db.query(
                "select id from baton.fail_events($1, $2, array[$3::bigint], 'on purpose', false, $4::uuid)",
                {member.group, name, batch.text(row, 0), token});
            for (int i = 0; i < parked.rows(); ++i) skipped.insert(parked.text(i, 0));
            if (!skipped.contains(batch.text(row, 0))) return true;  // the lease is gone
            continue;
        }
        account.handled(
            {batch.text(row, 1), batch.text(row, 2), batch.number<long>(row, 3), polled_at,
             name + " " + token.substr(0, 8) + " row " + std::to_string(row) + " id " + batch.text(row, 0)});
        if (row == pause_at) {
            if (!commit(row)) return true;
            for (int before = 0; before <= row; ++before)
                if (!skipped.contains(batch.text(before, 0))) account.settled(batch.text(before, 1));
        }
    }
    for (int row = batch.rows() - 1; row >= 0; --row) {
        if (skipped.contains(batch.text(row, 0))) continue;
        if (row != pause_at && !commit(row)) return true;
        break;
    }
    for (int row = 0; row < batch.rows(); ++row)
        if (!skipped.contains(batch.text(row, 0))) account.settled(batch.text(row, 1));
    return true;
}

void Workload::member(Member member, Journal& account) {
    unsigned seed = static_cast<unsigned>(member.number) * 104729 + 17;
    int life = 0;
    auto db = std::make_unique<Connection>(url_);
    while (!given_up_) {
        const std::string name = "m" + std::to_string(member.number) + "." + std::to_string(life);
        try {
            const bool was_draining = draining_;
            if (handle_batch(*db, member, name, account, seed)) {
                if (member.new_names || dice(seed, 100) < member.crash_percent) ++life;
                continue;
            }
            if (was_draining &&
                db->value(
                    "select not exists (select from baton_internal.pieces join baton.consumer_groups using "
                    "(group_id) where group_name = $1) "
                    "and not exists (select from baton_internal.parked join baton.consumer_groups using "
                    "(group_id) where group_name = $1 and state <> 'dead')",
                    {member.group}) == "t")
                return;
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
        } catch (const LeaseLost&) {  // another member has it by now
        }
    }
}

void Workload::consume(const Member& member, Journal& account) {
    members_.emplace_back([this, member, &account] {
        try {
            this->member(member, account);
        } catch (const std::exception& error) {
            const std::lock_guard lock(error_mutex_);
            error_ = error.what();
        }
    });
}

void Workload::drain() {
    draining_ = true;
    for (auto& thread : members_) thread.join();
    members_.clear();
    if (!error_.empty()) throw Error("a member failed: " + error_);
}

DeadlyOutcome work_with_deadly_events(const std::string& url, const std::set<std::string>& deadly,
                                      std::chrono::milliseconds time) {
    Connection db(url);
    db.exec("select baton.create_consumer_group('team', 'events', 'earliest', max_attempts => 3)");
    Journal team;
    Workload workload(url, "events");
    db.exec(
        "insert into ledger values (0, 'deadly'); insert into events (event_type, partition_key, payload) "
        "values ('test', 'deadly', '{\"number\": 0, \"version\": 1}')");
    for (int i = 0; i < 4; ++i)
        workload.consume({.group = "team",
                          .number = i,
                          .visibility_seconds = 2,
                          .partial_percent = 20,
                          .new_names = i < 2,  // the others come back under their own
                          .deadly = deadly},
                         team);
    workload.write(time);
    workload.drain();
    const auto committed = workload.committed();
    DeadlyOutcome outcome;
    for (const auto& number : deadly)
        if (committed.contains(number)) outcome.committed.insert(number);
    const auto letters = db.query("select payload->>'number' from baton.dead_letters");
    for (int row = 0; row < letters.rows(); ++row) outcome.dead.insert(letters.text(row, 0));
    outcome.verdict = team.compare(committed);
    return outcome;
}

std::map<std::string, std::string> Workload::committed() {
    Connection db(url_);
    const auto rows = db.query("select number, key from ledger");
    std::map<std::string, std::string> events;
    for (int i = 0; i < rows.rows(); ++i) events[rows.text(i, 0)] = rows.text(i, 1);
    return events;
}

}  // namespace baton::test
