// The doorbell without the extension: sleepers announce themselves and writers notify.

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

constexpr auto long_sleep = std::chrono::seconds(20);

class PlainDoorbell : public testing::Test {
  protected:
    PlainDoorbell() {
        admin.exec("select baton.set_setting('notify_despite_two_phase', 'on')");
        admin.exec("create table events (id bigint generated always as identity primary key, payload text)");
        admin.exec(
            "create trigger baton_doorbell after insert on events for each statement "
            "execute function baton_internal.ring_doorbell()");
    }

    static void listen(Connection& db) {
        db.exec("listen " + db.escape_identifier(db.value("select baton.doorbell_channel('events')")));
    }
    static void announce(Connection& db) { db.exec("select baton.announce_sleep('events', 'reader')"); }
    static bool settled(Connection& db) { return db.value("select baton.sleep_settled('events')") == "t"; }
    static int visible_events(Connection& db) { return std::stoi(db.value("select count(*) from events")); }
    static bool notified(Connection& db, std::chrono::milliseconds patience) {
        auto notifications = db.take_notifications();
        if (notifications.empty() && db.wait_readable(patience)) notifications = db.take_notifications();
        return !notifications.empty();
    }

    std::string url = shared_cluster(Form::plain).fresh_database();
    Connection admin{url};
};

// Follow the reader's protocol until `expected` events were seen; returns how often it slept through a
// commit.
int read_with_announcements(Connection& db, int expected, std::atomic<int>& seen,
                            bool (*settled)(Connection&)) {
    const auto poll = [&] {
        const int visible = std::stoi(db.value("select count(*) from events"));
        const bool found = visible > seen;
        if (found) {
            seen = visible;
            seen.notify_all();
        }
        return found;
    };
    int lost = 0;
    while (seen < expected) {
        if (poll()) continue;
        db.exec("select baton.announce_sleep('events', 'reader')");
        bool found = false;
        for (;;) {
            const bool safe = settled(db);
            found = poll();
            if (found || safe) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (!found && db.take_notifications().empty() && !db.wait_readable(std::chrono::seconds(3)) && poll())
            ++lost;
        db.take_notifications();
        db.exec("select baton.end_sleep('events', 'reader')");
    }
    return lost;
}

}  // namespace

TEST_F(PlainDoorbell, writers_notify_only_while_somebody_sleeps) {
    Connection reader(url);
    listen(reader);
    admin.exec("insert into events (payload) values ('nobody sleeps')");
    announce(reader);
    admin.exec("insert into events (payload) values ('one sleeps')");
    EXPECT_TRUE(notified(reader, long_sleep));
    EXPECT_TRUE(reader.take_notifications().empty()) << "the first insert notified too";
    reader.exec("select baton.end_sleep('events', 'reader')");
    admin.exec("insert into events (payload) values ('awake again')");
    reader.exec("select 1");
    EXPECT_TRUE(reader.take_notifications().empty());
}

TEST_F(PlainDoorbell, an_announcement_that_ran_out_costs_writers_nothing) {
    Connection reader(url);
    listen(reader);
    reader.exec("select baton.announce_sleep('events', 'dead reader', '-1 second')");
    admin.exec("insert into events (payload) values ('x')");
    reader.exec("select 1");
    EXPECT_TRUE(reader.take_notifications().empty());
    reader.exec("select baton.end_sleep('events', 'somebody else')");
    EXPECT_EQ(admin.value("select count(*) from baton_internal.sleepers"), "0");
}

TEST_F(PlainDoorbell, a_writer_that_looked_before_the_announcement_keeps_the_reader_from_sleeping) {
    Connection reader(url);
    Connection writer(url);
    listen(reader);
    writer.exec("begin");
    writer.exec("insert into events (payload) values ('early')");
    announce(reader);
    EXPECT_EQ(visible_events(reader), 0);
    EXPECT_FALSE(settled(reader));
    writer.exec("commit");
    EXPECT_TRUE(settled(reader));
    EXPECT_EQ(visible_events(reader), 1);
}

TEST_F(PlainDoorbell, a_writer_with_an_old_snapshot_notifies) {
    Connection reader(url);
    Connection writer(url);
    listen(reader);
    writer.exec("begin isolation level repeatable read");
    writer.exec("select count(*) from events");
    announce(reader);
    EXPECT_TRUE(settled(reader));
    EXPECT_EQ(visible_events(reader), 0);
    writer.exec("insert into events (payload) values ('late')");
    writer.exec("commit");
    EXPECT_TRUE(notified(reader, long_sleep));
}

TEST_F(PlainDoorbell, no_wake_up_is_lost_in_a_race) {
    constexpr int rounds = 400;
    std::atomic<int> seen{0};
    int lost = 0;
    std::thread reading([&] {
        Connection reader(url);
        listen(reader);
        lost = read_with_announcements(reader, rounds, seen, settled);
    });
    Connection writer(url);
    std::mt19937 random(7);
    for (int i = 1; i <= rounds; ++i) {
        const auto pause = [&] {
            std::this_thread::sleep_for(
                std::chrono::microseconds(std::uniform_int_distribution(0, 3000)(random)));
        };
        writer.exec(i % 4 == 0 ? "begin isolation level repeatable read; select 1 from events limit 1"
                               : "begin");
        pause();
        writer.exec("insert into events (payload) values ('x')");
        pause();
        writer.exec("commit");
        for (int so_far = seen; so_far < i; so_far = seen) seen.wait(so_far);
    }
    reading.join();
    EXPECT_EQ(lost, 0);
}

TEST_F(PlainDoorbell, a_sleeping_reader_never_makes_prepare_transaction_fail) {
    EXPECT_EQ(admin.value("select baton.doorbell_kind()"), "notify");
    admin.exec("select baton.set_setting('notify_despite_two_phase', 'off')");
    EXPECT_EQ(admin.value("select baton.doorbell_kind()"), "poll") << "this server allows two-phase commit";
    announce(admin);
    admin.exec("begin; insert into events (payload) values ('x'); prepare transaction 'two phases'");
    admin.exec("commit prepared 'two phases'");
    EXPECT_EQ(visible_events(admin), 1);
}

TEST_F(PlainDoorbell, wait_for_events_wakes_on_commit_and_commits_between_its_naps) {
    Connection reader(url);
    const auto before = reader.value("select baton.doorbell_value('events')");
    std::string after;
    std::thread waiting([&] {
        after = reader.query("call baton.wait_for_events('events', $1, '60 s')", {before}).text(0, 0);
    });
    const auto xact_start = [&] {
        return admin.query("select xact_start from pg_stat_activity where pid = $1 and query like 'call%'",
                           {reader.backend_pid()});
    };
    wait_until("the reader naps", [&] { return !xact_start().empty(); });
    const auto first = xact_start().text(0, 0);
    wait_until("the reader naps in another transaction", [&] { return xact_start().text(0, 0) != first; });
    admin.exec("insert into events (payload) values ('x')");
    waiting.join();
    EXPECT_NE(after, before);
    try {
        reader.exec("begin");
        reader.exec("call baton.wait_for_events('events')");
        FAIL();
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "2D000");
    }
}

TEST_F(PlainDoorbell, the_log_is_flushed_even_when_its_last_page_holds_no_commit) {
    Connection writer(url);
    writer.exec("begin");
    writer.exec("insert into events (payload) values ('unfinished')");
    const auto position = writer.value("select pg_current_wal_insert_lsn()");
    admin.query("select baton_internal.flush_wal_up_to($1)", {position});
    EXPECT_EQ(admin.value("select pg_current_wal_flush_lsn() >= $1::pg_lsn", {position}), "t");
}
