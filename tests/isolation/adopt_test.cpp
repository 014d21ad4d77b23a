// Adopted outboxes worked by several sessions at once, some of which die.

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "support/adopted_tables.hpp"
#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

std::vector<std::string> first_column(const postgres::Result& result) {
    std::vector<std::string> values;
    for (int row = 0; row < result.rows(); ++row) values.push_back(result.text(row, 0));
    return values;
}

std::vector<std::string> claim(Connection& db, const AdoptedTable& table, const std::string& worker,
                               int batch, int lease_seconds = 30) {
    return first_column(db.query("select id from baton.claim_adopted($1, $2, $3, $4)",
                                 {table.name, worker, batch, lease_seconds}));
}

class Adopted : public testing::TestWithParam<AdoptedTable> {
  protected:
    const AdoptedTable& table() const { return GetParam(); }

    void SetUp() override {
        url_ = shared_cluster(Form::plain).fresh_database();
        Connection db(url_);
        db.exec(table().ddl);
        db.query("select baton.adopt_outbox($1)", {table().name});
    }

    void insert(int rows) {
        Connection db(url_);
        db.query(table().insert, {rows});
    }

    std::string url_;
};

std::string name_of_table(const testing::TestParamInfo<AdoptedTable>& info) {
    return info.param.preset;
}

}  // namespace

TEST_P(Adopted, two_claimers_never_get_the_same_row) {
    constexpr int rows = 600;
    insert(rows);
    std::mutex guard;
    std::map<std::string, int> claimed;
    auto work = [&](const std::string& worker) {
        Connection db(url_);
        for (;;) {
            Transaction tx(db);
            const auto ids = claim(db, table(), worker, 7);
            if (!ids.empty()) {
                const auto settled = db.query("select baton.ack_adopted($1, $2, $3)",
                                              {table().name, postgres::array_literal(ids), worker});
                EXPECT_EQ(settled.rows(), static_cast<int>(ids.size()));
            }
            tx.commit();
            std::lock_guard hold(guard);
            for (const auto& id : ids) ++claimed[id];
            if (claimed.size() == rows) return;
            if (ids.empty()) std::this_thread::yield();
        }
    };
    std::vector<std::future<void>> workers;
    for (int n = 0; n < 4; ++n)
        workers.push_back(std::async(std::launch::async, work, "worker-" + std::to_string(n)));
    for (auto& worker : workers) worker.get();
    for (const auto& [id, times] : claimed) EXPECT_EQ(times, 1) << id;
    Connection db(url_);
    EXPECT_EQ(db.value("select pending + claimed from baton.adopted_status($1)", {table().name}), "0");
    EXPECT_EQ(db.value("select processed from baton.adopted_status($1)", {table().name}),
              std::to_string(rows));
}

TEST_P(Adopted, what_one_claimer_holds_another_does_not_wait_for) {
    insert(10);
    Connection one(url_), other(url_);
    Transaction first(one);
    EXPECT_EQ(claim(one, table(), "one", 6).size(), 6U);
    other.exec("set lock_timeout = '1ms'");
    EXPECT_EQ(claim(other, table(), "other", 10).size(), 4U);
}

TEST_P(Adopted, a_crashed_claimers_rows_come_back) {
    insert(5);
    Connection killer(url_);
    {
        Connection victim(url_);
        if (table().keeps_locks) {
            EXPECT_EQ(claim(victim, table(), "victim", 5, 1).size(),
                      5U);  // committed: the lease must run out
        } else {
            victim.exec("begin");
            EXPECT_EQ(claim(victim, table(), "victim", 5).size(), 5U);
            EXPECT_TRUE(claim(killer, table(), "heir", 5).empty());
        }
        killer.query("select pg_terminate_backend($1)", {victim.backend_pid()});
    }
    std::vector<std::string> inherited;
    wait_until("the rows come back", [&] {
        for (auto& id : claim(killer, table(), "heir", 5)) inherited.push_back(std::move(id));
        return inherited.size() >= 5;
    });
    EXPECT_EQ(inherited.size(), 5U);
}

TEST_P(Adopted, two_failures_of_one_event_at_once_are_both_counted) {
    insert(1);
    Connection one(url_), other(url_), third(url_);
    const auto id = third.value(table().any_id);
    Transaction first(one);
    one.query("select baton.fail_adopted($1, $2, 'one')", {table().name, id});
    auto second = std::async(std::launch::async, [&] {
        return other.value("select attempts from baton.fail_adopted($1, $2, 'other')", {table().name, id});
    });
    wait_until("the other waits", [&] {
        return third.value("select count(*) from pg_locks where not granted and pid = $1",
                           {other.backend_pid()}) == "1";
    });
    first.commit();
    EXPECT_EQ(second.get(), "2");
}

TEST_P(Adopted, a_dead_letter_is_told_on_the_alert_channel) {
    insert(1);
    Connection db(url_), listener(url_);
    listener.exec("listen baton_alert");
    db.query("select baton.fail_adopted($1, $2, 'no such route', true)",
             {table().name, db.value(table().any_id)});
    std::vector<postgres::Notification> alerts;
    wait_until("the alert arrives", [&] {
        listener.wait_readable(std::chrono::milliseconds(100));
        alerts = listener.take_notifications();
        return !alerts.empty();
    });
    EXPECT_EQ(db.value("select concat_ws(' ', a ->> 'event', a ->> 'object', a ->> 'error') from (select "
                       "$1::jsonb) x (a)",
                       {alerts.front().payload}),
              "dead_letter public." + table().name + " no such route");
}

INSTANTIATE_TEST_SUITE_P(Presets, Adopted, testing::ValuesIn(adopted_tables()), name_of_table);

TEST(AdoptedLocks, a_worker_that_lost_its_lease_settles_nothing) {
    const auto table = adopted_table("locks");
    const auto url = shared_cluster(Form::plain).fresh_database();
    Connection slow(url), quick(url);
    slow.exec(table.ddl);
    slow.query("select baton.adopt_outbox($1)", {table.name});
    slow.query(table.insert, {2});
    const auto ids = claim(slow, table, "slow", 2, 1);
    std::vector<std::string> taken;
    wait_until("the lease of both runs out", [&] {
        const auto more = claim(quick, table, "quick", 2);
        taken.insert(taken.end(), more.begin(), more.end());
        return taken.size() == 2;
    });
    EXPECT_TRUE(
        slow.query("select baton.ack_adopted($1, $2, 'slow')", {table.name, postgres::array_literal(ids)})
            .empty());
    EXPECT_EQ(
        quick.query("select baton.ack_adopted($1, $2, 'quick')", {table.name, postgres::array_literal(taken)})
            .rows(),
        2);
}

TEST(ProcessedEvents, of_two_members_one_is_first_and_a_rollback_gives_the_event_to_the_other) {
    const auto table = adopted_table("status");
    const auto url = shared_cluster(Form::plain).fresh_database();
    Connection one(url), other(url), watcher(url);
    one.exec(table.ddl);
    const std::string mark = "select baton.mark_processed('00000000-0000-7000-8000-000000000001', 'mailer')";
    for (const bool commits : {false, true}) {
        Transaction first(one);
        EXPECT_EQ(one.value(mark), "t");
        auto second = std::async(std::launch::async, [&] {
            Transaction tx(other);
            return other.value(mark);
        });
        wait_until("the other waits", [&] {
            return watcher.value("select count(*) from pg_locks where not granted and pid = $1",
                                 {other.backend_pid()}) == "1";
        });
        commits ? first.commit() : first.rollback();
        EXPECT_EQ(second.get(), commits ? "f" : "t");
    }
}
