// Everything through PgBouncer in transaction mode: each transaction may meet another server connection.

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "support/cluster.hpp"
#include "support/pgbouncer.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class Pooling : public testing::TestWithParam<Form> {
  protected:
    Pooling() : pool(shared_cluster(GetParam()).server()) {
        pool.start();
        admin.exec("select baton.create_outbox('orders')");
    }

    Process start(const std::string& name) {
        std::ofstream(folder / (name + ".toml"))
            << "[[pipeline]]\nname = \"out\"\n[pipeline.source]\noutbox = \"orders\"\nlease = \"2s\"\n"
            << "[pipeline.sink]\ntype = \"postgres\"\nurl = \"" << pool.url(direct)
            << "\"\ninbox = \"arrivals\"\n";
        return start_baton(
            {"relay", "--db", pool.url(direct), "--config", (folder / (name + ".toml")).string()},
            folder / (name + ".out"), folder / (name + ".log"));
    }
    void publish(int from, int upto) {
        for (int n = from; n <= upto; ++n)
            admin.query(
                "select baton.publish('orders', 'order.changed', jsonb_build_object('n', $2::int), "
                "aggregate_id => $1)",
                {"k" + std::to_string(n % 4), n});
    }
    void wait_for_arrivals(const std::string& count) {
        wait_until(count + " events arrived",
                   [&] { return admin.value("select count(*) from arrivals") == count; });
    }
    std::string owner() {
        return admin.value("select coalesce(max(owner), '') from baton_internal.group_positions");
    }

    TemporaryFolder folder;
    PgBouncer pool;
    std::string direct = shared_cluster(GetParam()).fresh_database();
    Connection admin{direct};
};

TEST_P(Pooling, two_statements_meet_different_server_connections) {
    Connection db(pool.url(direct));
    std::set<std::string> pids;
    Connection other(pool.url(direct));
    wait_until("the pool changes the server connection", [&] {
        const Transaction busy(other);
        other.exec("select 1");
        pids.insert(db.value("select pg_backend_pid()"));
        return pids.size() > 1;
    });
}

TEST_P(Pooling, a_relay_carries_events_and_another_takes_over_when_it_is_killed) {
    admin.exec("select baton.create_inbox('arrivals')");
    publish(1, 20);
    auto first = start("one");
    wait_for_arrivals("20");
    auto second = start("two");
    publish(21, 40);  // it sleeps by now, and finds these by looking
    wait_for_arrivals("40");
    EXPECT_EQ(
        admin.value("select count(*) from pg_stat_activity where application_name = 'baton relay waiting' "
                    "and datname = current_database()"),
        "0")
        << "a doorbell needs a session of its own";
    EXPECT_EQ(
        admin.value("select count(*) from pg_locks where locktype = 'advisory' and database = (select oid "
                    "from pg_database where datname = current_database())"),
        "0");
    const std::string before = owner();
    ASSERT_NE(before.find(":" + std::to_string(first.pid()) + ":"), std::string::npos) << before;
    first.signal(SIGKILL);
    first.wait(std::chrono::seconds(10));
    publish(41, 60);
    wait_for_arrivals("60");
    EXPECT_NE(owner(), before);
    EXPECT_EQ(second.stop(), 0);
    EXPECT_EQ(owner(), "");
    EXPECT_EQ(
        admin.value("select string_agg(payload ->> 'n', ',' order by received_at, (payload ->> 'n')::int) = "
                    "string_agg(payload ->> 'n', ',' order by (payload ->> 'n')::int) from arrivals where "
                    "aggregate_id = 'k1'"),
        "t");
}

TEST_P(Pooling, a_pool_that_goes_away_is_waited_for) {
    admin.exec("select baton.create_inbox('arrivals')");
    auto relay = start("one");
    publish(1, 10);
    wait_for_arrivals("10");
    pool.kill_hard();
    publish(11, 20);
    pool.start();
    wait_for_arrivals("20");
    EXPECT_EQ(relay.stop(), 0);
}

TEST_P(Pooling, an_audit_through_it_is_good) {
    const auto ran = run_baton({"audit", "--db", pool.url(direct), "--seconds", "4", "--lease", "1",
                                "--fault", "kill", "--fault-interval", "1", "--json"});
    EXPECT_EQ(ran.exit_code, 0) << ran.output << ran.errors;
    const auto report = nlohmann::json::parse(ran.output, nullptr, false);
    ASSERT_TRUE(report.is_object()) << ran.output;
    EXPECT_EQ(report.value("verdict", ""), "good");
}

TEST_P(Pooling, init_and_status_work_through_it) {
    const std::string empty = shared_cluster(GetParam()).empty_database();
    const auto installed = run_baton({"init", "--db", pool.url(empty)});
    EXPECT_EQ(installed.exit_code, 0) << installed.errors;
    const auto said = run_baton({"status", "--db", pool.url(empty)});
    EXPECT_EQ(said.exit_code, 0) << said.errors;
    EXPECT_NE(said.output.find("baton 0.1.0 ("), std::string::npos) << said.output;
    EXPECT_EQ(Connection(empty).value("select count(*) from baton.outboxes"), "0");
}

INSTANTIATE_TEST_SUITE_P(Forms, Pooling, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });

}  // namespace
