#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <set>

#include "brokers/registry.hpp"
#include "conformance/driver.hpp"
#include "conformance/load.hpp"
#include "conformance/sink_fixture.hpp"

namespace baton::test::conformance {

namespace {

std::unique_ptr<relay::Sink> make(SinkFixture& fixture, const std::string& destination) {
    return brokers::make_sink(fixture.settings(destination));
}

// Sanitizers keep what was freed for a while.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

std::size_t resident_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6)) * 1024;
    return 0;
}

}  // namespace

void every_event_arrives_with_its_id_headers_and_body(SinkFixture& fixture) {
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add("plain", "a", R"({"total": 12.5})").headers = {{"event-type", "placed"},
                                                            {"traceparent", "00-ab-cd-01"}};
    load.add("unicode", "schlüssel-鍵", R"({"name":"Žofie 🚲 naïve"})").headers = {{"note", "größe 大 ✓"}};
    load.add("empty", "b", "").headers = {{"nothing", ""}};
    load.add("no-key", "", R"({"free":true})");
    load.add("quotes", "it's \"b\"", R"({"q":"line\nbreak \\ tab\t"})").headers = {
        {"q", R"(a "quoted" \ value)"}};
    std::string binary;
    for (int i = 0; i < 1024; ++i) binary.push_back(static_cast<char>(i % 256));
    load.add("binary", "c", binary).content_type = "application/octet-stream";
    load.add("text", "d", "two\nlines, with a tab\t and a snowman ☃").content_type = "text/plain";
    std::string large(fixture.largest_body(), 'y');
    load.add("large", "a", large).content_type = "text/plain";
    load.add("0190b5f0-7f3e-7c4a-8d55-0123456789ab", "a", R"([1,2,3])");

    const auto sink = make(fixture, destination);
    Driver driver(*sink);
    driver.give(load.copy());
    driver.run();
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    expect_all_arrived(fixture, destination, load);
}

void each_key_keeps_its_order_while_connections_break(SinkFixture& fixture) {
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add_keyed(fixture.messages_per_test());
    const auto sink = make(fixture, destination);
    Driver driver(*sink);
    driver.give(load.copy());
    std::size_t next_cut = 50;
    driver.run([&] {
        if (fixture.proxy() == nullptr || driver.delivered() < next_cut) return;
        fixture.proxy()->cut();
        next_cut += fixture.messages_per_test() / 5;
    });
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    expect_all_arrived(fixture, destination, load);
    expect_key_order(fixture, destination, load);
}

void nothing_is_lost_when_the_broker_is_killed_in_the_middle(SinkFixture& fixture) {
    if (!fixture.has_broker()) GTEST_SKIP() << "this sink has no broker";
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add_keyed(fixture.messages_per_test());
    const auto sink = make(fixture, destination);
    Driver driver(*sink);
    driver.give(load.copy());
    driver.run_until([&] { return driver.delivered() > fixture.messages_per_test() / 3; });
    ASSERT_FALSE(driver.done());
    fixture.kill_broker();
    // Let it notice: what was in flight meets a dead server.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    driver.run_until([&] { return driver.retries() > 0 || std::chrono::steady_clock::now() > end; });
    fixture.start_broker();
    driver.run();
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    expect_all_arrived(fixture, destination, load);
    expect_key_order(fixture, destination, load);
}

void a_sink_made_while_its_broker_is_away_delivers_once_it_is_back(SinkFixture& fixture) {
    if (!fixture.has_broker()) GTEST_SKIP() << "this sink has no broker";
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add_keyed(24);
    auto outage = std::make_unique<Outage>(fixture);
    const auto sink = make(fixture, destination);
    Driver driver(*sink);
    driver.give(load.copy());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    driver.run_until([&] { return driver.retries() > 0 || std::chrono::steady_clock::now() > end; });
    EXPECT_EQ(driver.delivered(), 0U);
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    outage.reset();
    driver.run();
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    expect_all_arrived(fixture, destination, load);
    expect_key_order(fixture, destination, load);
}

void nothing_leaves_a_sink_that_may_not_send_and_all_of_it_once_it_may(SinkFixture& fixture) {
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add_keyed(40);
    std::atomic<bool> may = true;
    const auto sink = make(fixture, destination);
    sink->send_while([&] { return may.load(); });
    Driver driver(*sink, 16);
    driver.give({load.messages().begin(), load.messages().begin() + 8});
    driver.run();
    may = false;
    driver.give({load.messages().begin() + 8, load.messages().end()});
    driver.run_until([&] { return driver.retries() >= 40; });
    EXPECT_EQ(driver.delivered(), 8U);
    if (fixture.has_broker()) {
        EXPECT_EQ(fixture.read_all(destination).size(), 8U);
    }
    may = true;
    driver.run();
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    expect_all_arrived(fixture, destination, load);
    expect_key_order(fixture, destination, load);
}

void headers_of_a_message_do_not_stand_for_its_id(SinkFixture& fixture) {
    const std::string destination = fixture.make_destination();
    Load load(destination);
    for (const std::string id : {"one", "two"})
        for (const char* name : {"message-id", "message_id", "Nats-Msg-Id", "webhook-id", "idempotency-key"})
            load.add(id + "-" + name, "k", "{}").headers = {{name, "same"}, {"event-id", id + "-" + name}};
    const auto sink = make(fixture, destination);
    Driver driver(*sink);
    driver.give(load.copy());
    driver.run();
    std::set<std::string> ids;
    for (const auto& got : fixture.read_all(destination)) ids.insert(got.id);
    EXPECT_EQ(ids.size(), load.messages().size()) << "an id that an event's header gave stands for several";
}

void a_half_open_connection_is_given_up_and_all_arrives(SinkFixture& fixture) {
    if (fixture.proxy() == nullptr) GTEST_SKIP() << "this sink has no connection";
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add_keyed(400);
    const auto sink = make(fixture, destination);
    Driver driver(*sink, 64);
    driver.give(load.copy());
    driver.run_until([&] { return driver.delivered() > 100; });
    const auto connections = fixture.proxy()->accepted();
    fixture.proxy()->swallow(Proxy::Swallow::everything);
    driver.run_until([&] { return fixture.proxy()->accepted() > connections || driver.retries() > 0; });
    fixture.proxy()->heal();
    driver.run();
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    expect_all_arrived(fixture, destination, load);
    expect_key_order(fixture, destination, load);
}

void lost_answers_leave_only_copies_with_the_same_id(SinkFixture& fixture) {
    if (fixture.proxy() == nullptr) GTEST_SKIP() << "this sink has no connection";
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add_keyed(400);
    const auto sink = make(fixture, destination);
    Driver driver(*sink, 64);
    driver.give(load.copy());
    driver.run_until([&] { return driver.delivered() > 100; });
    const auto connections = fixture.proxy()->accepted();
    fixture.proxy()->swallow(Proxy::Swallow::answers);
    driver.run_until([&] { return fixture.proxy()->accepted() > connections || driver.retries() > 0; });
    fixture.proxy()->heal();
    driver.run();
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    expect_all_arrived(fixture, destination, load);
    expect_key_order(fixture, destination, load);
}

void a_slow_broker_slows_the_sink_and_does_not_fill_memory(SinkFixture& fixture) {
    if (fixture.proxy() == nullptr) GTEST_SKIP() << "this sink has no connection";
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add_keyed(160, "s", 60'000);  // about 10 MB
    const auto sink = make(fixture, destination);
    Driver driver(*sink, 16);
    driver.give(load.copy());
    driver.run_until([&] { return driver.delivered() >= 8; });
    const std::size_t before = resident_bytes();
    std::size_t peak = before;
    fixture.proxy()->limit(2'000'000);
    driver.run([&] { peak = std::max(peak, resident_bytes()); });
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    // 16 messages of 60 kB are in flight; a sink may hold some copies of those, not of the backlog over and
    // over.
    EXPECT_LT(peak - before, (sanitized ? 256U : 32U) << 20);
    fixture.proxy()->heal();
    expect_all_arrived(fixture, destination, load);
    expect_key_order(fixture, destination, load);
}

void a_poison_message_is_rejected_and_the_others_go_on(SinkFixture& fixture) {
    const std::string destination = fixture.make_destination();
    Load before(destination);
    before.add_keyed(16, "before");
    Load good(destination);
    Load poison(destination);
    std::string storage;
    Message bad = poison.add("poison", "key-0", "{}");
    if (!fixture.poison(bad, storage)) GTEST_SKIP() << "this sink takes everything";
    const auto sink = make(fixture, destination);
    Driver driver(*sink);
    driver.give(before.copy());
    driver.give({bad});
    good.add_keyed(16, "after");
    driver.give(good.copy());
    driver.run();
    ASSERT_EQ(driver.rejected().size(), 1U) << driver.last_error();
    EXPECT_EQ(driver.rejected().begin()->first, "poison");
    EXPECT_FALSE(driver.rejected().begin()->second.empty()) << "the reason is missing";
    EXPECT_EQ(driver.delivered(), 32U);
    std::set<std::string> ids;
    for (const auto& got : fixture.read_all(destination)) ids.insert(got.id);
    EXPECT_EQ(ids.size(), 32U);
    EXPECT_FALSE(ids.contains("poison"));
}

void a_second_delivery_carries_the_same_id(SinkFixture& fixture) {
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add_keyed(40);
    for (int time = 0; time < 2; ++time) {
        const auto sink = make(fixture, destination);
        Driver driver(*sink);
        driver.give(load.copy());
        driver.run();
        EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    }
    expect_all_arrived(fixture, destination, load);
    std::map<std::string, int> copies;
    for (const auto& got : fixture.read_all(destination)) ++copies[got.id];
    EXPECT_EQ(copies.size(), 40U);
    for (const auto& [id, count] : copies) EXPECT_EQ(count, fixture.deduplicates() ? 1 : 2) << id;
}

void what_was_reported_is_there_after_the_sink_is_gone(SinkFixture& fixture) {
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add_keyed(300);
    auto sink = make(fixture, destination);
    std::set<std::string> reported;
    {
        // Straight on the interface: everything is handed over at once, and the sink is gone right after its
        // last report.
        std::vector<Message> messages;
        std::map<std::uint64_t, std::string> ids;
        std::set<std::string> keys;
        for (const auto& message : load.messages()) {
            if (!sink->traits().keeps_order_after_failure && !keys.insert(std::string(message.key)).second)
                continue;
            messages.push_back(message);
            messages.back().ticket = messages.size();
            ids[messages.size()] = message.message_id;
        }
        sink->send(messages);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!ids.empty() && std::chrono::steady_clock::now() < end) {
            std::vector<relay::Delivery> deliveries;
            sink->collect(deliveries, std::chrono::milliseconds(100));
            for (const auto& delivery : deliveries) {
                EXPECT_EQ(delivery.verdict, relay::Verdict::delivered) << delivery.error;
                reported.insert(ids.at(delivery.ticket));
                ids.erase(delivery.ticket);
            }
        }
        EXPECT_TRUE(ids.empty()) << ids.size() << " messages were never reported";
    }
    sink.reset();
    std::set<std::string> found;
    for (const auto& got : fixture.read_all(destination)) found.insert(got.id);
    EXPECT_EQ(found, reported);
}

void a_sink_with_messages_in_flight_can_be_destroyed(SinkFixture& fixture) {
    if (fixture.proxy() == nullptr) GTEST_SKIP() << "this sink has no connection";
    const std::string destination = fixture.make_destination();
    Load load(destination);
    load.add_keyed(64);
    auto sink = make(fixture, destination);
    Driver driver(*sink, 16);
    driver.give(load.copy());
    driver.run_until([&] { return driver.delivered() >= 8; });
    fixture.proxy()->swallow(Proxy::Swallow::everything);
    driver.run_until([&] { return driver.in_flight() >= 8; });
    sink.reset();
    fixture.proxy()->heal();
    std::set<std::string> ids;
    for (const auto& got : fixture.read_all(destination)) ids.insert(got.id);
    EXPECT_GE(ids.size(), driver.delivered());
}

void check_tells_a_reachable_broker_from_one_that_is_not(SinkFixture& fixture) {
    const std::string destination = fixture.make_destination();
    EXPECT_NO_THROW(make(fixture, destination)->check());
    EXPECT_TRUE(fixture.read_all(destination).empty()) << "check() must not send";
    if (!fixture.has_broker()) return;
    const Outage outage(fixture);
    try {
        make(fixture, destination)->check();
        ADD_FAILURE() << "check() found a broker that does not run";
    } catch (const Error& error) {
        EXPECT_FALSE(std::string(error.what()).empty());
    }
}

void a_wrong_login_is_waited_for_and_rejects_nothing(SinkFixture& fixture) {
    const std::string destination = fixture.make_destination();
    const auto settings = fixture.with_wrong_login(destination);
    if (!settings) GTEST_SKIP() << "this server asks for no login";
    Load load(destination);
    load.add_keyed(24);
    const auto sink = brokers::make_sink(*settings);
    Driver driver(*sink);
    driver.give(load.copy());
    driver.run_until([&] { return driver.retries() >= 100; });
    EXPECT_EQ(driver.delivered(), 0U);
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    EXPECT_FALSE(driver.last_error().empty());
    EXPECT_TRUE(fixture.read_all(destination).empty());
}

void a_missing_destination_is_waited_for_and_gets_all_once_it_is_there(SinkFixture& fixture) {
    const std::string destination = fixture.name_missing();
    if (destination.empty()) GTEST_SKIP() << "every name is a destination here";
    Load load(destination);
    load.add_keyed(40);
    const auto sink = make(fixture, destination);
    Driver driver(*sink);
    driver.give(load.copy());
    driver.run_until([&] { return driver.shut() >= 80; });
    EXPECT_EQ(driver.delivered(), 0U);
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    fixture.make_missing(destination);
    driver.run();
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    expect_all_arrived(fixture, destination, load);
    expect_key_order(fixture, destination, load);
}

void what_is_refused_in_the_middle_of_a_key_is_overtaken_by_none_of_it(SinkFixture& fixture) {
    const std::string destination = fixture.make_destination();
    const std::size_t count = fixture.messages_per_test();
    Load load(destination);
    load.add_keyed(count);
    const auto sink = make(fixture, destination);
    Driver driver(*sink, 64);
    driver.give(load.copy());
    for (const std::size_t part : {1U, 2U}) {
        driver.run_until([&] { return driver.delivered() > part * count / 3; });
        ASSERT_FALSE(driver.done());
        if (!fixture.shut(destination)) GTEST_SKIP() << "this server cannot be made to refuse";
        const auto before = driver.retries();
        driver.run_until([&] { return driver.retries() > before + 20; });
        fixture.open(destination);
    }
    driver.run();
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    expect_all_arrived(fixture, destination, load);
    expect_key_order(fixture, destination, load);
}

}  // namespace baton::test::conformance
