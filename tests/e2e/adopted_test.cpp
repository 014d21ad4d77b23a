// Tables that were there before baton, drained by the real `baton relay` into a webhook: killed in the
// middle, shared, paused, and with events that the receiver does not take.

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "adopted_layouts.hpp"
#include "brokers/http/tests/receiver.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"
#include "tables/adopted_reader.hpp"
#include "tables/adopted_source.hpp"

using namespace baton;
using namespace baton::test;
using namespace std::chrono_literals;

namespace {

std::string name_of_layout(const testing::TestParamInfo<Layout>& info) {
    return info.param.label;
}

// A table with some rows, and the relay's ways to it.
class Table {
  public:
    explicit Table(const Layout& layout) : layout_(layout) {
        db.exec(layout.ddl);
        db.query("select baton.adopt_outbox(quote_ident($1), mapping => $2)", {layout.table, layout.mapping});
    }

    void insert(int from, int upto) {
        for (int n = from; n <= upto; ++n) db.query(layout_.insert, {"k" + std::to_string(n % keys), n});
    }
    std::string value(const std::string& sql) { return db.value(sql); }
    std::string open() {
        return db.value("select pending + claimed from baton.adopted_status(quote_ident($1))",
                        {layout_.table});
    }
    std::string name() { return db.value("select quote_ident($1)", {layout_.table}); }

    static constexpr int keys = 6;
    std::string url = shared_cluster(Form::plain).fresh_database();
    Connection db{url};

  private:
    const Layout& layout_;
};

class Receiver {
  public:
    Receiver() { webhook.start(); }

    std::vector<int> numbers() const {
        std::vector<int> all;
        for (const auto& request : webhook.kept()) all.push_back(number_of(request));
        return all;
    }
    static int number_of(const WebhookRequest& request) {
        return nlohmann::json::parse(request.body).at("n");
    }
    std::string sink() const {
        return "type = \"http\"\nallow_private = true\nurl = \"http://127.0.0.1:" +
               std::to_string(webhook.port()) + "/\"\n";
    }

    WebhookReceiver webhook;
};

class Relays {
  public:
    explicit Relays(Table& table) : table_(table) {}

    void configure(const std::string& sink, const std::string& source = {}, const std::string& more = {},
                   const std::string& lease = "2s") {
        nlohmann::json name = table_.name();
        std::ofstream(folder / "relay.toml")
            << "[[pipeline]]\nname = \"out\"\n[pipeline.source]\noutbox = " << name.dump() << "\nlease = \""
            << lease << "\"\n"
            << source << "\n[pipeline.sink]\n"
            << sink << more;
    }
    Process start(const std::string& log) const {
        return start_baton({"relay", "--db", table_.url, "--config", (folder / "relay.toml").string()},
                           folder / (log + ".out"), folder / (log + ".log"));
    }
    Ran check() const {
        return run_baton(
            {"relay", "--db", table_.url, "--check", "--config", (folder / "relay.toml").string()});
    }
    bool logged(const std::string& log, const std::string& what) const {
        std::ifstream file(folder / (log + ".log"));
        std::ostringstream text;
        text << file.rdbuf();
        return text.str().find(what) != std::string::npos;
    }
    void wait_for_log(const std::string& log, const std::string& what) const {
        wait_until("the log says: " + what, [&] { return logged(log, what); });
    }

    TemporaryFolder folder;

  private:
    Table& table_;
};

void expect_all(const std::vector<int>& got, int upto, const std::set<int>& without = {}) {
    const std::set<int> seen(got.begin(), got.end());
    for (int n = 1; n <= upto; ++n) EXPECT_EQ(seen.contains(n), !without.contains(n)) << n;
}

// Each key's first deliveries must come in order; repeats may only repeat what was there.
void expect_key_order(const std::vector<int>& got) {
    std::map<int, int> last;
    std::set<int> seen;
    for (const int n : got) {
        if (!seen.insert(n).second) continue;
        EXPECT_LT(last[n % Table::keys], n) << "key k" << n % Table::keys;
        last[n % Table::keys] = n;
    }
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

TEST(AdoptedEvents, routing_keys_with_commas_fan_out) {
    Table table(layout("ulid"));
    Receiver receiver;
    Relays relays(table);
    table.db.exec(
        "insert into outbox_events (id, topic, occurred_at, aggregate_id, aggregate_type, routing_key, "
        "payload) "
        "values (baton.ulid(), 'catalog.product.created', now(), 'p', 'Product', 'catalog.created, search', "
        "'{\"n\": 1}'), (baton.ulid(), 'catalog.product.deleted', now(), 'p', 'Product', null, '{\"n\": "
        "2}')");
    relays.configure("type = \"http\"\nallow_private = true\nurl = \"http://127.0.0.1:" +
                     std::to_string(receiver.webhook.port()) + "/{topic}\"\n");
    auto relay = relays.start("one");
    wait_until("both are done", [&] { return table.value(layout("ulid").done) == "2"; });
    std::multiset<std::string> paths;
    for (const auto& request : receiver.webhook.kept()) paths.insert(request.path);
    EXPECT_EQ(paths, (std::multiset<std::string>{"/catalog.created", "/search", "/catalog.product.deleted"}));
    EXPECT_EQ(relay.stop(), 0);
}

TEST(AdoptedConsumers, read_the_done_events_behind_their_own_offset) {
    Table table(layout("messages"));
    Receiver receiver;
    Relays relays(table);
    table.insert(1, 300);
    table.db.exec("update outbox_messages set processed_at = now() where (payload ->> 'n')::int <= 200");
    relays.configure(receiver.sink(), "consumer = \"mailer\"\nbatch = 20");
    EXPECT_EQ(relays.check().exit_code, 0);
    const std::string offset = "select coalesce(max(last_processed_id), 0) from consumer_offsets";
    auto first = relays.start("one");
    wait_until("some have arrived", [&] { return receiver.webhook.kept().size() >= 50; });
    receiver.webhook.hold();
    wait_until("some are on their way", [&] { return receiver.webhook.held() > 0; });
    first.signal(SIGKILL);
    first.wait(10s);
    receiver.webhook.release();
    std::atomic<bool> mended{false};
    receiver.webhook.answer_with([&](const WebhookRequest& request) -> WebhookAnswer {
        if (Receiver::number_of(request) == 150 && !mended) return {400, "not this one", {}};
        return {};
    });
    auto second = relays.start("two");
    relays.wait_for_log("two", "not this one");
    wait_until("the consumer stands in front of what is refused",
               [&] { return table.value(offset) == "149"; });
    mended = true;
    wait_until("all that is done has arrived", [&] { return table.value(offset) == "200"; });
    table.db.exec("update outbox_messages set processed_at = now()");
    wait_until("the rest too", [&] { return table.value(offset) == "300"; });
    EXPECT_EQ(second.stop(), 0);
    expect_all(receiver.numbers(), 300);
    expect_key_order(receiver.numbers());
    EXPECT_EQ(table.value("select count(*) from outbox_messages_dlq"), "0");
}

TEST(AdoptedConsumers, members_take_turns) {
    Table table(layout("messages"));
    table.insert(1, 10);
    table.db.exec("update outbox_messages set processed_at = now()");
    tables::ReaderOptions options;
    options.conninfo = table.url;
    options.table = table.name();
    options.consumer = "mailer";
    options.batch = 4;
    tables::Holder holder;
    const auto one = tables::AdoptedReader::take(options, holder);
    ASSERT_TRUE(one);
    EXPECT_FALSE(tables::AdoptedReader::take(options, holder)) << "the other has the offset";
    const auto batch = one->read(1000ms);
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->events.size(), 4U);
    one->settle(batch, 3, {});
    one->tend(1ms);
    EXPECT_FALSE(tables::AdoptedReader::take(options, holder)) << "and keeps it until its batch is done";
    one->settle(batch, 4, {});
    one->tend(1ms);
    const auto other = tables::AdoptedReader::take(options, holder);
    ASSERT_TRUE(other);
    EXPECT_EQ(other->read(1000ms)->events.front().source_id, "5");
}

TEST(AdoptedEvents, payloads_of_any_type_go_out_byte_by_byte) {
    const auto url = shared_cluster(Form::plain).fresh_database();
    Connection db(url);
    db.exec(
        "create table blobs (id int primary key, body bytea);"
        "create table texts (id int primary key, body text);"
        "select baton.adopt_outbox(t, mapping => '{\"columns\": {\"id\": \"id\", \"payload\": \"body\"}, "
        "\"done\": {\"as\": \"delete\"}}') from unnest('{blobs,texts}'::text[]) t;"
        "insert into blobs values (1, '\\x00ff0a22'), (2, ''), (3, null), (4, '\\x41');"
        "insert into texts values (1, '{\"a\":1 }'), (2, 'not \"json\"'), (3, ''), (4, null)");
    const auto read = [&url](const std::string& name) {
        tables::Holder holder;
        const auto source = tables::AdoptedSource::take({url, name, "reader"}, holder);
        std::vector<std::optional<std::string>> payloads;
        const auto batch = source->read(1000ms);
        for (const auto& event : batch->events)
            payloads.push_back(event.payload ? std::optional(std::string(*event.payload)) : std::nullopt);
        return payloads;
    };
    using Payloads = std::vector<std::optional<std::string>>;
    EXPECT_EQ(read("blobs"), (Payloads{std::string("\0\xff\n\"", 4), "", std::nullopt, "A"}));
    EXPECT_EQ(read("texts"), (Payloads{R"({"a":1 })", R"(not "json")", "", std::nullopt}));
}
