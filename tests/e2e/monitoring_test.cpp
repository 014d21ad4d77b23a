// The alert rules and the dashboard in monitoring/, with Debian's Prometheus, real relays, a real broker and
// a database in which everything goes wrong.

#include <regex>

#include "base/file.hpp"
#include "brokers/redis/tests/server.hpp"
#include "relaying.hpp"
#include "support/prometheus.hpp"

namespace baton::test {
namespace {

using nlohmann::json;

const std::filesystem::path monitoring = BATON_SOURCE "/monitoring";

Ran run_promtool(const std::vector<std::string>& words) {
    Command command;
    command.argv = {"promtool"};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    return run_separately(command);
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
    const std::regex wanted(pattern);
    std::set<std::string> found;
    for (auto at = std::sregex_iterator(text.begin(), text.end(), wanted); at != std::sregex_iterator(); ++at)
        found.insert((*at)[1]);
    return found;
}

// The lines that docs/metrics.md must have, from the file with the rules.
std::set<std::string> rows_of_docs(const std::string& rules) {
    std::map<std::string, std::string> rule;
    std::set<std::string> rows;
    std::istringstream text(rules);
    const std::regex entry("^ +(?:- )?(alert|labels|description|command): (.*)$");
    for (std::string line; std::getline(text, line);) {
        std::smatch found;
        if (!std::regex_match(line, found, entry)) continue;
        std::string value = found[2];
        if (value.starts_with("'"))
            value = std::regex_replace(value.substr(1, value.size() - 2), std::regex("''"), "'");
        rule[found[1]] = value;
        if (found[1] == "labels") rule["labels"] = value.substr(11, value.size() - 12);  // {severity: ...}
        if (found[1] == "command")
            rows.insert("| **" + rule["alert"] + "** | " + rule["labels"] + " | " + rule["description"] +
                        " | `" + value + "` |");
    }
    return rows;
}

TEST(Rules, are_accepted_by_promtool_and_each_alert_is_tested_and_in_the_docs) {
    const auto rules = monitoring / "prometheus" / "baton.rules.yml";
    const auto tests = monitoring / "prometheus" / "baton.rules.test.yml";
    for (const auto& ran :
         {run_promtool({"check", "rules", rules.string()}), run_promtool({"test", "rules", tests.string()})})
        EXPECT_EQ(ran.exit_code, 0) << ran.output << ran.errors;
    const auto alerts = matches(text_of(rules), "- alert: (\\w+)");
    EXPECT_GT(alerts.size(), 30U);
    EXPECT_EQ(matches(text_of(tests), "alertname=\"(\\w+)\"\\}', value"), alerts);
    EXPECT_EQ(matches(text_of(BATON_SOURCE "/docs/metrics.md"), "\n(\\| \\*\\*[^\n]*)"),
              rows_of_docs(text_of(rules)));
}

class Monitoring : public Relaying {
  protected:
    Monitoring() {
        admin.exec("update baton.jobs set enabled = false");  // nobody mends what is broken here
        broker.start();
        write_config("type = \"redis\"\nurl = \"redis://127.0.0.1:" + std::to_string(broker.port()) + "\"\n");
        // The rules as they are, but for the patience.
        std::ofstream(folder / "rules.yml") << std::regex_replace(
            text_of(monitoring / "prometheus" / "baton.rules.yml"), std::regex("for: [0-9]+m"), "for: 1s");
    }

    void prepare_objects();
    void break_groups();
    void break_outboxes();
    void break_inboxes();
    void break_streams_and_jobs();
    void run_commands(const Prometheus& prometheus);

    RedisServer broker;
    Connection holder{url};
};

std::set<std::string> firing(const Prometheus& prometheus) {
    std::set<std::string> names;
    const auto alerts = json::parse(prometheus.ask("/api/v1/alerts"));
    for (const auto& alert : alerts.at("data").at("alerts"))
        if (alert.at("state") == "firing") names.insert(alert.at("labels").at("alertname"));
    return names;
}

std::string joined(const std::set<std::string>& names) {
    std::string all;
    for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
    return all;
}

void Monitoring::prepare_objects() {
    admin.exec(
        "select baton.create_consumer_group(E'no\"body\\\\s\\n{} </script>', 'orders', 'earliest');"
        "select baton.create_inbox('arrivals'), baton.create_inbox('\"in order\"'), "
        "baton.create_inbox('gone');"
        "select baton.enable_inbox_ordering('\"in order\"', 'aggregate_id', 'sequence_num');"
        "create table goods (id int primary key, price int);"
        "select baton.create_stream_table('cheap', 'select id from goods where price < 10', schedule => "
        "'1h');"
        "select baton.create_stream_table('dear', 'select id from goods where price > 99', schedule => '1h');"
        "select baton.refresh_stream_table('cheap'), baton.refresh_stream_table('dear');"
        "create function tidy() returns void language sql as 'select';"
        "create table moments (due timestamptz); create view work as select due from moments;"
        "insert into baton.jobs (name, routine, every, next_due, work) values ('waits', 'public.tidy', '1 "
        "day', now() - "
        "interval '1 hour', 'public.work')");
    admin.exec("call baton.run_maintenance()");
}

// A group that nobody reads any more: a dead letter, an event that fails for ever, late events, a silent
// consumer.
void Monitoring::break_groups() {
    admin.exec(
        "select baton.seek_offset(group_name, 'c', null) from baton.consumer_groups where group_name like "
        "'no%'");
    admin.exec(
        "insert into orders (event_type, occurred_at) select 'old', now() - interval '1 hour' from "
        "generate_series(1, 5)");
    admin.exec(
        "select count(*) from baton.consumer_groups g cross join lateral baton.poll_outbox(g.group_name, "
        "'c', 3) p "
        "where g.group_name like 'no%'");
    admin.exec(
        "select baton.fail_events(g.group_name, 'c', array[id], 'no', dead) from baton.consumer_groups g "
        "cross join "
        "(select id, row_number() over (order by id) = 1 as dead from orders where event_type = 'old' order "
        "by id limit 2) e "
        "where g.group_name like 'no%'");
    admin.exec(
        "update baton_internal.parked set attempt = 11 where state = 'retry';"
        "update baton_internal.consumers set last_heartbeat_at = now() - interval '5 minutes'");
}

void Monitoring::break_outboxes() {
    admin.exec("update baton.outboxes set partition_interval = '1 microsecond'");
    admin.exec("call baton.run_maintenance()");
    admin.exec(
        "update baton_internal.outbox_partitions set since = since - interval '9 days' where state = 'left';"
        "update baton_internal.outbox_partitions set state = 'archived' where state in ('new', 'ahead');"
        "update baton.outboxes set maintenance_error = 'boom';"
        "select baton.set_setting('outbox_storage_critical_mb', '0')");
}

void Monitoring::break_inboxes() {
    admin.exec(
        "select baton.receive('arrivals', 'm', 't', '{}'), baton.receive_malformed('arrivals', 'bad', "
        "'\\x00', 'no');"
        "select baton.receive('\"in order\"', 'm3', 't', '{}', aggregate_id => 'a', sequence_num => 3),"
        "       baton.receive('\"in order\"', 'm', 't', '{}', aggregate_id => 'a');"
        "update arrivals set received_at = now() - interval '1 hour', available_at = now() - interval '1 "
        "hour';"
        "update \"in order\" set received_at = now() - interval '1 hour', available_at = now() - interval '1 "
        "hour';"
        "drop table gone cascade");
}

void Monitoring::break_streams_and_jobs() {
    admin.exec(
        "insert into goods values (1, 1);"
        "update baton.stream_tables set stopped_at = now(), failed_in_a_row = 10 where relation = "
        "'dear'::regclass;"
        "update baton.stream_tables set next_due = now() - interval '1 hour' where relation = "
        "'cheap'::regclass;"
        "insert into baton.jobs (name, routine, every, next_due, last_success, failed_in_a_row, begun_at) "
        "values "
        "('fails', 'public.tidy', '1 day', now() + interval '1 day', now() - interval '2 days', 3, null),"
        "('hangs', 'public.tidy', '1 day', now() + interval '1 day', null, 0, now() - interval '2 hours')");
    // A job that nobody can run when its work comes: its row is locked.
    holder.exec("begin; insert into orders (event_type) values ('open')");
    holder.exec("select from baton.jobs where name = 'waits' for update");
    admin.exec("insert into moments values (now() - interval '1 hour')");
    admin.exec("select baton_internal.alert('something_happened', 'x')");
}

// Each command of an alert that asks the database must work as it is written.
void Monitoring::run_commands(const Prometheus& prometheus) {
    const auto groups = json::parse(prometheus.ask("/api/v1/rules")).at("data").at("groups");
    int count = 0;
    for (const auto& group : groups)
        for (const auto& rule : group.at("rules")) {
            const std::string command = rule.at("annotations").at("command");
            for (const auto* text : {"summary", "description"})
                EXPECT_FALSE(rule.at("annotations").at(text).get<std::string>().empty());
            if (!command.starts_with("psql ")) continue;
            Command shell;
            shell.argv = {"sh", "-c",
                          "psql() { command psql -v ON_ERROR_STOP=1 -d \"$0\" \"$@\"; }; " + command, url};
            const auto ran = run_separately(shell);
            EXPECT_EQ(ran.exit_code, 0) << command << "\n" << ran.errors;
            ++count;
        }
    EXPECT_GT(count, 20);
}

// What a panel asks for, as Grafana would send it.
std::vector<std::string> queries_of(const json& dashboard) {
    std::vector<std::string> queries;
    for (const auto& panel : dashboard.at("panels")) {
        if (panel.at("type") == "row") continue;
        for (const auto& target : panel.at("targets")) {
            std::string query = target.at("expr");
            query = std::regex_replace(query, std::regex("\\$__rate_interval"), "1m");
            queries.push_back(std::regex_replace(query, std::regex("\\$job"), ".*"));
        }
    }
    return queries;
}

const std::set<std::string> all_that_fire{
    "BatonCircuitOpen",       "BatonConfigurationBad",  "BatonConsumersSilent",  "BatonDatabaseDown",
    "BatonDeadLetters",       "BatonEventKeepsFailing", "BatonEventsLate",       "BatonEventsVeryLate",
    "BatonInboxDeadLetters",  "BatonInboxGap",          "BatonInboxLate",        "BatonInboxStalled",
    "BatonInboxUnclaimable",  "BatonInboxUnreadable",   "BatonJobFails",         "BatonJobHangs",
    "BatonJobNotRun",         "BatonMaintenanceFails",  "BatonNoLeader",         "BatonOutboxTooLarge",
    "BatonPartitionsMissing", "BatonRelayDown",         "BatonRetentionBlocked", "BatonStreamTableFails",
    "BatonStreamTableLate",   "BatonStreamTableStopped"};

TEST_P(Monitoring, alerts_fire_and_the_dashboard_has_something_to_show) {
    prepare_objects();
    const auto here = [](int port) { return "127.0.0.1:" + std::to_string(port); };
    const int ports[] = {find_free_port(), find_free_port(), find_free_port()};
    auto relay = start("one", {"--listen", here(ports[0])});
    publish(1, 5);
    Prometheus prometheus(
        {{"baton", here(ports[0])}, {"baton-lost", here(ports[1])}, {"baton-gone", here(ports[2])}},
        folder / "rules.yml");
    prometheus.start();
    wait_until("nothing is wrong but that two relays are missing",
               [&] { return firing(prometheus) == std::set<std::string>{"BatonRelayDown"}; });

    auto lost = start_baton({"relay", "--db", "host=127.0.0.1 port=1", "--listen", here(ports[1])},
                            folder / "lost.out", folder / "lost.log");
    broker.stop();
    break_groups();
    publish(6, 10);
    break_outboxes();
    break_inboxes();
    break_streams_and_jobs();
    std::ofstream(folder / "one.toml", std::ios::app) << "nonsense";
    std::set<std::string> missing = all_that_fire;
    try {
        wait_until("the alerts fire", [&] {
            for (const auto& name : firing(prometheus)) missing.erase(name);
            return missing.empty();
        });
    } catch (const Error&) {
        ADD_FAILURE() << "these do not fire: " << joined(missing);
    }

    const auto dashboard = json::parse(text_of(monitoring / "grafana" / "baton.json"));
    for (const auto& query : queries_of(dashboard)) {
        // The sink is away: no event has failed by its own fault, and none is told by its type.
        if (query.find("baton_pipeline_failures_total") != std::string::npos) continue;
        wait_until("there is an answer to " + query,
                   [&] { return !json::parse(prometheus.query(query)).at("data").at("result").empty(); });
    }

    run_commands(prometheus);
    broker.start();
    wait_until("the broker is back", [&] { return !firing(prometheus).contains("BatonCircuitOpen"); });
    EXPECT_EQ(relay.stop(std::chrono::seconds(30)), 0);
    EXPECT_EQ(lost.stop(std::chrono::seconds(30)), 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, Monitoring, testing::Values(Form::extension),
                         [](const auto& form) { return name_of(form.param); });

}  // namespace
}  // namespace baton::test
