// An outbox of another server as the source of a pipeline: the group and its owner live there, the inbox
// here.

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <sstream>

#include "support/cluster.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::test;
using namespace std::chrono_literals;

namespace {

class Elsewhere : public testing::Test {
  protected:
    Elsewhere() { here.exec("select baton.create_inbox('arrivals')"); }

    void configure(const std::string& outbox, const std::string& more = {}) const {
        std::ofstream(folder / "relay.toml")
            << "[[pipeline]]\nname = \"in\"\n[pipeline.source]\ntype = \"postgres\"\nurl = \"" << there_url
            << "\"\noutbox = \"" << outbox << "\"\nlease = \"2s\"\n"
            << more << "[pipeline.sink]\ntype = \"postgres\"\nurl = \"" << here_url
            << "\"\ninbox = \"arrivals\"\n";
    }
    std::vector<std::string> words(const std::vector<std::string>& more = {}) const {
        std::vector<std::string> all{"relay", "--db", here_url, "--config", (folder / "relay.toml").string()};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    Process start(const std::string& log) const {
        return start_baton(words(), folder / (log + ".out"), folder / (log + ".log"));
    }
    void wait_for_log(const std::string& log, const std::string& what) const {
        wait_until("the log says: " + what, [&] {
            std::ifstream file(folder / (log + ".log"));
            std::ostringstream text;
            text << file.rdbuf();
            return text.str().find(what) != std::string::npos;
        });
    }
    std::string arrived() { return here.value("select count(*) from arrivals"); }

    TemporaryFolder folder;
    Cluster other{Form::plain};
    std::string there_url = other.fresh_database();
    std::string here_url = shared_cluster(Form::plain).fresh_database();
    Connection here{here_url};
};

}  // namespace

TEST_F(Elsewhere, a_group_of_another_server_is_read_and_owned_there) {
    {
        Connection there(there_url);
        there.exec("select baton.create_outbox('orders')");
        there.exec(
            "select baton.publish('orders', 'order.changed', jsonb_build_object('n', n), aggregate_id => 'k' "
            "|| n % 4) "
            "from generate_series(1, 500) n");
    }
    configure("orders");
    const auto checked = run_baton(words({"--check"}));
    EXPECT_EQ(checked.exit_code, 0) << checked.errors;
    auto first = start("one");
    wait_until("some have arrived", [&] { return arrived() != "0"; });
    auto second = start("two");
    wait_for_log("two", "pipeline stands by");
    first.signal(SIGKILL);
    first.wait(10s);
    other.server().kill_hard();
    other.server().start();
    Connection there(there_url);
    there.exec(
        "select baton.publish('orders', 'order.changed', jsonb_build_object('n', n), aggregate_id => 'k' || "
        "n % 4) "
        "from generate_series(501, 600) n");
    wait_until("all have arrived", [&] { return arrived() == "600"; });
    EXPECT_EQ(there.value("select count(*) from baton_internal.group_positions where owner is not null"),
              "1");
    EXPECT_EQ(here.value("select count(*) from baton.consumer_groups"), "0") << "nothing of it is here";
    EXPECT_EQ(second.stop(), 0);
    wait_until("the group is given back", [&] {
        return there.value("select count(*) from baton_internal.group_positions where owner is not null") ==
               "0";
    });
    EXPECT_EQ(
        here.value(
            "select count(*) from (select headers ->> 'partition-key' as key, (payload ->> 'n')::int as n, "
            "lag((payload ->> 'n')::int) over (partition by headers ->> 'partition-key' order by "
            "received_at, (payload ->> 'n')::int) as before from arrivals) x where n < before"),
        "0");
}

TEST_F(Elsewhere, an_adopted_table_of_another_server_too) {
    Connection there(there_url);
    there.exec(
        "create table mails (id bigint generated always as identity primary key, body jsonb);"
        "select baton.adopt_outbox('mails', mapping => '{\"columns\": {\"id\": \"id\", \"payload\": "
        "\"body\"}, "
        "\"done\": {\"as\": \"delete\"}}');"
        "insert into mails (body) select jsonb_build_object('n', n) from generate_series(1, 50) n");
    configure("mails");
    auto relay = start("one");
    wait_until("all have arrived", [&] { return arrived() == "50"; });
    EXPECT_EQ(relay.stop(), 0);
    EXPECT_EQ(there.value("select count(*) from mails"), "0");
}

TEST_F(Elsewhere, a_server_that_is_not_there_is_told_by_check) {
    configure("orders");
    auto ran = run_baton(words({"--check"}));
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("there is no table \"orders\""), std::string::npos) << ran.errors;
    other.server().stop();
    ran = run_baton(words({"--check"}));
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("pipeline in"), std::string::npos) << ran.errors;
}
