// The server is killed in the middle of everything that is done to stream tables. Whatever was under way left
// nothing behind, and each stream table and its outbox go on from where they were.

#include <gtest/gtest.h>

#include <future>

#include "isolation/stream_subject.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class StreamCrash : public testing::Test {
  protected:
    static Cluster& cluster() {
        static Cluster own(Form::extension);
        return own;
    }

    void SetUp() override {
        url = cluster().quiet_database();
        connect();
        make_sources(*db);
        before = inventory(*db);
        make_stream_tables(*db);
        change_sources(*db, 1);
        refresh_all(*db);
        change_sources(*db, 2);
        made = inventory(*db);
    }
    void connect() { db = std::make_unique<Connection>(url); }
    // Kill the server while `statement` waits for what somebody holds, with everything that was done until
    // then on the disk; then start it.
    void crash_in(const std::string& statement, const std::string& hold) {
        Connection holder(url);
        holder.exec("begin; " + hold);
        const int pid = db->backend_pid();
        auto acting = std::async(std::launch::async, [&]() -> std::string {
            try {
                db->exec(statement);
                return "it was done";
            } catch (const ConnectionError&) {
                return "";
            } catch (const SqlError& error) {
                return error.what();
            }
        });
        Connection watcher(url);
        wait_until("the statement waits", [&] {
            return acting.wait_for(std::chrono::seconds(0)) == std::future_status::ready ||
                   watcher.value("select count(*) from pg_locks where pid = $1 and not granted", {pid}) !=
                       "0";
        });
        watcher.exec("checkpoint");
        cluster().server().kill_hard();
        EXPECT_EQ(acting.get(), "") << statement;
        cluster().server().start();
        connect();
    }

    // Nothing has come or gone, and all goes on: by differences where it did before.
    void expect_to_go_on() {
        EXPECT_EQ(inventory(*db), made);
        EXPECT_EQ(refresh_all(*db), modes);
        EXPECT_EQ(subject_differences(*db), "");
        change_sources(*db, 3);
        EXPECT_EQ(refresh_all(*db), modes);
        EXPECT_EQ(subject_differences(*db), "");
    }

    static constexpr const char* modes = "DIFFERENTIAL DIFFERENTIAL FULL DIFFERENTIAL";
    std::string url;
    std::unique_ptr<Connection> db;
    std::string before, made;
};

}  // namespace

TEST_F(StreamCrash, in_a_refresh_whose_changes_are_in_the_table_and_not_yet_in_the_outbox) {
    for (const auto* name : {"joined", "counted"}) {
        const std::string events = std::string("select count(*) from tester.outbox_") + name;
        const auto count = db->value(events);
        crash_in(std::string("select baton.refresh_stream_table('tester.") + name + "')",
                 std::string("lock table tester.outbox_") + name + " in share mode");
        EXPECT_EQ(db->value(events), count);
        expect_to_go_on();
        change_sources(*db, 4);
    }
}

TEST_F(StreamCrash, in_an_update_whose_rows_are_changed_and_whose_changes_are_not_yet_captured) {
    const auto sum = db->value("select sum(amount) from orders");
    crash_in("update orders set amount = amount + 1000",
             "lock table " + db->value("select baton_internal.change_buffer('orders')") + " in share mode");
    EXPECT_EQ(db->value("select sum(amount) from orders"), sum);
    expect_to_go_on();
}

TEST_F(StreamCrash, while_the_query_is_another_one_and_the_table_not_yet) {
    crash_in(
        "select baton.alter_stream_table('tester.totals', query => 'select customer, count(*) as orders, "
        "sum(amount) as total from public.orders where amount > 5 group by customer')",
        "lock table tester.outbox_totals in share mode");
    expect_to_go_on();
}

TEST_F(StreamCrash, while_a_stream_table_is_made) {
    db->exec("create table loose (n int); insert into loose select generate_series(1, 100)");
    made = inventory(*db);
    const std::string statement = "select baton.create_stream_table('tester.late', 'select n from loose')";
    crash_in(statement, "lock table baton.stream_tables in share mode");
    crash_in(statement, "insert into loose values (0)");  // the capture waits for writers
    crash_in(statement, "lock table baton_internal.stream_refreshes in share mode");
    expect_to_go_on();
    db->exec(statement);
    EXPECT_EQ(db->value("select count(*) from tester.late"), "100");
}

TEST_F(StreamCrash, while_a_stream_table_goes_and_nothing_is_left_of_those_that_went) {
    crash_in("select baton.drop_stream_table('tester.joined')", "select from tester.joined");
    crash_in("select baton.disable_outbox('tester.joined')", "select from tester.outbox_joined");
    crash_in("select baton.drop_stream_table('tester.totals', cascade => true)", "select from tester.totals");
    expect_to_go_on();
    db->exec(
        "select baton.drop_stream_table('tester.totals', cascade => true), "
        "baton.drop_stream_table('tester.joined'), baton.drop_stream_table('tester.counted')");
    db->exec("select baton_internal.maintain_streams()");
    EXPECT_EQ(inventory(*db), before);
}

TEST_F(StreamCrash, a_transaction_prepared_before_counts_from_its_commit_on) {
    db->exec("begin");
    change_sources(*db, 5);
    db->exec("prepare transaction 'changes'");
    refresh_all(*db);
    EXPECT_EQ(subject_differences(*db), "");
    cluster().server().kill_hard();
    cluster().server().start();
    connect();
    refresh_all(*db);
    EXPECT_EQ(subject_differences(*db), "") << "it is not decided yet";
    db->exec("insert into orders values (9999, 3, 3)");
    db->exec("commit prepared 'changes'");
    EXPECT_EQ(refresh_all(*db), modes);
    EXPECT_EQ(subject_differences(*db), "");
}

TEST_F(StreamCrash, a_refresh_in_a_prepared_transaction_counts_with_it_or_not_at_all) {
    for (const std::string end : {"rollback", "commit"}) {
        db->exec("begin");
        change_sources(*db, 5);
        refresh_all(*db);
        change_sources(*db, 6);  // seen by nobody's refresh so far
        db->exec("prepare transaction 'refreshed'");
        Connection(url).exec("insert into orders values (5000, 3, 3)");
        cluster().server().kill_hard();
        cluster().server().start();
        connect();
        db->exec("insert into orders values (5001, 3, 3)");
        db->exec(end + " prepared 'refreshed'");
        EXPECT_EQ(refresh_all(*db), modes);
        EXPECT_EQ(subject_differences(*db), "") << end;
        db->exec("delete from orders where id >= 5000");
    }
}

TEST_F(StreamCrash, in_a_writer_that_refreshes_a_stream_table_itself) {
    db->exec(
        "select baton.create_stream_table('tester.instant', 'select customer, sum(amount) as total from "
        "orders "
        "group by customer', null, 'IMMEDIATE')");
    const auto differences = [this] {
        return db->value(
            "select format('%s %s', missing, surplus) from baton.verify_stream_table('tester.instant')");
    };
    refresh_all(*db);  // its source has other triggers now
    made = inventory(*db);
    const auto sum = db->value("select sum(amount) from orders");
    crash_in("update orders set amount = amount + 1000", "lock table tester.instant in share mode");
    EXPECT_EQ(db->value("select sum(amount) from orders"), sum);
    EXPECT_EQ(differences(), "0 0");
    db->exec("begin; update orders set amount = amount + 1000 where id < 100; prepare transaction 'instant'");
    cluster().server().kill_hard();
    cluster().server().start();
    connect();
    EXPECT_EQ(differences(), "0 0") << "it is not decided yet";
    db->exec("commit prepared 'instant'");
    EXPECT_EQ(differences(), "0 0");
    expect_to_go_on();
    EXPECT_EQ(differences(), "0 0");
}

TEST_F(StreamCrash, of_a_table_that_somebody_made_unlogged_is_made_up_for) {
    db->exec("alter table tester.joined set unlogged");
    try {
        db->exec("select baton.refresh_stream_table('tester.joined')");
        ADD_FAILURE() << "a table that does not outlive a crash was refreshed";
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "55000");
    }
    cluster().server().kill_hard();
    cluster().server().start();
    connect();
    EXPECT_EQ(db->value("select count(*) from tester.joined"), "0");
    db->exec("alter table tester.joined set logged; insert into orders values (9999, 3, 3)");
    db->exec("select baton.refresh_stream_table('tester.joined')");
    EXPECT_EQ(
        db->value("select format('%s %s', missing, surplus) from baton.verify_stream_table('tester.joined')"),
        "0 0");
}

TEST_F(StreamCrash, of_a_source_that_was_unlogged_and_is_logged_again_is_noticed) {
    db->exec("alter table orders set unlogged");
    cluster().server().kill_hard();
    cluster().server().start();
    connect();
    EXPECT_EQ(db->value("select count(*) from orders"), "0");
    db->exec("alter table orders set logged; insert into orders values (9999, 3, 3)");
    refresh_all(*db);
    EXPECT_EQ(subject_differences(*db), "");
    change_sources(*db, 3);
    EXPECT_EQ(refresh_all(*db), modes) << "from then on by differences again";
    EXPECT_EQ(subject_differences(*db), "");
}
