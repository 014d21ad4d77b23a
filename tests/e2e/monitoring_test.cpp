// The alert rules and the dashboard in monitoring/, with Debian's Prometheus, real relays, a real broker and
// a database in which everything goes wrong.

#include <sys/resource.h>

#include "alerts.hpp"
#include "base/file.hpp"
#include "broken_database.hpp"
#include "brokers/http/tests/receiver.hpp"
#include "brokers/redis/tests/server.hpp"
#include "relaying.hpp"

namespace baton::test {
namespace {

using nlohmann::json;

const std::filesystem::path monitoring = BATON_SOURCE "/monitoring";
const std::string rules_text = text_of(monitoring / "prometheus" / "baton.rules.yml");

Ran run_promtool(const std::vector<std::string>& words) {
    Command command;
    command.argv = {"promtool"};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    return run_separately(command);
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
    const auto alerts = alerts_of(text_of(rules));
    EXPECT_GT(alerts.size(), 30U);
    EXPECT_EQ(matches(text_of(tests), "alertname=\"(\\w+)\"\\}', value"), alerts);
    EXPECT_EQ(matches(text_of(BATON_SOURCE "/docs/metrics.md"), "\n(\\| \\*\\*[^\n]*)"),
              rows_of_docs(text_of(rules)));
}

class Monitoring : public Relaying {
  protected:
    Monitoring() {
        broker.start();
        receiver.start();
        receiver.answer_with([](const WebhookRequest& request) {
            return request.path == "/order.refused" ? WebhookAnswer{422, "never", {}} : WebhookAnswer{};
        });
        write_config("type = \"redis\"\nurl = \"redis://127.0.0.1:" + std::to_string(broker.port()) + "\"\n");
        std::ofstream(folder / "rules.yml") << shortened(rules_text);
    }

    static std::string here(int port) { return "127.0.0.1:" + std::to_string(port); }
    // A pipeline for a configuration file, to the receiver.
    std::string to_hooks(const std::string& name, const std::string& more_of_source = {},
                         const std::string& failure = {}) const {
        return "\n[[pipeline]]\nname = \"" + name + "\"\n[pipeline.source]\noutbox = \"orders\"\n" +
               more_of_source + "[pipeline.sink]\ntype = \"http\"\nurl = \"http://" + here(receiver.port()) +
               "/{event_type}\"\nallow_private = true\n[pipeline.failure]\n" + failure;
    }
    void add_to_config(const std::string& more) { std::ofstream(folder / "one.toml", std::ios::app) << more; }
    void publish_refused() { admin.query("select baton.publish('orders', 'order.refused', '{}')"); }

    Process start_without_database(int port) {
        return start_baton({"relay", "--db", "host=127.0.0.1 port=1", "--listen", here(port)},
                           folder / "lost.out", folder / "lost.log");
    }
    Process start_again_and_again(int port, const Prometheus& prometheus);
    Process start_owner_that_hangs();
    void break_pipelines(const Prometheus& prometheus);
    void ask_for_a_password(Alerts& alerts);
    static void let_files_run_out(pid_t pid, Alerts& alerts);
    void run_commands(const Prometheus& prometheus);

    RedisServer broker;
    WebhookReceiver receiver;
    BrokenDatabase database{url};
};

// A relay that is killed as soon as Prometheus has seen it, and started again.
Process Monitoring::start_again_and_again(int port, const Prometheus& prometheus) {
    for (int restarts = 0;; ++restarts) {
        auto relay = start_without_database(port);
        wait_until("restart " + std::to_string(restarts) + " is seen", [&] {
            return prometheus.value("changes(process_start_time_seconds{job=\"baton-lost\"}[15m])") ==
                   restarts;
        });
        if (restarts == 4) return relay;
        relay.signal(SIGKILL);
        relay.wait(std::chrono::seconds(30));
    }
}

// A relay that nobody scrapes hangs, and had said that it owns a pipeline for an hour. Another one knows the
// pipeline, too.
Process Monitoring::start_owner_that_hangs() {
    const auto pipeline = to_hooks("held up", "lease = \"1h\"\n");
    std::ofstream(folder / "hangs.toml") << pipeline;
    auto hangs = start("hangs");
    wait_until("the relay that will hang has its pipeline", [&] {
        return admin.value(
                   "select count(*) from baton_internal.group_positions join baton.consumer_groups "
                   "using (group_id) where group_name = 'held up' and owner is not null") == "1";
    });
    hangs.signal(SIGSTOP);
    add_to_config(pipeline);
    return hangs;
}

// One pipeline goes on without events that its sink refuses, one halts at the first of them, and one cannot
// reach its source.
void Monitoring::break_pipelines(const Prometheus& prometheus) {
    add_to_config(to_hooks("picky") + to_hooks("strict", {}, "on_poison = \"halt\"\n") +
                  "\n[[pipeline]]\nname = \"inward\"\n[pipeline.source]\ntype = \"redis\"\n"
                  "url = \"redis://127.0.0.1:1\"\nstream = \"s\"\n[pipeline.sink]\n" +
                  to_inbox());
    for (int n = 1; n <= 2; ++n) {  // a rate needs two values
        publish_refused();
        wait_until("Prometheus knows of " + std::to_string(n) + " refused events", [&] {
            return prometheus.value("outbox_failures{pipeline=\"picky\", event_type=\"order.refused\"}") == n;
        });
    }
}

// Redis asks for a password that nobody has told the relay, and then is away.
void Monitoring::ask_for_a_password(Alerts& alerts) {
    broker.stop();
    broker.options = {"--requirepass", "secret"};
    broker.start();
    publish(6, 10);
    alerts.wait_for("BatonDestinationRefuses");
    broker.stop();
    broker.options.clear();
}

// Leave a relay hardly more files than it has open, until somebody is told.
void Monitoring::let_files_run_out(pid_t pid, Alerts& alerts) {
    const std::filesystem::directory_iterator files("/proc/" + std::to_string(pid) + "/fd");
    const auto open = static_cast<rlim_t>(std::distance(begin(files), end(files)));
    rlimit before{};
    ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, nullptr, &before), 0);
    const rlimit few{open + open / 8, before.rlim_max};
    ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, &few, nullptr), 0);
    alerts.wait_for("BatonFilesRunOut");
    ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, &before, nullptr), 0);
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

TEST_P(Monitoring, every_alert_of_the_file_fires_and_the_dashboard_has_something_to_show) {
    database.prepare_objects();
    const int ports[] = {find_free_port(), find_free_port(), find_free_port()};
    Prometheus prometheus(
        {{"baton", here(ports[0])}, {"baton-lost", here(ports[1])}, {"baton-gone", here(ports[2])}},
        folder / "rules.yml");
    prometheus.start();
    Alerts alerts(prometheus, alerts_of(rules_text));
    alerts.wait_for_only({"BatonNoRelay", "BatonRelayDown"});
    auto relay = start("one", {"--listen", here(ports[0])});
    publish(1, 5);
    alerts.wait_for_only({"BatonRelayDown"});

    database.leave_a_transaction_open();
    auto lost = start_again_and_again(ports[1], prometheus);
    database.be_slow_for_a_moment();
    alerts.wait_for("BatonDatabaseSlow");
    database.hide_inboxes();
    alerts.wait_for("BatonMetricsMissing");
    database.show_inboxes();
    let_files_run_out(relay.pid(), alerts);
    const auto owner = start_owner_that_hangs();
    break_pipelines(prometheus);
    ask_for_a_password(alerts);
    database.break_groups();
    database.break_streams();
    database.break_outboxes();
    database.break_inboxes();
    database.break_jobs();
    add_to_config("nonsense");
    EXPECT_EQ(joined(alerts.wait_for_all()), "") << "these do not fire";

    const auto dashboard = json::parse(text_of(monitoring / "grafana" / "baton.json"));
    for (const auto& query : queries_of(dashboard))
        wait_until("there is an answer to " + query,
                   [&] { return !json::parse(prometheus.query(query)).at("data").at("result").empty(); });

    run_commands(prometheus);
    broker.start();
    alerts.wait_for_end_of("BatonCircuitOpen");
    EXPECT_EQ(relay.stop(std::chrono::seconds(30)), 0);
    EXPECT_EQ(lost.stop(std::chrono::seconds(30)), 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, Monitoring, testing::Values(Form::extension),
                         [](const auto& form) { return name_of(form.param); });

}  // namespace
}  // namespace baton::test
