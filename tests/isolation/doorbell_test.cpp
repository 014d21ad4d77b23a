// The doorbell in shared memory: on a server that preloads the module and on one that does not.

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <thread>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

Cluster& cluster_for(bool preload) {
    static Cluster preloaded(Cluster::Options{Form::extension, true, {}});
    static Cluster bare(Cluster::Options{Form::extension, false, {}});
    return preload ? preloaded : bare;
}

long long doorbell_value(Connection& db, const std::string& outbox = "events") {
    return std::stoll(db.value("select baton.doorbell_value($1)", {outbox}));
}

long long wait_for_events(Connection& db, long long since, const std::string& timeout = "60 s") {
    return db.query("call baton.wait_for_events('events', $1, $2)", {since, timeout}).number(0, 0);
}

void wait_until_asleep(Connection& observer, const Connection& sleeper) {
    wait_until("the reader sleeps", [&] {
        return observer.value(
                   "select count(*) from pg_stat_activity where pid = $1 and wait_event = 'Extension'",
                   {sleeper.backend_pid()}) == "1";
    });
}

class Doorbell : public testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        writer.exec("create table events (id bigint generated always as identity primary key, payload text)");
        writer.exec(
            "create trigger baton_doorbell after insert on events for each statement "
            "execute function baton_internal.ring_doorbell()");
    }

    // A reader that sleeps from now on; the value it wakes with.
    std::future<long long> sleep_in_background(long long since) {
        auto woken = std::async(std::launch::async, [this, since] { return wait_for_events(reader, since); });
        wait_until_asleep(observer, reader);
        return woken;
    }

    void admin_creates_a_bare_writer() {
        writer.exec("do $$ begin create role bare_writer; exception when duplicate_object then null; end $$");
        writer.exec("grant insert on events to bare_writer");
    }

    void insert_event() { writer.exec("insert into events (payload) values ('x')"); }

    std::string url = cluster_for(GetParam()).fresh_database();
    Connection writer{url};
    Connection reader{url};
    Connection observer{url};
};

INSTANTIATE_TEST_SUITE_P(Servers, Doorbell, testing::Bool(),
                         [](const auto& server) { return server.param ? "preloaded" : "not_preloaded"; });

}  // namespace

TEST_P(Doorbell, a_commit_wakes_a_sleeping_reader) {
    const auto before = doorbell_value(observer);
    auto woken = sleep_in_background(before);
    insert_event();
    EXPECT_EQ(woken.get(), before + 1);
}

TEST_P(Doorbell, the_woken_reader_sees_the_row) {
    constexpr int rounds = 2000;
    std::atomic<int> wakes{0};
    int too_early = 0;
    std::thread reading([&, value = doorbell_value(reader)]() mutable {
        for (int i = 1; i <= rounds; ++i) {
            value = wait_for_events(reader, value);
            if (reader.value("select count(*) from events") != std::to_string(i)) ++too_early;
            wakes = i;
            wakes.notify_one();
        }
    });
    for (int i = 1; i <= rounds; ++i) {
        insert_event();
        wakes.wait(i - 1);
    }
    reading.join();
    EXPECT_EQ(too_early, 0) << "wakes before the row was visible";
}

TEST_P(Doorbell, a_rollback_wakes_nobody) {
    const auto before = doorbell_value(observer);
    auto woken = sleep_in_background(before);
    writer.exec("begin; insert into events (payload) values ('x'); rollback");
    EXPECT_EQ(doorbell_value(observer), before);
    wait_until_asleep(observer, reader);
    insert_event();
    EXPECT_EQ(woken.get(), before + 1);
}

TEST_P(Doorbell, commit_prepared_wakes_a_sleeping_reader) {
    Connection committer(url);
    committer.exec("load 'baton'");
    const auto database = committer.value("select current_database()");
    const auto before = doorbell_value(observer);
    auto woken = sleep_in_background(before);
    writer.exec("begin; insert into events (payload) values ('x'); prepare transaction 'p" + database + "'");
    writer.exec("begin; insert into events (payload) values ('x'); prepare transaction 'q" + database + "'");
    EXPECT_EQ(doorbell_value(observer), before) << "preparing is not committing";
    committer.exec("rollback prepared 'q" + database + "'");
    EXPECT_EQ(doorbell_value(observer), before);
    committer.exec("commit prepared 'p" + database + "'");
    EXPECT_EQ(woken.get(), before + 1);
    EXPECT_EQ(reader.value("select count(*) from events"), "1");
}

TEST_P(Doorbell, a_sleeping_reader_holds_no_snapshot) {
    auto woken = sleep_in_background(doorbell_value(observer));
    const auto held = observer.query("select backend_xmin, backend_xid from pg_stat_activity where pid = $1",
                                     {reader.backend_pid()});
    EXPECT_TRUE(held.is_null(0, 0));
    EXPECT_TRUE(held.is_null(0, 1));
    insert_event();
    woken.get();
}

TEST_P(Doorbell, a_cancelled_wait_unwinds_and_the_session_goes_on) {
    const auto before = doorbell_value(observer);
    auto woken = sleep_in_background(before);
    reader.cancel_running();
    try {
        woken.get();
        FAIL();
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "57014");
    }
    insert_event();
    EXPECT_EQ(wait_for_events(reader, before), before + 1);
}

TEST_P(Doorbell, waiting_inside_a_transaction_block_is_refused) {
    reader.exec("begin");
    try {
        wait_for_events(reader, 0);
        FAIL();
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "2D000");
        EXPECT_FALSE(error.hint().empty());
    }
}

TEST_P(Doorbell, the_value_comes_at_once_when_it_differs_or_nothing_is_known) {
    const auto now = doorbell_value(observer);
    EXPECT_EQ(wait_for_events(reader, now - 5), now);
    EXPECT_EQ(reader.query("call baton.wait_for_events('events')").number(0, 0), now);
    EXPECT_EQ(wait_for_events(reader, now, "10 ms"), now) << "when the time is over the value is the same";
    EXPECT_EQ(wait_for_events(reader, now, "-1 day"), now);
}

TEST_P(Doorbell, an_unknown_outbox_is_an_error) {
    try {
        reader.exec("call baton.wait_for_events('nowhere.events', 0)");
        FAIL();
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "3F000");
    }
    EXPECT_THROW(reader.exec("call baton.wait_for_events(null, 0)"), SqlError);
}

TEST_P(Doorbell, a_partition_rings_the_bell_of_its_root) {
    writer.exec("create table log (id bigint, day int) partition by list (day)");
    writer.exec("create table log_1 partition of log for values in (1)");
    for (const char* table : {"log", "log_1"})
        writer.exec(std::string("create trigger baton_doorbell after insert on ") + table +
                    " for each statement execute function baton_internal.ring_doorbell()");
    const auto before = doorbell_value(observer, "log");
    EXPECT_EQ(doorbell_value(observer, "log_1"), before);
    writer.exec("insert into log values (1, 1)");
    EXPECT_EQ(doorbell_value(observer, "log"), before + 1);
    writer.exec("insert into log_1 values (2, 1)");
    EXPECT_EQ(doorbell_value(observer, "log"), before + 2);
}

TEST_P(Doorbell, a_writer_needs_no_right_but_insert) {
    admin_creates_a_bare_writer();
    writer.exec("set role bare_writer");
    const auto before = doorbell_value(observer);
    insert_event();
    EXPECT_EQ(doorbell_value(observer), before + 1);
    writer.exec("reset role");
}

TEST_P(Doorbell, the_log_is_flushed_up_to_a_position) {
    writer.exec("set synchronous_commit = off");
    insert_event();
    const auto position = writer.value("select pg_current_wal_insert_lsn()");
    reader.query("select baton_internal.flush_wal_up_to($1)", {position});
    EXPECT_EQ(reader.value("select pg_current_wal_flush_lsn() >= $1::pg_lsn", {position}), "t");
    try {
        reader.exec("select baton_internal.flush_wal_up_to(pg_current_wal_insert_lsn() + 1000000)");
        FAIL();
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "22023");
    }
}

TEST(DoorbellAfterACrash, commit_prepared_of_an_earlier_life_rings) {
    Cluster cluster(Cluster::Options{Form::extension, true, {"fsync = on"}});
    const auto url = cluster.fresh_database();
    long long before_crash = 0;
    {
        Connection writer(url);
        writer.exec("create table events (id bigint)");
        writer.exec(
            "create trigger baton_doorbell after insert on events for each statement "
            "execute function baton_internal.ring_doorbell()");
        before_crash = doorbell_value(writer);
        writer.exec("begin; insert into events values (1); prepare transaction 'survivor'");
    }
    cluster.server().kill_hard();
    cluster.server().start();
    Connection reader(url);
    Connection writer(url);
    const auto before = doorbell_value(reader);
    EXPECT_NE(before, before_crash) << "a value from before the crash must not match";
    writer.exec("commit prepared 'survivor'");
    EXPECT_EQ(wait_for_events(reader, before), before + 1);
}

TEST(DoorbellAfterACrash, rings_in_a_server_that_restarted_itself) {
    Cluster cluster;
    const auto url = cluster.fresh_database();
    long long before_crash = 0;
    {
        Connection victim(url);
        victim.exec("create table events (id bigint)");
        victim.exec(
            "create trigger baton_doorbell after insert on events for each statement "
            "execute function baton_internal.ring_doorbell()");
        victim.exec("insert into events values (1)");
        before_crash = doorbell_value(victim);
        ::kill(victim.backend_pid(), SIGKILL);
    }
    std::unique_ptr<Connection> reader;
    wait_until("the server has recovered", [&] {
        try {
            reader = std::make_unique<Connection>(url);
            return doorbell_value(*reader) != before_crash;
        } catch (const Error&) {
            return false;
        }
    });
    Connection writer(url);
    const auto before = doorbell_value(*reader);
    auto woken = std::async(std::launch::async, [&] { return wait_for_events(*reader, before); });
    wait_until_asleep(writer, *reader);
    writer.exec("insert into events values (2)");
    EXPECT_EQ(woken.get(), before + 1);
}

TEST(DoorbellWithoutRoom, writers_and_readers_go_on_when_shared_memory_is_used_up) {
    Cluster cluster(Cluster::Options{Form::extension, false, {}});
    const auto module = cluster.server().folder() / "guard_module.so";
    std::filesystem::copy_file(GUARD_MODULE, module);
    const auto url = cluster.fresh_database();
    Connection db(url);
    db.exec("create function exhaust() returns int language c as '" + module.string() +
            "', 'guard_exhaust_shared_memory'");
    db.exec("create table events (id bigint)");
    db.exec(
        "create trigger baton_doorbell after insert on events for each statement "
        "execute function baton_internal.ring_doorbell()");
    db.exec("select exhaust()");
    std::string notice;
    db.on_notice([&](const std::string& text) { notice += text; });
    db.exec("begin; insert into events values (1); insert into events values (2); commit");
    EXPECT_NE(notice.find("no shared memory left for the doorbell"), std::string::npos) << notice;
    EXPECT_EQ(db.value("select count(*) from events"), "2");
    EXPECT_EQ(db.query("call baton.wait_for_events('events', 5, '1 min')").number(0, 0), 5);
    EXPECT_EQ(db.value("select 1"), "1");
}
