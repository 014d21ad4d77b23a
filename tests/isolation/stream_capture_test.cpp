// Changes are captured with the transaction that makes them, whoever makes them and however it ends.

#include <gtest/gtest.h>

#include <future>

#include "isolation/stream_capture.hpp"
#include "support/restores.hpp"

using namespace baton;
using namespace baton::test;

namespace {

Cluster& cluster() {
    static Cluster one(
        Cluster::Options{Form::extension,
                         true,
                         {"max_prepared_transactions = 10", "wal_level = logical", "max_wal_senders = 5"}});
    return one;
}

class StreamCapture : public testing::Test {
  protected:
    std::string url = cluster().quiet_database();
    Connection db{url};
    Connection other{url};
};

bool is_waiting(Connection& db, int pid) {
    return db.value("select count(*) from pg_locks where not granted and pid = " + std::to_string(pid)) !=
           "0";
}

// A subscription to tables of another database, for as long as the object lives. It applies nothing before
// somebody enables it.
class Subscription {
  public:
    Subscription(Connection& db, const std::string& from, const std::string& tables) : db_(db), from_(from) {
        from_.exec("create publication p for table " + tables + " with (publish_via_partition_root)");
        from_.exec("select pg_create_logical_replication_slot('capture', 'pgoutput')");
        db_.exec("create subscription capture connection " + db_.escape_literal(from) +
                 " publication p with (create_slot = false, enabled = false)");
    }
    ~Subscription() {
        try {
            db_.exec("alter subscription capture disable");
            db_.exec("alter subscription capture set (slot_name = none)");
            db_.exec("drop subscription capture");
            wait_until("the slot is free", [this] {
                return from_.value("select active from pg_replication_slots where slot_name = 'capture'") ==
                       "f";
            });
            from_.exec("select pg_drop_replication_slot('capture')");
        } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
        }
    }
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

    void enable() {
        db_.exec("alter subscription capture enable");
        wait_until("the rows of before are copied", [this] {
            return db_.value("select count(*) from pg_subscription_rel where srsubstate <> 'r'") == "0";
        });
    }

  private:
    Connection& db_;
    Connection from_;
};

}  // namespace

TEST_F(StreamCapture, truncate_takes_rows_that_its_own_snapshot_does_not_show) {
    db.exec("create table t (id int); insert into t values (1)");
    const CapturedSource source(db, "t", {"id"});
    db.exec("begin isolation level repeatable read");
    EXPECT_EQ(db.value("select count(*) from t"), "1");
    other.exec("insert into t values (2), (3)");
    EXPECT_EQ(db.value("select count(*) from t"), "1");
    db.exec("truncate t; commit");
    EXPECT_EQ(source.weights(db), "-1 -1 -1 1 1");
    EXPECT_EQ(source.differences(db), "0");
}

TEST_F(StreamCapture, a_prepared_transaction_counts_when_somebody_commits_it) {
    db.exec("create table t (id int); insert into t values (1)");
    const CapturedSource source(db, "t", {"id"});
    db.exec("begin; insert into t values (2); delete from t where id = 1; prepare transaction 'kept'");
    db.exec("begin; insert into t values (3); prepare transaction 'dropped'");
    EXPECT_EQ(source.weights(db), "none");
    EXPECT_EQ(source.differences(other), "0");
    other.exec("commit prepared 'kept'");
    other.exec("rollback prepared 'dropped'");
    EXPECT_EQ(source.weights(db), "-1 1");
    EXPECT_EQ(source.differences(db), "0");
}

TEST_F(StreamCapture, changes_are_those_of_the_top_transaction_and_of_one_step_each) {
    db.exec("create table t (id int)");
    const CapturedSource source(db, "t", {"id"});
    for (int round = 0; round < 2; ++round) {
        db.exec("delete from " + source.buffer() + "; begin; savepoint a");
        EXPECT_EQ(db.value("select baton_internal.current_step()"), "0");
        db.exec("insert into t values (1), (2); savepoint b; insert into t values (3); rollback to b");
        db.exec("insert into t values (4)");
        EXPECT_EQ(db.value("select baton_internal.current_step()"), "3");
        EXPECT_EQ(db.value("select bool_and(xid = pg_current_xact_id()) from " + source.buffer()), "t");
        EXPECT_EQ(
            db.value("select string_agg(step || ':' || c1, ' ' order by step, c1) from " + source.buffer()),
            "1:1 1:2 3:4");
        db.exec("commit");
        EXPECT_EQ(db.value("select baton_internal.current_step()"), "0");
    }
}

TEST_F(StreamCapture, who_knows_a_frontier_finds_every_later_change_once) {
    db.exec("create table t (id int)");
    const CapturedSource source(db, "t", {"id"});
    other.exec("begin; insert into t values (1)");  // begun before the frontier, committed after it
    db.exec("begin; insert into t values (2)");
    Connection(url).exec("select pg_current_xact_id()");  // the snapshot ends behind the transaction itself
    const auto snapshot = db.value("select pg_current_snapshot()");
    const auto xid = db.value("select pg_current_xact_id()");
    const auto step = db.value("select baton_internal.current_step()");
    db.exec("insert into t values (3); commit; insert into t values (4)");
    other.exec("commit");
    EXPECT_EQ(db.value("select string_agg(c1::text, ' ' order by c1) from " + source.buffer() +
                           " where baton_internal.is_unseen(xid, step, $1::pg_snapshot, $2::xid8, $3::int)",
                       {snapshot, xid, step}),
              "1 3 4");
}

// A snapshot does not list its own transaction. Once a later one has committed, the own one looks visible
// there.
TEST_F(StreamCapture, a_transaction_refreshes_time_and_again_while_others_commit) {
    db.exec(
        "create table t (id int); select baton.create_stream_table('copy', 'select id from t', null, "
        "'DIFFERENTIAL')");
    db.exec("begin");
    for (int i = 0; i < 3; ++i) {
        db.exec("insert into t values (1)");
        other.exec("select pg_current_xact_id()");
        EXPECT_EQ(db.value("select inserted from baton.refresh_stream_table('copy')"), "1");
    }
    db.exec("commit");
    EXPECT_EQ(db.value("select inserted from baton.refresh_stream_table('copy')"), "0");
    EXPECT_EQ(db.value("select count(*) from copy"), "3");
}

TEST_F(StreamCapture, a_session_notices_what_others_do_to_its_source) {
    db.exec(
        "create table t (id int, v text, w int) partition by range (id);"
        "create table low partition of t for values from (0) to (10)");
    const CapturedSource narrow(db, "t", {"id"});
    other.exec("insert into t values (1, 'a', 1); insert into low values (2, 'b', 2)");
    const CapturedSource wide(db, "t", {"id", "v"});
    other.exec(
        "insert into t values (3, 'c', 3); insert into low values (4, 'd', 4); update low set v = 'e' where "
        "id = 4");
    EXPECT_EQ(wide.weights(db), "-1 1 1 1");
    EXPECT_EQ(wide.differences(db), "0");
    db.exec("alter table t alter v type varchar(5)");
    other.exec("insert into low values (5, 'f', 5)");
    EXPECT_EQ(wide.weights(db), "-1 0 1 1 1");
    const CapturedSource retyped(db, "t", {"id", "v"});
    other.exec("insert into low values (6, 'g', 6)");
    EXPECT_EQ(retyped.differences(db), "0");
    db.exec("alter table t detach partition low");
    other.exec("insert into low values (7, 'h', 7)");
    EXPECT_EQ(retyped.weights(db), "1");
    db.exec("alter table t attach partition low for values from (0) to (10)");
    other.exec("insert into low values (8, 'i', 8)");
    EXPECT_EQ(retyped.weights(db), "1 1");
    db.exec("select baton_internal.release_source('t')");
    other.exec("insert into low values (9, 'j', 9)");
    const CapturedSource again(db, "t", {"w"});
    other.exec("update low set w = -w");
    EXPECT_EQ(again.differences(db), "0");
    EXPECT_NE(again.weights(db), "none");
}

TEST_F(StreamCapture, a_capture_begins_between_writers) {
    db.exec("create table t (id int)");
    other.exec("begin; insert into t values (1)");
    Connection watcher(url);
    auto captured = std::async(std::launch::async, [&] { return CapturedSource(db, "t", {"id"}); });
    wait_until("the capture waits", [&] { return is_waiting(watcher, db.backend_pid()); });
    other.exec("insert into t values (2); commit");
    const CapturedSource source = captured.get();
    other.exec("insert into t values (3)");
    EXPECT_EQ(source.weights(db), "1") << "what was there before is no change";
    EXPECT_EQ(source.differences(db), "0");
}

TEST_F(StreamCapture, a_capture_does_not_wait_for_ever) {
    db.exec("create table t (id int)");
    other.exec("begin; insert into t values (1)");
    try {
        const CapturedSource source(db, "t", {"id"});
        ADD_FAILURE() << "a writer is under way";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "55P03");
    }
    other.exec("commit");
}

TEST_F(StreamCapture, nobody_waits_behind_a_capture_that_waits_for_a_writer) {
    db.exec("create table t (id int); insert into t values (1); set lock_timeout = '1s'");
    const auto expect_free = [&](const std::string& statement) {
        other.exec("begin; insert into t values (2)");
        auto changed = std::async(std::launch::async, [&]() -> std::string {
            try {
                db.exec(statement);
            } catch (const SqlError& error) {
                return error.sqlstate();
            }
            return "it was done";
        });
        Connection watcher(url);
        Connection writer(url);
        writer.exec("set lock_timeout = '3s'");
        wait_until("the capture waits", [&] {
            return is_waiting(watcher, db.backend_pid()) ||
                   changed.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
        });
        EXPECT_NO_THROW(writer.exec("insert into t values (3)")) << statement;
        EXPECT_EQ(changed.get(), "55P03") << statement;
        other.exec("commit");
    };
    expect_free("select baton.create_stream_table('s', 'select id from t', null)");
    db.exec("select baton.create_stream_table('s', 'select id from t', null)");
    expect_free("select baton.alter_stream_table('s', refresh_mode => 'IMMEDIATE')");
    db.exec("alter table t disable trigger baton_capture_insert");
    expect_free("select baton_internal.renew_capture(s) from baton.stream_tables s");
    expect_free("select baton_internal.release_source('t')");
    db.exec("select baton.refresh_stream_table('s')");
    EXPECT_EQ(db.value("select baton.verify_stream_table('s')"), "(0,0)");
}

TEST_F(StreamCapture, what_logical_replication_applies_is_captured) {
    const auto from = cluster().quiet_database();
    Connection publisher(from);
    const std::string tables =
        "create table t (id int primary key, v text); create table p (id int primary key, v text) partition "
        "by range (id);"
        "create table low partition of p for values from (0) to (100); create table high partition of p for "
        "values from "
        "(100) to (200);";
    publisher.exec(tables + "insert into t values (1, 'copied')");
    db.exec(tables);
    const std::string state = "select baton_internal.source_state('p', '{1,2}')";
    db.exec(
        "select baton_internal.capture_source('t', '{1,2}'), baton_internal.capture_source('p', '{1,2}')");
    const auto before = db.value(state);
    Subscription subscription(db, from, "t, p");
    EXPECT_NE(db.value(state), before) << "whoever has relied on the capture begins anew";
    const CapturedSource plain(db, "t", {"id", "v"});
    const CapturedSource parted(db, "p", {"id", "v"});
    subscription.enable();
    publisher.exec(
        "insert into t select g, 'x' from generate_series(2, 9) g; insert into p select g * 30, 'x' from "
        "generate_series(1, 6) g");
    publisher.exec(
        "update t set v = 'y' where id > 5; update p set id = 199 - id; delete from t where id = 2");
    publisher.exec(
        "begin; insert into t values (20, 'gone'); truncate p; insert into p values (5, 'last'); commit");
    wait_until("all is applied", [&] { return db.value("select count(*) from p where v = 'last'") == "1"; });
    EXPECT_EQ(plain.differences(db), "0");
    EXPECT_EQ(parted.differences(db), "0");
    EXPECT_EQ(db.value("select sum(weight) from " + plain.buffer()), db.value("select count(*) from t"));
    EXPECT_EQ(db.value("select sum(weight) from " + parted.buffer()), "1");
}

TEST_F(StreamCapture, a_stream_table_follows_a_subscription_that_came_later) {
    const auto from = cluster().quiet_database();
    Connection publisher(from);
    publisher.exec("create table t (id int primary key, v int); insert into t values (1, 1)");
    db.exec(
        "create table t (id int primary key, v int); insert into t values (100, 1);"
        "select baton.create_stream_table('doubles', 'select id, v * 2 as v from t', null, 'DIFFERENTIAL')");
    const auto refreshed = [this] {
        return db.value("select mode from baton.refresh_stream_table('doubles')");
    };
    const auto wrong = [this] {
        return db.value("select missing + surplus from baton.verify_stream_table('doubles')");
    };
    const auto applied = [this](const std::string& id) {
        wait_until("all is applied",
                   [&] { return other.value("select count(*) from t where id = " + id) == "1"; });
    };
    db.exec("insert into t values (101, 1)");
    EXPECT_EQ(refreshed(), "DIFFERENTIAL");
    EXPECT_EQ(refreshed(), "DIFFERENTIAL") << "this session knows the stream table now";
    {
        Subscription subscription(other, from, "t");
        subscription.enable();
        publisher.exec("insert into t values (2, 2), (3, 3); update t set v = 9 where id = 1");
        publisher.exec("insert into t values (4, 4)");
        applied("4");
        EXPECT_EQ(refreshed(), "FULL") << "nobody captured what was applied before";
        EXPECT_EQ(wrong(), "0");
        publisher.exec(
            "delete from t where id = 2; update t set v = 7 where id = 3; insert into t values (5, 5)");
        applied("5");
        EXPECT_EQ(refreshed(), "DIFFERENTIAL") << "now triggers of rows capture what is applied";
        EXPECT_EQ(wrong(), "0");
        EXPECT_EQ(db.value("select count(*) from doubles"), "6");
    }
    db.exec("insert into t values (102, 1)");
    refreshed();
    db.exec("insert into t values (103, 1)");
    EXPECT_EQ(refreshed(), "DIFFERENTIAL") << "without the subscription all is as before";
    EXPECT_EQ(wrong(), "0");
}

TEST_F(StreamCapture, a_restored_source_is_written_to_before_it_is_captured_again) {
    db.exec("create table t (id int); insert into t values (1); create table u (id int)");
    const CapturedSource source(db, "t", {"id"});
    db.exec("insert into t values (2)");
    const auto to = cluster().database_for_restore();
    dump_and_restore(url, to);
    Connection restored(to);
    restored.exec("insert into t values (3); update t set id = -id; delete from t where id = -1");
    EXPECT_EQ(restored.value("select count(*) from pg_class where relname ~ '^changes_[0-9]+$'"), "1");
    EXPECT_EQ(restored.value("select baton_internal.change_buffer('t') is null"), "t")
        << "the dump's buffer is nobody's";
    const CapturedSource again(restored, "t", {"id"});
    EXPECT_EQ(restored.value("select count(*) from pg_class where relname ~ '^changes_[0-9]+$'"), "1");
    restored.exec("insert into t values (4)");
    EXPECT_EQ(again.weights(restored), "1");
    EXPECT_EQ(again.differences(restored), "0");
}

TEST(StreamCaptureCrash, table_and_buffer_come_back_from_a_crash_as_one) {
    Cluster own(Form::extension);
    const auto url = own.quiet_database();
    Connection db(url);
    db.exec("create table t (id int, v text); insert into t select g, 'x' from generate_series(1, 100) g");
    const CapturedSource source(db, "t", {"id", "v"});
    std::vector<std::future<void>> writers;
    for (int n = 0; n < 2; ++n)
        writers.push_back(std::async(std::launch::async, [&] {
            Connection writer(url);
            try {
                for (;;)
                    writer.exec(
                        "begin; insert into t select g, md5(random()::text) from generate_series(1, 50) g;"
                        "update t set v = v || 'y' where id % 7 = (random() * 7)::int;"
                        "delete from t where random() < 0.1; commit");
            } catch (const Error&) {  // the server is gone
            }
        }));
    wait_until("there are changes",
               [&] { return db.value("select count(*) > 3000 from " + source.buffer()) == "t"; });
    own.server().kill_hard();
    for (auto& writer : writers) writer.get();
    own.server().start();
    Connection after(url);
    EXPECT_EQ(source.differences(after), "0");
    after.exec("insert into t values (1, 'z')");
    EXPECT_EQ(source.differences(after), "0");
}
