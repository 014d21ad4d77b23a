// `baton audit` as a user runs it: on a file, on a real broker, with relays that are killed; and on a sink
// that loses events, which it must not call good.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "audit/report.hpp"
#include "brokers/redis/tests/server.hpp"
#include "chaos/stands.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class Auditing : public testing::Test {
  protected:
    Ran audit(const std::vector<std::string>& more) const {
        std::vector<std::string> words{"audit", "--db", url, "--json"};
        words.insert(words.end(), more.begin(), more.end());
        return run_baton(words);
    }
    // The report, which must be there whatever it says.
    static nlohmann::json report_of(const Ran& ran) {
        auto report = nlohmann::json::parse(ran.output, nullptr, false);
        EXPECT_TRUE(report.is_object()) << ran.output << ran.errors;
        return report.is_object() ? report : nlohmann::json::object();
    }
    static void expect_good(const Ran& ran) {
        EXPECT_EQ(ran.exit_code, 0) << ran.output << ran.errors;
        const auto report = report_of(ran);
        EXPECT_EQ(report.value("verdict", ""), "good");
        EXPECT_GT(report.value("committed", 0), 300);
        EXPECT_GT(report.value("rolled_back", 0), 10);
        EXPECT_GT(report["latency_with_faults"].value("events", 0), 300);
    }

    std::string url = shared_cluster(Form::extension).fresh_database();
    Connection admin{url};
};

TEST_F(Auditing, a_file_gets_every_event_once_when_nothing_breaks) {
    const auto ran = audit({"--seconds", "3"});
    expect_good(ran);
    EXPECT_EQ(report_of(ran).value("copies", -1), 0);
    EXPECT_EQ(admin.value("select count(*) from baton.outboxes"), "0") << "it left its outbox behind";
    EXPECT_EQ(admin.value("select count(*) from baton.consumer_groups"), "0");
    EXPECT_EQ(admin.value("select count(*) from pg_namespace where nspname like 'baton_audit%'"), "0");
}

TEST_F(Auditing, a_killed_and_a_paused_relay_lose_nothing_on_the_way_to_an_inbox) {
    const auto ran =
        audit({"--seconds", "9", "--sink", "type=postgres", "--sink", "url=" + url, "--relays", "2",
               "--lease", "1", "--fault", "kill", "--fault", "pause", "--fault-interval", "2"});
    expect_good(ran);
    const auto report = report_of(ran);
    EXPECT_GE(report["faults"].value("kill -9 of the relay", 0), 1) << report;
    EXPECT_GE(report["faults"].value("relay stopped longer than its lease", 0), 1) << report;
    EXPECT_EQ(report.value("copies", -1), 0) << "an inbox takes a message once";
}

TEST_F(Auditing, a_group_that_often_stands_still_gets_everything_while_partitions_are_retired) {
    const auto ran = audit({"--seconds", "12", "--retention", "0.5"});
    expect_good(ran);
    const auto report = report_of(ran);
    EXPECT_EQ(report["stopped_group"].value("arrived", 0), report.value("committed", -1)) << report;
    EXPECT_GT(report["stopped_group"].value("retired_partitions", 0), 0) << report;
}

TEST_F(Auditing, as_many_events_are_written_as_asked_and_the_seed_is_told) {
    const auto ran = audit({"--events", "600", "--seed", "42"});
    expect_good(ran);
    EXPECT_GE(report_of(ran).value("committed", 0), 600);
    EXPECT_EQ(report_of(ran).value("seed", 0), 42);
}

TEST_F(Auditing, large_transactions_beside_small_ones_lose_nothing_when_the_relay_is_killed) {
    const auto ran = audit({"--events", "20000", "--burst", "100", "--rate", "10000", "--keep", "--lease",
                            "1", "--fault", "kill", "--fault-interval", "0.5"});
    expect_good(ran);
    EXPECT_GE(report_of(ran)["faults"].value("kill -9 of the relay", 0), 1) << ran.output;
    const auto sizes = "from (select count(*) as events from " +
                       admin.value("select relation::text from baton.outboxes") +
                       " group by xid) as transactions";
    const auto count = [&](const std::string& which) {
        return std::stol(admin.value("select count(*) filter (where events " + which + ") " + sizes));
    };
    EXPECT_GT(count("< 10"), 10);
    EXPECT_GT(count("between 20 and 150"), 10) << "bulk has 200, and the others have few without --burst";
}

TEST_F(Auditing, a_broker_that_drops_events_is_found_out) {
    RedisServer redis;
    redis.start();
    const auto ran = audit({"--seconds", "2", "--sink", "type=redis", "--sink",
                            "url=redis://127.0.0.1:" + std::to_string(redis.port()), "--sink", "maxlen=50",
                            "--sink", "maxlen_exact=true"});
    EXPECT_EQ(ran.exit_code, 1) << ran.output << ran.errors;
    const auto report = report_of(ran);
    EXPECT_EQ(report.value("verdict", ""), "bad");
    EXPECT_GT(report["findings"].value("lost", 0), 0);
    EXPECT_FALSE(report["examples"]["lost"].empty());
}

TEST_F(Auditing, the_way_in_brings_each_message_into_an_inbox_once_although_the_relay_is_killed) {
    RedisServer redis;
    redis.start();
    const auto ran = audit({"--seconds", "6", "--source", "type=redis", "--source",
                            "url=redis://127.0.0.1:" + std::to_string(redis.port()), "--source",
                            "claim_idle=1s", "--relays", "2", "--fault", "kill", "--fault-interval", "1"});
    EXPECT_EQ(ran.exit_code, 0) << ran.output << ran.errors;
    const auto report = report_of(ran);
    EXPECT_EQ(report.value("verdict", ""), "good");
    EXPECT_GT(report.value("committed", 0), 300);
    EXPECT_GT(report.value("published_again", 0), 0);
    EXPECT_EQ(report.value("arrived", 0), report.value("committed", -1));
    EXPECT_EQ(admin.value("select count(*) from baton.inboxes"), "0") << "it left its inbox behind";
}

TEST_F(Auditing, a_sink_that_cannot_be_read_back_is_refused) {
    const auto ran = audit({"--sink", "type=null"});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("cannot be read back"), std::string::npos) << ran.errors;
}

// A short chaos run: the broker is killed and the way to it broken while relays die.
TEST_F(Auditing, nats_gets_everything_while_it_and_the_relay_are_killed) {
    const auto stand = make_stand("nats");
    audit::Plan plan;
    plan.db = url;
    plan.program = program_file();
    plan.sink = stand->sink();
    plan.reader = stand->reader();
    plan.duration = std::chrono::seconds(8);
    plan.lease = std::chrono::seconds(1);
    plan.relays = 2;
    plan.fault_interval = std::chrono::seconds(1);
    plan.faults = broker_faults(*stand);
    plan.faults.resize(2);
    plan.faults.insert(plan.faults.begin(), audit::kill_relay());
    const auto report = audit::run_audit(plan);
    EXPECT_TRUE(report.good()) << audit::as_text(report);
    EXPECT_GE(report.faults.size(), 3U) << audit::as_text(report);
}

}  // namespace
