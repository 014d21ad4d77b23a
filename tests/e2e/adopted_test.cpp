// Tables that were there before baton, drained by the real `baton relay` into a webhook: killed in the
// middle, shared, paused, and with events that the receiver does not take.

#include <gtest/gtest.h>
#include <signal.h>

#include "adopted_relays.hpp"
#include "tables/adopted_source.hpp"

using namespace baton;
using namespace baton::test;
using namespace std::chrono_literals;

namespace {

std::string name_of_layout(const testing::TestParamInfo<Layout>& info) {
    return info.param.label;
}

class AdoptedRelay : public testing::TestWithParam<Layout> {
  protected:
    void be_silent_too_long(std::optional<bool> ordered);

    const Layout& layout = GetParam();
    Table table{layout};
    Receiver receiver;
    Relays relays{table};
};

class OrderedTable : public AdoptedRelay {};

std::vector<Layout> ordered_layouts() {
    std::vector<Layout> ordered;
    std::ranges::copy_if(layouts(), std::back_inserter(ordered), &Layout::ordered);
    return ordered;
}

// Let one relay claim rows and say nothing until another has them, then try to settle.
void AdoptedRelay::be_silent_too_long(std::optional<bool> ordered) {
    table.insert(1, 10);
    tables::AdoptedOptions options;
    options.ordered = ordered;
    options.conninfo = table.url;
    options.table = table.name();
    options.owner = "slow";
    options.lease = 1000ms;
    tables::Holder holder;
    const auto slow = tables::AdoptedSource::take(options, holder);
    ASSERT_TRUE(slow);
    const auto lost = slow->read(1000ms);
    ASSERT_TRUE(lost);
    ASSERT_EQ(lost->events.size(), 10U);
    EXPECT_TRUE(slow->may_send());
    options.owner = "quick";
    options.lease = 60s;
    std::unique_ptr<tables::AdoptedSource> quick;
    wait_until("the quick one may work", [&] {
        quick = tables::AdoptedSource::take(options, holder);
        return quick != nullptr;
    });
    std::vector<relay::BatchPtr> taken;
    std::set<std::string> ids;
    wait_until("the quick one has the rows", [&] {
        if (auto batch = quick->read(100ms)) {
            taken.push_back(batch);
            for (const auto& event : batch->events) ids.emplace(event.source_id);
        }
        quick->tend(1ms);
        return ids.size() == 10;
    });
    EXPECT_FALSE(slow->may_send());
    slow->settle(lost, lost->events.size(), {});
    EXPECT_THROW(slow->tend(1ms), Error);
    EXPECT_EQ(table.value(layout.done), "0");
    for (const auto& batch : taken) quick->settle(batch, batch->events.size(), {});
    quick->tend(1ms);
    EXPECT_EQ(table.value(layout.done), "10");
}

}  // namespace

// An open transaction holds back vacuum in the whole database.
TEST_P(AdoptedRelay, rows_are_held_by_no_transaction_for_as_long_as_the_sink_is_down) {
    const auto holding = [this] {
        return table.value(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid() and state = 'idle in transaction'");
    };
    table.insert(1, 20);
    receiver.webhook.stop();
    relays.configure(receiver.sink(), "hold_limit = \"1s\"");
    auto relay = relays.start("one");
    const bool locks = table.value("select keeps_locks from baton.adopted_outboxes") == "t";
    if (!locks) relays.wait_for_log("one", "they are given back until the sink takes events");
    wait_until("no transaction is open", [&] { return holding() == "0"; });
    EXPECT_EQ(table.value(layout.done), "0");
    receiver.webhook.start();
    wait_until("all arrived and are done", [&] { return table.value(layout.done) == "20"; });
    expect_all(receiver.numbers(), 20);
    EXPECT_EQ(relay.stop(60s), 0);
}

// What a slow sink has taken is settled when its time is over, so that it gets ahead.
TEST_P(AdoptedRelay, a_sink_that_is_slower_than_the_limit_gets_ahead_all_the_same) {
    table.insert(1, 40);
    relays.configure(receiver.sink(), "hold_limit = \"1s\"", "[pipeline.limits]\nrate = 10\n");
    auto relay = relays.start("one");
    wait_until("all are done", [&] { return table.value(layout.done) == "40"; });
    expect_all(receiver.numbers(), 40);
    EXPECT_EQ(relay.stop(60s), 0);
}

TEST_P(AdoptedRelay, a_killed_relay_loses_nothing_and_the_next_one_goes_on) {
    constexpr int rows = 400;
    table.insert(1, rows);
    relays.configure(receiver.sink(), "batch = 50");
    auto first = relays.start("one");
    wait_until("some have arrived", [&] { return receiver.webhook.kept().size() >= 60; });
    receiver.webhook.hold();
    wait_until("some are on their way", [&] { return receiver.webhook.held() > 0; });
    first.signal(SIGKILL);
    first.wait(10s);
    receiver.webhook.release();
    EXPECT_NE(table.value(layout.done), std::to_string(rows));
    auto second = relays.start("two");
    wait_until("all are done", [&] { return table.value(layout.done) == std::to_string(rows); });
    EXPECT_EQ(second.stop(), 0);
    expect_all(receiver.numbers(), rows);
    if (layout.ordered) expect_key_order(receiver.numbers());
    EXPECT_EQ(table.open(), "0");
}

TEST_P(AdoptedRelay, what_the_sink_refuses_fails_by_the_tables_own_rules) {
    constexpr int rows = 60;
    table.insert(1, rows);
    std::atomic<int> refusals{0};
    receiver.webhook.answer_with([&](const WebhookRequest& request) -> WebhookAnswer {
        const int n = Receiver::number_of(request);
        if (n == 7) return {400, "seven is not for us", {}};
        if (n == 11 && ++refusals <= 2) return {503, "eleven comes too early", {}};
        return {};
    });
    relays.configure(receiver.sink(), {}, "[pipeline.failure]\nattempts = 1\nbackoff = \"10ms\"\n");
    auto relay = relays.start("one");
    wait_until("all but one are done", [&] { return table.value(layout.done) == std::to_string(rows - 1); });
    EXPECT_EQ(table.value(layout.dead), "7");
    EXPECT_NE(table.db.value("select error from baton.adopted_dead_letters($1)", {table.name()})
                  .find("seven is not for us"),
              std::string::npos);
    EXPECT_EQ(table.db.value("select failed >= 2 from baton.adopted_status($1)", {table.name()}), "t")
        << "eleven failed once by the table's count, and seven";
    expect_all(receiver.numbers(), rows, {7});
    EXPECT_EQ(receiver.numbers().size(), static_cast<std::size_t>(rows - 1)) << "something came twice";
    if (layout.ordered) expect_key_order(receiver.numbers());
    table.db.query("select baton.replay_adopted($1, array(select id from baton.adopted_dead_letters($1)))",
                   {table.name()});
    receiver.webhook.answer_with([](const WebhookRequest&) { return WebhookAnswer{}; });
    wait_until("the replayed one is done", [&] { return table.value(layout.done) == std::to_string(rows); });
    EXPECT_EQ(relay.stop(), 0);
}

TEST_P(AdoptedRelay, a_relay_that_stops_gives_back_what_it_has_not_sent) {
    table.insert(1, 100);
    relays.configure(receiver.sink(), "batch = 30", "[pipeline.limits]\nmax_in_flight = 5\n", "1h");
    std::ofstream(relays.folder / "relay.toml", std::ios::app) << "drain = \"30s\"\n";
    receiver.webhook.hold();
    auto first = relays.start("one");
    wait_until("some are on their way", [&] { return receiver.webhook.held() > 0; });
    first.signal(SIGTERM);
    relays.wait_for_log("one", "draining");
    receiver.webhook.release();
    wait_until("it ends", [&] { return first.wait(100ms).has_value(); });
    const auto delivered = receiver.numbers().size();
    EXPECT_LT(delivered, 100U);
    EXPECT_EQ(table.value(layout.done), std::to_string(delivered)) << "what was sent is done";
    auto second = relays.start("two");
    wait_until("the rest is done, long before the lease ends",
               [&] { return table.value(layout.done) == "100"; });
    EXPECT_EQ(receiver.numbers().size(), 100U) << "something came twice";
    EXPECT_EQ(second.stop(), 0);
}

TEST_P(AdoptedRelay, a_relay_that_stops_in_the_middle_of_its_work_leaves_nothing_to_be_sent_twice) {
    constexpr std::size_t rows = 2000;
    table.insert(1, rows);
    relays.configure(receiver.sink(), "batch = 100", "[pipeline.limits]\nmax_in_flight = 7\n", "1h");
    for (int stop = 0; stop < 3; ++stop) {
        const auto before = receiver.numbers().size();
        auto relay = relays.start("one");
        wait_until("it is at work", [&] { return receiver.numbers().size() > before + 20; });
        EXPECT_EQ(relay.stop(), 0);
        const auto arrived = receiver.numbers().size();
        ASSERT_LT(arrived, rows) << "it was at its end";
        EXPECT_EQ(table.value(layout.done), std::to_string(arrived)) << "what was sent is done";
    }
    auto last = relays.start("two");
    wait_until("the rest is done", [&] { return table.value(layout.done) == std::to_string(rows); });
    EXPECT_EQ(last.stop(), 0);
    EXPECT_EQ(receiver.numbers().size(), rows) << "something came twice";
}

TEST_P(AdoptedRelay, a_relay_that_was_silent_too_long_settles_nothing) {
    be_silent_too_long({});
}

TEST_P(AdoptedRelay, nor_does_it_where_relays_share_the_table) {
    be_silent_too_long(false);
}

TEST_P(AdoptedRelay, a_relay_that_is_slow_and_alive_keeps_its_rows) {
    table.insert(1, 10);
    tables::AdoptedOptions options;
    options.ordered = false;
    options.conninfo = table.url;
    options.table = table.name();
    options.owner = "slow";
    options.lease = 2000ms;
    tables::Holder holder;
    const auto slow = tables::AdoptedSource::take(options, holder);
    const auto batch = slow->read(1000ms);
    ASSERT_TRUE(batch);
    options.owner = "quick";
    const auto quick = tables::AdoptedSource::take(options, holder);
    const auto until = std::chrono::steady_clock::now() + 3 * options.lease;
    wait_until("three leases have passed", [&] {
        slow->tend(1ms);
        EXPECT_TRUE(slow->may_send());
        EXPECT_FALSE(quick->read(1ms)) << "nothing is free";
        return std::chrono::steady_clock::now() > until;
    });
    slow->settle(batch, batch->events.size(), {});
    slow->tend(1ms);
    EXPECT_EQ(table.value(layout.done), "10");
}

TEST_P(AdoptedRelay, order_decides_whether_relays_share_a_table) {
    table.insert(1, 100);
    receiver.webhook.hold();
    relays.configure(receiver.sink() + "max_concurrent = 32\n", "batch = 5");
    auto first = relays.start("one");
    wait_until("one has claimed what it may", [&] { return receiver.webhook.held() >= 6; });
    auto second = relays.start("two");
    if (layout.ordered) {
        relays.wait_for_log("two", "pipeline stands by");
    } else {
        wait_until("both have something on its way", [&] { return receiver.webhook.held() > 10; });
    }
    receiver.webhook.release();
    wait_until("all are done", [&] { return table.value(layout.done) == "100"; });
    EXPECT_EQ(receiver.numbers().size(), 100U) << "something came twice";
    expect_all(receiver.numbers(), 100);
    if (layout.ordered) expect_key_order(receiver.numbers());
    EXPECT_EQ(first.stop(), 0);
    EXPECT_EQ(second.stop(), 0);
}

TEST_P(AdoptedRelay, check_looks_at_the_table_too) {
    table.insert(1, 1);
    relays.configure(receiver.sink());
    auto ran = relays.check();
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_EQ(ran.output, "pipeline out: ok\n");
    EXPECT_EQ(table.open(), "1");
    relays.configure(receiver.sink(), {}, "[pipeline.failure]\nmax_attempts = 3\n");
    ran = relays.check();
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("max_attempts is not for an adopted table"), std::string::npos) << ran.errors;
    table.db.query("select baton.unadopt_outbox($1)", {table.name()});
    relays.configure(receiver.sink());
    ran = relays.check();
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("is not an outbox"), std::string::npos) << ran.errors;
}

TEST_P(OrderedTable, a_key_waits_for_its_failed_event_also_after_a_restart) {
    constexpr int next = 1 + Table::keys;  // of the same key
    table.insert(1, next);
    tables::AdoptedOptions options;
    options.conninfo = table.url;
    options.table = table.name();
    options.owner = "one";
    tables::Holder holder;
    auto source = tables::AdoptedSource::take(options, holder);
    ASSERT_TRUE(source);
    const auto batch = source->read(1000ms);
    ASSERT_EQ(batch->events.size(), static_cast<std::size_t>(next));
    source->settle(batch, batch->events.size(),
                   {{&batch->events.front(), "not now", relay::Failure::Kind::retry},
                    {&batch->events.back(), "", relay::Failure::Kind::blocked}});
    source->close();
    source.reset();
    EXPECT_EQ(table.value(layout.done), std::to_string(next - 2));
    options.owner = "two";
    source = tables::AdoptedSource::take(options, holder);
    ASSERT_TRUE(source) << "the first has left";
    std::vector<int> attempts;
    wait_until("both have come", [&] {
        const auto more = source->read(100ms);
        if (!more) return attempts.size() == 2;
        for (const auto& event : more->events) attempts.push_back(event.attempt);
        source->settle(more, more->events.size(), {});
        return false;
    });
    EXPECT_EQ(attempts, (std::vector<int>{2, 1})) << "first the one that failed, then the one that waited";
    EXPECT_EQ(table.value(layout.done), std::to_string(next));
}

INSTANTIATE_TEST_SUITE_P(Layouts, OrderedTable, testing::ValuesIn(ordered_layouts()), name_of_layout);
INSTANTIATE_TEST_SUITE_P(Layouts, AdoptedRelay, testing::ValuesIn(layouts()), name_of_layout);
