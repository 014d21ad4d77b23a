// Consumers with their own offsets, while transactions commit late, out of order, or not at all.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <set>

#include "support/adopted_tables.hpp"
#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class Offsets : public testing::Test {
  protected:
    void SetUp() override {
        const auto table = adopted_table("messages");
        url_ = shared_cluster(Form::plain).fresh_database();
        Connection db(url_);
        db.exec(table.ddl);
        db.query("select baton.adopt_outbox('outbox_messages')");
    }

    static void publish(Connection& db, int aggregate = 1) {
        db.query(
            "insert into outbox_messages (tenant_id, aggregate_type, aggregate_id, event_type, payload) "
            "values (1, 'Order', $1, 'e', '{}')",
            {aggregate});
    }

    // Claim and settle what there is, failing some; true when there was something.
    static bool relay(Connection& db, int fail_one_in = 0, int batch = 10) {
        Transaction tx(db);
        const auto claimed =
            db.query("select id from baton.claim_adopted('outbox_messages', 'relay', $1)", {batch});
        for (int row = 0; row < claimed.rows(); ++row) {
            const auto id = claimed.text(row, 0);
            if (fail_one_in > 0 && row % fail_one_in == 1)
                db.query("update outbox_messages set attempts = attempts + 1 where id = $1", {id});
            else
                db.query("select baton.ack_adopted('outbox_messages', array[$1])", {id});
        }
        tx.commit();
        return !claimed.empty();
    }

    static std::vector<long long> read(Connection& db, bool in_order = true, int batch = 100) {
        const auto result =
            db.query("select id from baton.read_consumer_batch('outbox_messages', 'c', '', $1, $2)",
                     {batch, in_order});
        std::vector<long long> ids;
        for (int row = 0; row < result.rows(); ++row) ids.push_back(result.number(row, 0));
        return ids;
    }

    std::string url_;
};

using Ids = std::vector<long long>;

}  // namespace

TEST_F(Offsets, an_event_that_commits_late_is_waited_for) {
    Connection late(url_), quick(url_), consumer(url_);
    Transaction slow(late);
    publish(late);
    publish(quick);
    EXPECT_TRUE(relay(quick));
    EXPECT_EQ(read(consumer, false), Ids{2}) << "the plain query would skip the first";
    EXPECT_EQ(read(consumer), Ids{});
    slow.commit();
    EXPECT_TRUE(relay(quick));
    EXPECT_EQ(read(consumer), (Ids{1, 2}));
}

TEST_F(Offsets, an_event_that_is_rolled_back_is_not_waited_for) {
    Connection late(url_), quick(url_), consumer(url_);
    Transaction slow(late);
    publish(late);
    publish(quick);
    EXPECT_TRUE(relay(quick));
    EXPECT_EQ(read(consumer), Ids{});
    slow.rollback();
    EXPECT_EQ(read(consumer), Ids{2});
}

TEST_F(Offsets, a_writer_that_began_later_does_not_hold_up_what_is_decided) {
    Connection one(url_), two(url_), consumer(url_);
    Transaction first(one);
    publish(one);
    publish(consumer);
    EXPECT_TRUE(relay(consumer));
    EXPECT_EQ(read(consumer), Ids{});  // waits for the first writer
    Transaction second(two);
    publish(two);
    first.rollback();
    EXPECT_EQ(read(consumer), Ids{2});  // not for the second, which began afterwards
}

TEST_F(Offsets, reading_in_order_needs_read_committed) {
    Connection consumer(url_);
    Transaction tx(consumer, "begin isolation level repeatable read");
    try {
        read(consumer);
        FAIL();
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "25000");
    }
}

TEST_F(Offsets, two_members_of_one_consumer_never_work_on_the_same_events) {
    Connection one(url_), other(url_);
    publish(one);
    publish(one);
    EXPECT_TRUE(relay(one));
    Transaction first(one);
    EXPECT_EQ(read(one, true, 1), Ids{1});
    auto second = std::async(std::launch::async, [&] { return read(other); });
    Connection watcher(url_);
    wait_until("the other waits", [&] {
        return watcher.value("select count(*) from pg_locks where not granted and pid = $1",
                             {other.backend_pid()}) != "0";
    });
    one.query("select baton.advance_consumer_offset('outbox_messages', 'c', 1)");
    first.commit();
    EXPECT_EQ(second.get(), Ids{2});
}

TEST_F(Offsets, a_consumers_position_rolls_back_with_its_own_change) {
    Connection consumer(url_);
    publish(consumer);
    EXPECT_TRUE(relay(consumer));
    {
        Transaction tx(consumer);
        EXPECT_EQ(read(consumer), Ids{1});
        consumer.query("select baton.advance_consumer_offset('outbox_messages', 'c', 1)");
    }
    EXPECT_EQ(read(consumer), Ids{1});
}

TEST_F(Offsets, under_concurrent_writers_every_committed_event_is_read_once_and_by_id) {
    constexpr int writers = 4;
    std::atomic<int> writing = writers;
    std::atomic<int> relay_rounds = 0, reads = 0;
    std::atomic<bool> relayed = false;
    auto let_others_go_on = [&] {  // holds its own transaction open meanwhile
        const int relay_goal = relay_rounds + 3, read_goal = reads + 3;
        wait_until("the others went on", [&] { return relay_rounds >= relay_goal && reads >= read_goal; });
    };
    auto write = [&](unsigned seed) {
        std::mt19937 random(seed);
        Connection db(url_);
        for (int round = 0; round < 40; ++round) {
            Transaction tx(db);
            const auto events = 1 + random() % 4;
            for (unsigned n = 0; n < events; ++n) {
                publish(db, static_cast<int>(seed));
                if (random() % 4 == 0) {
                    db.exec("savepoint s");
                    publish(db, static_cast<int>(seed));
                    db.exec("rollback to s");
                }
            }
            if (random() % 4 == 0) let_others_go_on();
            if (random() % 5 != 0) tx.commit();
        }
        --writing;
    };
    std::vector<std::future<void>> running;
    for (unsigned seed = 1; seed <= writers; ++seed)
        running.push_back(std::async(std::launch::async, write, seed));
    running.push_back(std::async(std::launch::async, [&] {
        Connection db(url_);
        for (bool more = true; more || writing > 0; ++relay_rounds) more = relay(db, 3);
        relayed = true;
    }));

    Connection consumer(url_);
    Ids seen;
    auto consume = [&] {
        Transaction tx(consumer);
        const auto ids = read(consumer, true, 7);
        seen.insert(seen.end(), ids.begin(), ids.end());
        EXPECT_EQ(consumer.value(
                      "select count(*) from outbox_messages where id = any ($1) and processed_at is null",
                      {postgres::array_literal(ids)}),
                  "0");
        if (!ids.empty())
            consumer.query("select baton.advance_consumer_offset('outbox_messages', 'c', $1)", {ids.back()});
        tx.commit();
        ++reads;
        return !ids.empty();
    };
    while (!relayed) consume();
    for (auto& thread : running) thread.get();
    while (consume()) {
    }

    Ids committed;
    const auto all = consumer.query("select id from outbox_messages order by id");
    for (int row = 0; row < all.rows(); ++row) committed.push_back(all.number(row, 0));
    EXPECT_GT(committed.size(), 100U);
    EXPECT_EQ(seen, committed);
}
