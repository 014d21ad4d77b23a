// The real `baton relay`: what it carries and shows, several of them at once, and what happens when one is
// killed or paused.

#include <httplib.h>
#include <signal.h>

#include <thread>

#include "relaying.hpp"

using namespace baton;
using namespace baton::test;

TEST_P(Relaying, a_file_of_seven_lines_is_enough_and_sigterm_drains) {
    write_config(to_file("out.jsonl"));
    publish(1, 50);
    auto relay = start("one");
    wait_for_numbers("out.jsonl", 50);
    EXPECT_EQ(relay.stop(), 0);
    EXPECT_EQ(numbers("out.jsonl").size(), 50U);
    EXPECT_EQ(owner(), "");
    for (const auto* line :
         {"relay starts", "pipeline runs", "draining", "pipeline has stopped", "relay has stopped"})
        EXPECT_TRUE(logged("one", line)) << line;
    std::istringstream lines(text_of(folder / "one.log"));
    for (std::string line; std::getline(lines, line);) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

TEST_P(Relaying, what_a_producer_said_about_an_event_goes_along) {
    write_config(to_file("out.jsonl"));
    admin.exec(
        "select baton.publish('orders', 'order.paid', '{\"n\": 1}', idempotency_key => 'payment-7', "
        "correlation_id => 'c', causation_id => 'd', schema_version => 3);"
        "select baton.publish('orders', 'order.paid', '{\"n\": 2}')");
    auto relay = start("one");
    wait_for_numbers("out.jsonl", 2);
    EXPECT_EQ(relay.stop(), 0);
    std::istringstream lines(text_of(folder / "out.jsonl"));
    std::string line;
    std::getline(lines, line);
    const auto first = nlohmann::json::parse(line);
    EXPECT_EQ(first["idempotency_key"], "payment-7");
    EXPECT_EQ(first["correlation_id"], "c");
    EXPECT_EQ(first["causation_id"], "d");
    EXPECT_EQ(first["schema_version"], "3");
    std::getline(lines, line);
    EXPECT_FALSE(nlohmann::json::parse(line).contains("idempotency_key"));
}

TEST_P(Relaying, an_inbox_keeps_what_a_producer_said_whatever_the_envelope) {
    admin.exec("select baton.create_inbox('arrivals')");
    for (const std::string envelope : {"raw", "cloudevents-structured"}) {
        admin.exec("select baton.publish('orders', 'order.paid', '{}', idempotency_key => 'payment ' || $$" +
                   envelope + "$$, correlation_id => 'c', causation_id => 'd', schema_version => 3)");
        write_config(to_inbox() + "envelope = \"" + envelope + "\"\nmetadata = false\n");
        auto relay = start("one");
        wait_until("the event is in the inbox",
                   [&] { return admin.value("select count(*) from pending_arrivals") == "1"; });
        EXPECT_EQ(relay.stop(), 0);
        EXPECT_EQ(admin.value("select concat_ws(',', idempotency_key, correlation_id, causation_id, "
                              "schema_version) from baton.claim_inbox('arrivals', 'w')"),
                  "payment " + envelope + ",c,d,3");
        admin.exec(
            "select baton.complete('arrivals', event_id, lease_token) from arrivals where lease_token is not "
            "null");
    }
}

TEST_P(Relaying, a_killed_owner_is_replaced_and_nothing_is_lost) {
    write_config(to_file("a.jsonl"));
    auto first = start("one");
    wait_for_log("one", "pipeline runs");
    write_config(to_file("b.jsonl"), {}, "two");
    auto second = start("two");
    wait_for_log("two", "pipeline stands by");
    publish(1, 30);
    wait_for_numbers("a.jsonl", 30);
    first.signal(SIGKILL);
    first.wait(std::chrono::seconds(10));
    publish(31, 60);
    wait_until("the second has the rest", [&] {
        const auto b = numbers("b.jsonl");
        return std::set<int>(b.begin(), b.end()).contains(60);
    });
    auto all = numbers("a.jsonl");
    const auto rest = numbers("b.jsonl");
    all.insert(all.end(), rest.begin(), rest.end());
    EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), 60U);
    expect_key_order(all);
    EXPECT_EQ(second.stop(), 0);
}

TEST_P(Relaying, a_killed_relay_that_is_started_again_does_not_wait_for_its_lease) {
    write_config(to_file("a.jsonl"), {}, "one", "1h");
    auto first = start("one");
    publish(1, 30);
    wait_for_numbers("a.jsonl", 30);
    first.signal(SIGKILL);
    first.wait(std::chrono::seconds(10));
    publish(31, 60);
    auto second = start("one");
    wait_for_numbers("a.jsonl", 60);
    expect_key_order(numbers("a.jsonl"));
    EXPECT_EQ(second.stop(), 0);
}

TEST_P(Relaying, a_relay_that_is_only_stopped_keeps_its_lease) {
    write_config(to_file("a.jsonl"), {}, "one", "1h");
    auto first = start("one");
    publish(1, 30);
    wait_for_numbers("a.jsonl", 30);
    const auto before = owner();
    first.signal(SIGSTOP);
    write_config(to_file("b.jsonl"), {}, "two", "1h");
    auto second = start("two");
    wait_for_log("two", "pipeline stands by");
    EXPECT_EQ(owner(), before);
    EXPECT_EQ(second.stop(), 0);
    first.signal(SIGCONT);
    publish(31, 60);
    wait_for_numbers("a.jsonl", 60);
    EXPECT_EQ(first.stop(), 0);
}

TEST_P(Relaying, a_paused_owner_that_wakes_up_cannot_move_the_position) {
    write_config(to_file("a.jsonl"));
    auto first = start("one");
    publish(1, 20);
    wait_for_numbers("a.jsonl", 20);
    write_config(to_file("b.jsonl"), {}, "two");
    auto second = start("two");
    wait_for_log("two", "pipeline stands by");
    first.signal(SIGSTOP);
    publish(21, 40);
    wait_until("the second took over", [&] {
        const auto b = numbers("b.jsonl");
        return std::set<int>(b.begin(), b.end()).contains(40);
    });
    wait_until("its position is written", [&] {
        return admin.value("select after_id >= 40 from baton_internal.group_positions") == "t";
    });
    const auto new_owner = owner();
    const auto epoch = admin.value("select owner_epoch from baton_internal.group_positions");
    first.signal(SIGCONT);
    wait_for_log("one", "pipeline stands by");
    publish(41, 60);
    wait_until("the second goes on", [&] {
        const auto b = numbers("b.jsonl");
        return std::set<int>(b.begin(), b.end()).contains(60);
    });
    EXPECT_EQ(owner(), new_owner);
    EXPECT_EQ(admin.value("select owner_epoch from baton_internal.group_positions"), epoch);
    const auto b = numbers("b.jsonl");
    EXPECT_TRUE(std::is_sorted(b.begin(), b.end()));
    first.stop();
    second.stop();
}

TEST_P(Relaying, a_rolling_restart_leaves_no_gap) {
    admin.exec("select baton.create_inbox('arrivals')");
    for (const auto* name : {"one", "two", "three"}) write_config(to_inbox(), {}, name);
    auto first = start("one");
    wait_for_log("one", "pipeline runs");
    auto second = start("two");
    publish(1, 200);
    EXPECT_EQ(first.stop(), 0);
    publish(201, 300);
    auto third = start("three");
    EXPECT_EQ(second.stop(), 0);
    publish(301, 400);
    wait_until("all arrived", [&] { return admin.value("select count(*) from arrivals") == "400"; });
    EXPECT_EQ(third.stop(), 0);
}

TEST_P(Relaying, a_sink_that_is_away_is_told_once_and_again_when_it_is_back) {
    const int port = find_free_port();
    write_config("type = \"http\"\nurl = \"http://127.0.0.1:" + std::to_string(port) +
                 "/\"\nallow_private = true\n");
    publish(1, 20);
    auto relay = start("one");
    wait_for_log("one", "no event gets through");
    httplib::Server server;
    std::atomic<int> got = 0;
    server.Post("/", [&got](const httplib::Request&, httplib::Response&) { ++got; });
    std::thread thread([&] { server.listen("127.0.0.1", port); });
    wait_for_log("one", "events get through again");
    wait_until("all came", [&] { return got == 20; });
    publish(21, 40);
    wait_until("the others came", [&] { return got == 40; });
    EXPECT_EQ(relay.stop(), 0);
    server.stop();
    thread.join();
    const std::string log = text_of(folder / "one.log");
    EXPECT_EQ(log.find("no event gets through"), log.rfind("no event gets through")) << log;
    EXPECT_NE(log.find("refused"), std::string::npos) << log;
}

TEST_P(Relaying, two_relays_do_not_share_a_port) {
    const std::string listen = "127.0.0.1:" + std::to_string(find_free_port());
    write_config(to_file("a.jsonl"));
    auto first = start("one", {"--listen", listen});
    wait_for_log("one", "endpoints are open");
    const auto second = run_baton({"relay", "--db", url, "--listen", listen});
    EXPECT_EQ(second.exit_code, 1);
    EXPECT_NE(second.errors.find("cannot listen on " + listen), std::string::npos) << second.errors;
    const auto check = [&](const std::string& how) {
        return run_baton(
            {"relay", "--db", url, how, "--config", (folder / "one.toml").string(), "--listen", listen});
    };
    const auto taken = check("--check");
    EXPECT_EQ(taken.exit_code, 1);
    EXPECT_NE(taken.errors.find("cannot listen on " + listen), std::string::npos) << taken.errors;
    EXPECT_EQ(check("--check=settings").exit_code, 0);
    EXPECT_EQ(first.stop(), 0);
    const auto free = check("--check");
    EXPECT_EQ(free.exit_code, 0) << free.errors;
}

// The extension's worker runs the jobs where it is loaded; anywhere else a relay does, and only one of
// several.
TEST_P(Relaying, jobs_are_run_by_one_relay_where_no_worker_does) {
    if (GetParam() == Form::extension) GTEST_SKIP() << "the worker runs them";
    ASSERT_EQ(admin.value("select bool_and(runs = 0) from baton.jobs"), "t");
    for (const auto* name : {"one", "two"}) write_config(to_file(std::string(name) + ".jsonl"), {}, name);
    auto first = start("one");
    auto second = start("two");
    wait_until("every enabled job has run once, but for those without work", [&] {
        return admin.value(
                   "select bool_and(runs > 0) from baton.jobs where enabled and work is null and next_due < "
                   "clock_timestamp() + interval '1 hour'") == "t";
    });
    const auto leader = admin.value("select owner from baton_internal.relay_leader");
    const bool first_leads = leader.find(":" + std::to_string(first.pid()) + ":") != std::string::npos;
    auto& dead = first_leads ? first : second;
    dead.signal(SIGKILL);
    dead.wait(std::chrono::seconds(10));
    admin.exec("update baton_internal.relay_leader set until = now() - interval '1 s'");  // its lease is half
                                                                                          // a minute
    const auto runs = admin.value("select sum(runs) from baton.jobs");
    admin.exec("update baton.jobs set next_due = now() - interval '1 minute'");
    wait_until("the other leads and runs them", [&] {
        return admin.value("select sum(runs) > $1::numeric from baton.jobs", {runs}) == "t" &&
               admin.value("select owner <> $1 from baton_internal.relay_leader", {leader}) == "t";
    });
    EXPECT_EQ(
        admin.value("select coalesce(string_agg(name || ': ' || last_error, '; '), '') from baton.jobs"), "");
    (first_leads ? second : first).stop();
}

TEST_P(Relaying, a_refresh_of_a_stream_table_without_end_is_cancelled_where_no_worker_does) {
    if (GetParam() == Form::extension) GTEST_SKIP() << "the worker does";
    admin.exec(
        "create table endless_source (n int); "
        "select baton.create_stream_table('endless', 'select pg_sleep(100000)::text as nap from "
        "endless_source', '1s'), baton.set_setting('stream_refresh_limit_seconds', '1'); "
        "insert into endless_source values (1)");
    write_config(to_file("one.jsonl"), {}, "one");
    auto relay = start("one");
    wait_until("it was cancelled", [&] {
        return admin.value("select last_error from baton.stream_table_status('endless')") ==
               "57014: the refresh took longer than stream_refresh_limit_seconds (1)";
    });
    EXPECT_EQ(relay.stop(), 0);
}

TEST_P(Relaying, endpoints_tell_how_it_is) {
    const int port = find_free_port();
    write_config("type = \"redis\"\nurl = \"redis://127.0.0.1:1\"\n",
                 "[server]\nlisten = \"127.0.0.1:" + std::to_string(port) + "\"\n");
    publish(1, 3);
    auto relay = start("one");
    httplib::Client http("127.0.0.1", port);
    const auto status = [&http](const char* path) {
        const auto answer = http.Get(path);
        return answer ? answer->status : 0;
    };
    wait_until("it lives", [&] { return status("/livez") == 200; });
    wait_until("a sink that is away makes it unready", [&] {
        const auto answer = http.Get("/readyz");
        return answer && answer->status == 503 && answer->body.find("refused") != std::string::npos;
    });
    EXPECT_EQ(status("/drained"), 503);
    write_config(to_file("a.jsonl"), "[server]\nlisten = \"127.0.0.1:" + std::to_string(port) + "\"\n");
    relay.signal(SIGHUP);
    wait_until("it is ready", [&] { return status("/readyz") == 200; });
    wait_until("all is settled", [&] { return status("/drained") == 200; });
    const auto metrics = http.Get("/metrics");
    ASSERT_TRUE(metrics);
    for (const auto* line :
         {"\noutbox_lag_seconds{group=\"out\"} 0\n", "\noutbox_throughput{pipeline=\"out\"} 3\n",
          "# TYPE outbox_failures counter", "\noutbox_dlq_depth{group=\"out\"} 0\n",
          "baton_pipeline_state{pipeline=\"out\",state=\"running\"} 1"})
        EXPECT_NE(("\n" + metrics->body).find(line), std::string::npos) << line << "\n" << metrics->body;
    EXPECT_EQ(relay.stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, Relaying, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
