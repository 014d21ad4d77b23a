#include "conformance/source_conformance.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "assembly/pipeline_parts.hpp"
#include "brokers/broker.hpp"
#include "brokers/registry.hpp"
#include "conformance/driver.hpp"
#include "conformance/way_in.hpp"
#include "relay/transform.hpp"
#include "support/program.hpp"

namespace baton::test::conformance {

namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using relay::Pipeline;

const Table slowly{{"limits.rate", std::int64_t{400}}};

void stop(Pipeline& pipeline) {
    pipeline.request_stop();
    pipeline.join();
}

// Wait for everything, stop, and look at what came.
void finish(WayIn& way, Pipeline& pipeline, SourceFixture& fixture) {
    way.wait_for(way.sent());
    fixture.wait_for_quiet(way.place());
    stop(pipeline);
    way.expect_all();
}

}  // namespace

void every_message_arrives_once_with_its_id_headers_and_body(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add("plain", "k", R"({"a":1})").headers = {
        {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
        {"tracestate", "vendor=1"}};
    way.add("unicode \"ü\" {}", "schlüssel", R"({"ж":"日本語 \ud83d\ude00"})").headers = {
        {"name", "wért"}, {"empty", ""}, {"colon", "a: b"}, {"event-type", "order.placed"}};
    way.add("empty", "k", "", "text/plain");
    way.add("keyless", "", "[1, 2]");
    way.add("large", "k", "\"" + std::string(fixture.largest_body() - 2, 'x') + "\"");
    std::string binary;
    for (int i = 0; i < 512; ++i) binary += static_cast<char>(i);
    way.add("binary", "k", binary, "application/octet-stream");
    way.add("image", "k", binary, "image/png");
    way.publish();
    const auto pipeline = way.start();
    finish(way, *pipeline, fixture);
    std::map<std::string, Arrived> by_id;
    for (const auto& it : way.arrived()) by_id[it.id] = it;
    for (const auto& sent : way.messages()) {
        const Arrived& got = by_id[sent.message_id];
        EXPECT_EQ(got.key, sent.key) << sent.message_id;
        const auto headers = json::parse(got.headers);
        EXPECT_EQ(headers.at("content-type"), sent.content_type) << sent.message_id;
        for (const auto& header : sent.headers) {
            if (header.value.empty() && !fixture.keeps_empty_headers()) continue;
            EXPECT_EQ(headers.value(header.name, "missing"), header.value)
                << sent.message_id << " " << header.name;
        }
        if (sent.content_type == "application/json") {
            ASSERT_TRUE(got.has_payload) << sent.message_id;
            EXPECT_EQ(json::parse(got.payload), json::parse(sent.body)) << sent.message_id;
        } else {
            EXPECT_TRUE(got.has_bytes) << sent.message_id;
            EXPECT_EQ(got.bytes, sent.body) << sent.message_id;
        }
    }
    EXPECT_EQ(by_id["unicode \"ü\" {}"].event_type, "order.placed");
    EXPECT_EQ(Connection(way.database()).value("select trace_id from arrivals where trace_id is not null"),
              "4bf92f3577b34da6a3ce929d0e0e4736");
}

void what_was_committed_and_not_acknowledged_comes_again_as_a_duplicate(SourceFixture& fixture,
                                                                        Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add_keyed(100);
    way.publish();
    const auto settings = way.settings();
    const auto source = brokers::make_source(settings.below("source"), {"in", "one"});
    {
        // A relay that dies after its sink has committed and before it can settle.
        const auto feed = source->open();
        std::vector<relay::BatchPtr> batches;
        std::size_t read = 0;
        wait_until("all is read", [&] {
            if (auto batch = feed->read(100ms)) {
                read += batch->events.size();
                batches.push_back(std::move(batch));
            }
            return read >= fixture.readable(way.sent());
        });
        const auto sink = brokers::make_sink(settings.below("sink"));
        relay::Transform transform(settings.below("sink"), settings.below("filter"),
                                   brokers::form_of(settings.below("sink")));
        Messages messages;
        std::deque<std::string> storage;
        for (const auto& batch : batches)
            for (const auto& event : batch->events) transform.render(event, messages, storage.emplace_back());
        Driver driver(*sink);
        driver.give({messages.begin(), messages.end()});
        driver.run();
        EXPECT_EQ(way.count(), read);
        batches.clear();
    }
    const auto pipeline = way.start();
    wait_until(
        "all came again", [&] { return way.duplicates() >= fixture.readable(way.sent()); }, 120s);
    finish(way, *pipeline, fixture);
}

void nothing_is_acknowledged_before_the_inbox_has_committed(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add_keyed(200);
    way.publish();
    cluster.server().stop();
    {
        const auto pipeline = way.start();
        wait_until("all is read", [&] { return pipeline->status().read >= fixture.readable(way.sent()); });
        wait_until("the sink is in trouble", [&] { return !pipeline->status().trouble.empty(); });
        stop(*pipeline);
    }
    EXPECT_EQ(fixture.held(way.place()), way.sent());
    cluster.server().start();
    const auto pipeline = way.start();
    finish(way, *pipeline, fixture);
}

void nothing_is_lost_when_the_broker_is_killed_in_the_middle(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add_keyed(600);
    way.publish();
    const auto pipeline = way.start("one", slowly);
    way.wait_for(100);
    fixture.kill_broker();
    fixture.start_broker();
    way.add_keyed(100);
    way.publish();
    finish(way, *pipeline, fixture);
}

void nothing_is_lost_and_order_holds_while_connections_are_cut(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add_keyed(1000);
    way.publish();
    const auto pipeline = way.start("one", slowly);
    for (const std::size_t count : {100U, 300U, 500U, 700U}) {
        way.wait_for(count);
        fixture.proxy().cut();
    }
    finish(way, *pipeline, fixture);
    if (fixture.orders_redelivery()) way.expect_key_order();
}

void a_half_open_connection_is_given_up_and_all_arrives(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add_keyed(300);
    way.publish();
    const auto pipeline = way.start("one", slowly);
    way.wait_for(50);
    fixture.proxy().swallow(Proxy::Swallow::everything);
    way.add_keyed(100);
    way.publish();
    const auto connections = fixture.proxy().accepted();
    wait_until(
        "it tries another connection", [&] { return fixture.proxy().accepted() > connections; }, 120s);
    fixture.proxy().heal();
    finish(way, *pipeline, fixture);
}

void nothing_is_lost_when_the_database_is_killed_in_the_middle(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add_keyed(600);
    way.publish();
    const auto pipeline = way.start("one", slowly);
    way.wait_for(100);
    cluster.server().kill_hard();
    wait_until("the sink is in trouble", [&] { return !pipeline->status().trouble.empty(); });
    cluster.server().start();
    finish(way, *pipeline, fixture);
    if (fixture.orders()) way.expect_key_order();  // nothing was delivered again by the broker
}

void nothing_is_lost_when_the_relay_is_killed_again_and_again(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add_keyed(600);
    way.publish();
    const TemporaryFolder folder;
    way.write_config(folder / "relay.toml", slowly);
    const std::vector<std::string> words{"relay", "--db", way.database(), "--config",
                                         (folder / "relay.toml").string()};
    for (const std::size_t count : {50U, 200U, 350U}) {
        Process relay = start_baton(words, folder / "out", folder / "errors");
        way.wait_for(count);
        relay.signal(SIGKILL);
        relay.wait(10s);
    }
    Process relay = start_baton(words, folder / "out", folder / "errors");
    way.wait_for(way.sent());
    fixture.wait_for_quiet(way.place());
    EXPECT_EQ(relay.stop(), 0);
    way.expect_all();
}

void what_cannot_be_read_is_kept_with_its_bytes_and_the_others_go_on(SourceFixture& fixture,
                                                                     Cluster& cluster) {
    WayIn way(fixture, cluster);
    const std::map<std::string, std::pair<std::string, std::string>> bad{
        {"broken", {"{\"a\":", "application/json"}},
        {"no utf-8", {"{\"a\":\"\xff\"}", "application/json"}},
        {"zero", {R"({"a":"\u0000"})", "application/json"}},  // JSON that jsonb cannot hold
        {"text", {"\xc3(", "text/plain"}},
        {"envelope", {"{}", "application/cloudevents+json"}},
    };
    way.add_keyed(40);
    for (const auto& [id, content] : bad) {
        way.add(id, "key-1", content.first, content.second).headers = {{"origin", id}};
        way.add_keyed(40);
    }
    way.publish();
    const auto pipeline = way.start();
    way.wait_for(way.sent());
    fixture.wait_for_quiet(way.place());
    stop(*pipeline);
    EXPECT_EQ(fixture.held(way.place()), 0U);
    std::size_t good = 0;
    std::set<std::string> kept;
    for (const auto& it : way.arrived()) {
        if (it.error.empty()) {
            ++good;
            continue;
        }
        const std::string origin = json::parse(it.headers).at("origin");
        ASSERT_TRUE(bad.contains(origin));
        EXPECT_EQ(it.bytes, bad.at(origin).first) << origin;
        EXPECT_FALSE(it.has_payload) << origin;
        kept.insert(origin);
    }
    EXPECT_EQ(kept.size(), bad.size());
    EXPECT_EQ(good, way.sent() - bad.size());
    EXPECT_EQ(Connection(way.database()).value("select count(*) from dlq_arrivals"),
              std::to_string(bad.size()));
}

void a_slow_inbox_slows_the_source_and_does_not_fill_memory(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add_keyed(400, 100'000);  // 40 MB
    way.publish();
    cluster.server().stop();
    const auto pipeline = way.start(
        "one", {{"limits.max_bytes", std::int64_t{3} << 20}, {"source.batch_bytes", std::int64_t{1} << 20}});
    wait_until("it is full", [&] { return pipeline->status().buffered_bytes >= 3U << 20; });
    std::size_t most = 0;
    // Longer than the time after which a source does something about its broker while it may not read.
    const auto until = std::chrono::steady_clock::now() + 3s;
    wait_until("some time has passed", [&] {
        most = std::max(most, pipeline->status().buffered_bytes);
        return std::chrono::steady_clock::now() > until;
    });
    EXPECT_LT(most, 16U << 20);
    EXPECT_LT(pipeline->status().read, way.sent() / 2);
    cluster.server().start();
    finish(way, *pipeline, fixture);
}

void readers_come_and_go_and_nothing_is_lost(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add_keyed(1500);
    way.publish();
    const auto first = way.start("one", slowly);
    way.wait_for(100);
    const auto second = way.start("two", slowly);
    way.wait_for(400);
    way.add_keyed(300);
    way.publish();
    stop(*first);
    way.wait_for(700);
    const auto third = way.start("three", slowly);
    way.wait_for(way.sent());
    fixture.wait_for_quiet(way.place());
    stop(*second);
    stop(*third);
    // Some may have been read by one that had to give them up before it could acknowledge them.
    const auto last = way.start("four");
    wait_until("nothing is left", [&] { return fixture.held(way.place()) == 0; });
    stop(*last);
    way.expect_all();
}

void a_graceful_stop_leaves_nothing_unacknowledged_that_was_committed(SourceFixture& fixture,
                                                                      Cluster& cluster) {
    WayIn way(fixture, cluster);
    way.add_keyed(800);
    way.publish();
    {
        const auto pipeline = way.start("one", slowly);
        way.wait_for(100);
        stop(*pipeline);
    }
    const std::size_t committed = way.count();
    EXPECT_LT(committed, way.sent());
    EXPECT_EQ(fixture.held(way.place()), way.sent() - committed);
    const auto pipeline = way.start();
    finish(way, *pipeline, fixture);
    EXPECT_EQ(way.duplicates(), 0U);
}

void an_inbox_that_is_missing_is_waited_for(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster, false);
    way.add_keyed(100);
    way.publish();
    const auto pipeline = way.start();
    wait_until("it says why",
               [&] { return pipeline->status().trouble.find("arrivals") != std::string::npos; });
    Connection(way.database()).query("select baton.create_inbox('arrivals')");
    finish(way, *pipeline, fixture);
    if (fixture.orders()) way.expect_key_order();
}

void check_tells_a_reachable_broker_from_one_that_is_not(SourceFixture& fixture, Cluster& cluster) {
    WayIn way(fixture, cluster);
    const assembly::RelayIdentity identity{way.database(), "one"};
    EXPECT_NO_THROW(assembly::check_source(way.settings(), identity));
    EXPECT_NO_THROW(assembly::check_sink(way.settings()));
    if (fixture.knows_missing_places()) {
        auto settings = way.settings();
        for (const auto& [key, value] : fixture.source("not-there", "one"))
            settings.set("source." + key, value);
        EXPECT_THROW(assembly::check_source(settings, identity), Error);
    }
    if (fixture.knows_unreachable()) {
        fixture.proxy().refuse();
        EXPECT_THROW(assembly::check_source(way.settings(), identity), Error);
        fixture.proxy().heal();
    }
    auto settings = way.settings();
    settings.set("source.no_such_setting", "1");
    EXPECT_THROW(assembly::make_parts(settings, identity), relay::SettingsError);
}

}  // namespace baton::test::conformance
