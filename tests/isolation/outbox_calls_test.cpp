// The functions that each outbox has, while tables are renamed under publishers, and after a dump.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "isolation/outbox_workload.hpp"
#include "support/restores.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class OutboxCalls : public testing::TestWithParam<Form> {};

constexpr auto deadlock = "40P01";

// Publish until told to stop, by name or by the outbox's own function; returns how many events were taken. A
// name that is gone for a moment is refused. A publisher that waited for one table and finds its name at the
// other holds both, as who exchanges their names does: the server may end either of the two, and nothing else
// is refused.
long publish_until(const std::string& url, const std::atomic<bool>& stop, const std::string& statement) {
    Connection db(url);
    db.prepare("publish", statement);
    long published = 0;
    while (!stop) {
        try {
            db.run_prepared("publish");
            ++published;
        } catch (const SqlError& error) {
            EXPECT_TRUE(error.sqlstate() == "42P01" || error.sqlstate() == deadlock) << error.what();
        }
    }
    return published;
}

// Let two outboxes change their names, again when the server ended it in favour of a publisher.
void exchange_names(Connection& db) {
    for (;;) {
        try {
            db.exec(
                "begin; alter table red rename to other; alter table blue rename to red; alter table other "
                "rename to "
                "blue; commit");
            return;
        } catch (const SqlError& error) {
            db.exec("rollback");
            if (error.sqlstate() != deadlock) throw;
        }
    }
}

}  // namespace

TEST_P(OutboxCalls, two_outboxes_that_change_names_under_their_publishers_mix_nothing_up) {
    const auto url = shared_cluster(GetParam()).quiet_database();
    Connection db(url);
    db.exec("select baton.create_outbox('red'), baton.create_outbox('blue')");
    std::atomic<bool> stop{false};
    std::atomic<long> by_function{0};
    std::atomic<long> by_name{0};
    std::vector<std::thread> publishers;
    publishers.emplace_back(
        [&] { by_function = publish_until(url, stop, "select baton_internal.publish_1('red', '{}')"); });
    publishers.emplace_back(
        [&] { by_name = publish_until(url, stop, "select baton.publish('red', 'by name', '{}')"); });
    for (int i = 0; i < 30; ++i) {
        exchange_names(db);
        if (i % 5 == 0) db.exec("select baton.alter_outbox('red', retention => '1 day')");
        db.exec("select pg_sleep(0.01)");
    }
    stop = true;
    for (auto& publisher : publishers) publisher.join();
    // an even number of changes: every name is where it was
    EXPECT_EQ(db.value("select count(*) from red where event_type = 'red'"), std::to_string(by_function));
    EXPECT_EQ(db.value("select count(*) from blue where event_type = 'red'"), "0");
    EXPECT_EQ(db.value("select (select count(*) from red where event_type = 'by name') + (select count(*) "
                       "from blue where event_type = 'by name')"),
              std::to_string(by_name));
    EXPECT_GT(by_function, 0);
    EXPECT_GT(by_name, 0);
}

TEST_P(OutboxCalls, functions_come_with_a_dump_and_work_at_once) {
    Cluster& cluster = shared_cluster(GetParam());
    const auto from = cluster.quiet_database();
    const auto to = cluster.database_for_restore();
    {
        Connection db(from);
        db.exec("select baton.create_outbox('filler'), baton.drop_outbox('filler')");  // other numbers
        db.exec("select baton.create_outbox('events'), baton.set_setting('outbox_enabled', 'off')");
    }
    dump_and_restore(from, to);
    Connection db(to);
    const auto own = "baton_internal.publish_" +
                     db.value("select outbox_id from baton.outboxes where relation = 'events'::regclass");
    for (const std::string& call : {std::string("baton.publish('events', 'e', '{}')"), own + "('e', '{}')"}) {
        try {
            db.exec("select " + call);
            ADD_FAILURE() << call << " published although publishing is off";
        } catch (const SqlError& error) {
            EXPECT_EQ(error.sqlstate(), "BT005");
        }
    }
    db.exec("select baton.set_setting('outbox_enabled', 'on')");
    db.exec("select baton.publish('events', 'by name', '{}'), " + own + "('own', '{}')");
    db.exec("select * from baton.publish_many('events', '[{\"event_type\": \"many\"}]')");
    EXPECT_EQ(db.value("select string_agg(event_type, ',' order by id) from events"), "by name,own,many");
    EXPECT_EQ(db.value("select has_function_privilege('baton_producer', '" + own + "'::regproc, 'execute')"),
              "t");
    db.exec("call baton.run_maintenance()");
    EXPECT_EQ(
        db.value("select prosrc like '%=) ' || 'events'::regclass::oid || '::%' from pg_proc where oid = '" +
                 own + "'::regproc"),
        "t");
    db.exec("select " + own + "('own again', '{}')");
    EXPECT_EQ(db.value("select count(*) from events"), "4");
}

INSTANTIATE_TEST_SUITE_P(Forms, OutboxCalls, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
