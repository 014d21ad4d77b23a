// What several relays say on /metrics together, and that nothing keeps a relay from saying the rest.

#include <httplib.h>

#include "relaying.hpp"

namespace baton::test {
namespace {

// The samples of one scrape: name and labels, then the value.
using Samples = std::map<std::string, double>;

Samples scrape(int port) {
    httplib::Client http("127.0.0.1", port);
    Samples samples;
    const auto answer = http.Get("/metrics");
    if (!answer) return samples;
    std::istringstream text(answer->body);
    for (std::string line; std::getline(text, line);)
        if (!line.starts_with("#"))
            samples[line.substr(0, line.rfind(' '))] = std::stod(line.substr(line.rfind(' ')));
    return samples;
}

class Metrics : public Relaying {
  protected:
    // A relay with pipelines to a sink that is away.
    Process start_relay(const std::string& name, const std::vector<std::string>& pipelines, int port,
                        const std::string& lease = "2s") {
        std::ofstream file(folder / (name + ".toml"));
        for (const auto& pipeline : pipelines)
            file << "[[pipeline]]\nname = \"" << pipeline
                 << "\"\n[pipeline.source]\noutbox = \"orders\"\nlease = \"" << lease
                 << "\"\n[pipeline.sink]\ntype = \"redis\"\nurl = \"redis://127.0.0.1:1\"\n";
        file.close();
        return start(name, {"--listen", "127.0.0.1:" + std::to_string(port)});
    }
    void wait_for_owners(const std::string& owners) {
        wait_until("there are so many owners: " + owners, [&] {
            return admin.value("select count(distinct owner) from baton_internal.group_positions") == owners;
        });
    }
};

// The sum over some scrapes, and in how many the sample is.
std::pair<double, int> sum(const std::vector<Samples>& scrapes, const std::string& sample) {
    double total = 0;
    int times = 0;
    for (const auto& samples : scrapes)
        if (const auto found = samples.find(sample); found != samples.end()) {
            total += found->second;
            ++times;
        }
    return {total, times};
}

TEST_P(Metrics, a_sum_over_relays_is_right_and_a_leader_that_stops_is_replaced_at_once) {
    const int ports[] = {find_free_port(), find_free_port()};
    admin.exec("select baton.create_consumer_group(E'no\"body\\\\s\\n{}', 'orders', 'earliest')");
    publish(1, 5);
    auto first = start_relay("one", {"a"}, ports[0]);
    wait_for_owners("1");
    auto second = start_relay("two", {"a", "b"}, ports[1]);
    wait_for_owners("2");
    const std::string unowned = R"(baton_group_lag_events{group="no\"body\\s\n{}"})";
    std::vector<Samples> scrapes;
    const auto told_once = [&](const std::string& sample, double value) {
        return sum(scrapes, sample) == std::make_pair(value, 1);
    };
    wait_until("each group is told of once", [&] {
        scrapes = {scrape(ports[0]), scrape(ports[1])};
        return told_once(R"(baton_group_lag_events{group="a"})", 5) &&
               told_once(R"(baton_group_lag_events{group="b"})", 5) && told_once(unowned, 5) &&
               sum(scrapes, "baton_relay_groups_owned").first == 2;
    });
    EXPECT_TRUE(scrapes[0].contains(R"(outbox_lag_seconds{group="a"})")) << "the owner tells";
    EXPECT_TRUE(scrapes[1].contains(R"(outbox_lag_seconds{group="b"})")) << "the owner tells";
    EXPECT_TRUE(told_once(R"(baton_outbox_events_published_total{outbox="public.orders"})", 5));
    EXPECT_EQ(sum(scrapes, R"(baton_job_runs_total{task="watch the clock"})").second, 1);
    EXPECT_EQ(sum(scrapes, "baton_relay_leader"), std::make_pair(1.0, 2));

    const bool first_leads = scrapes[0]["baton_relay_leader"] == 1;
    EXPECT_EQ((first_leads ? first : second).stop(std::chrono::seconds(30)), 0);
    EXPECT_EQ(admin.value("select count(*) from baton_internal.relay_leader where duty = 'metrics'"), "0");
    wait_until("the other relay tells of what nobody owns", [&] {
        scrapes = {scrape(ports[first_leads ? 1 : 0])};
        return told_once(unowned, 5) && told_once("baton_relay_leader", 1);
    });
    EXPECT_EQ((first_leads ? second : first).stop(std::chrono::seconds(30)), 0);
}

// Only one form: nothing here differs between them, and a lease takes half a minute to end.
class MetricsAfterDeath : public Metrics {};

TEST_P(MetricsAfterDeath, a_leader_that_was_killed_is_replaced_and_nothing_is_counted_twice_meanwhile) {
    const int ports[] = {find_free_port(), find_free_port(), find_free_port()};
    admin.exec("select baton.create_consumer_group('nobodys', 'orders', 'earliest')");
    publish(1, 5);
    auto first = start_relay("one", {"a"}, ports[0]);
    wait_until("the first relay leads", [&] { return scrape(ports[0])["baton_relay_leader"] == 1; });
    wait_for_owners("1");
    auto second = start_relay("two", {"a", "b"}, ports[1], "20s");
    auto third = start_relay("three", {"a", "c"}, ports[2], "20s");
    wait_for_owners("3");

    const std::string of_second = R"(baton_group_lag_events{group="b"})";
    const std::string of_third = R"(baton_group_lag_events{group="c"})";
    const std::string of_nobody = R"(baton_group_lag_events{group="nobodys"})";
    const std::string all[] = {of_second,
                               of_third,
                               of_nobody,
                               R"(baton_group_lag_events{group="a"})",
                               R"(baton_outbox_events_published_total{outbox="public.orders"})",
                               R"(baton_job_runs_total{task="watch the clock"})"};
    std::vector<Samples> scrapes;
    const auto tellers = [&](const std::string& sample) { return sum(scrapes, sample).second; };
    const auto each_is_told_once = [&] {
        return sum(scrapes, "baton_relay_leader").first == 1 &&
               std::all_of(std::begin(all), std::end(all),
                           [&](const auto& one) { return tellers(one) == 1; });
    };
    wait_until("all is told once", [&] {
        scrapes = {scrape(ports[0]), scrape(ports[1]), scrape(ports[2])};
        return each_is_told_once();
    });
    EXPECT_EQ(scrapes[0]["baton_relay_leader"], 1);
    EXPECT_EQ(sum(scrapes, of_nobody).first, 5);

    first.signal(SIGKILL);
    first.wait(std::chrono::seconds(30));
    EXPECT_EQ(admin.value("select count(*) from baton_internal.relay_leader where duty = 'metrics'"), "1")
        << "it could not leave";
    bool nobody_led = false;
    wait_until("all is told once again", [&] {
        scrapes = {scrape(ports[1]), scrape(ports[2])};
        for (const auto& one : all) EXPECT_LE(tellers(one), 1) << one;
        EXPECT_LE(sum(scrapes, "baton_relay_leader").first, 1);
        if (sum(scrapes, "baton_relay_leader").first == 0) {
            nobody_led = true;
            EXPECT_EQ(tellers(of_second), 1) << "its owner lives";
            EXPECT_EQ(tellers(of_third), 1) << "its owner lives";
            EXPECT_EQ(tellers(of_nobody), 0) << "only a leader tells of it";
        }
        return each_is_told_once();
    });
    EXPECT_TRUE(nobody_led);
    EXPECT_EQ(sum(scrapes, of_nobody).first, 5);
    for (auto* relay : {&second, &third}) EXPECT_EQ(relay->stop(std::chrono::seconds(30)), 0);
}

TEST_P(Metrics, a_question_that_fails_hides_no_other_and_alerts_and_reloads_are_counted) {
    const int port = find_free_port();
    auto relay = start_relay("one", {"a"}, port);
    Samples samples;
    const auto wait_for = [&](const std::string& sample, double value) {
        wait_until(sample + " is " + std::to_string(value), [&] {
            samples = scrape(port);
            const auto found = samples.find(sample);
            return found != samples.end() && found->second == value;
        });
    };
    wait_until("it has looked at the database, and listens",
               [&] { return scrape(port)["baton_database_round_trip_seconds_count"] > 0; });
    wait_for(R"(baton_database_answers{question="jobs"})", 1);
    admin.exec("alter function baton_internal.tell_jobs() rename to tell_nothing");
    wait_for(R"(baton_database_answers{question="jobs"})", 0);
    EXPECT_FALSE(samples.contains(R"(baton_job_runs_total{task="watch the clock"})"));
    EXPECT_TRUE(samples.contains(R"(baton_outbox_size_bytes{outbox="public.orders"})"));
    EXPECT_EQ(samples["baton_database_up"], 1);
    admin.exec("alter function baton_internal.tell_nothing() rename to tell_jobs");
    wait_for(R"(baton_database_answers{question="jobs"})", 1);

    admin.exec("select baton_internal.alert('it_happened', 'x'); notify baton_alert, 'no json'");
    wait_for(R"(baton_alerts_total{event="it_happened"})", 1);
    wait_for(R"(baton_alerts_total{event="other"})", 1);
    const double read_at = samples["baton_configuration_last_reload_timestamp_seconds"];
    relay.signal(SIGHUP);
    wait_for(R"(baton_configuration_reloads_total{result="good"})", 1);
    EXPECT_GT(samples["baton_configuration_last_reload_timestamp_seconds"], read_at);
    std::ofstream(folder / "one.toml", std::ios::app) << "nonsense";
    wait_for(R"(baton_configuration_reloads_total{result="bad"})", 1);
    EXPECT_EQ(relay.stop(std::chrono::seconds(30)), 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, Metrics, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });

INSTANTIATE_TEST_SUITE_P(Forms, MetricsAfterDeath, testing::Values(Form::extension),
                         [](const auto& form) { return name_of(form.param); });

}  // namespace
}  // namespace baton::test
