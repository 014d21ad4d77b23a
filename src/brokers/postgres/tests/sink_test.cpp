#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "brokers/audit_place.hpp"
#include "brokers/registry.hpp"
#include "conformance/driver.hpp"
#include "conformance/sink_conformance.hpp"
#include "support/cluster.hpp"
#include "wire/encoding.hpp"

namespace baton::test {

namespace {

using nlohmann::json;

class PostgresFixture : public SinkFixture {
  public:
    PostgresFixture() : cluster_(Form::extension), database_(cluster_.fresh_database()) {
        proxy_.set_target(cluster_.server().port());
        Connection(database_).exec(
            "create role writer login password 'w'; grant baton_producer, baton_relay to writer");
    }
    std::string make_destination() override {
        const std::string name = "inbox_" + std::to_string(++count_);
        Connection(database_).query("select baton.create_inbox($1)", {name});
        return name;
    }
    relay::Settings settings(const std::string& destination) override {
        relay::Settings settings("sink");
        settings.set("type", "postgres");
        settings.set("url", proxied_url());
        settings.set("inbox", destination);
        settings.set("timeout", "2s");
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        Connection connection(database_);
        const auto rows = connection.query(
            "select event_id, payload::text, encode(payload_raw, 'base64'), headers::text from " +
            connection.escape_identifier(destination) + " order by received_at");
        std::vector<Received> messages;
        for (int row = 0; row < rows.rows(); ++row) {
            Received& message = messages.emplace_back();
            message.id = rows.text(row, 0);
            message.body = rows.is_null(row, 1)
                               ? wire::base64_decode(without_breaks(rows.text(row, 2))).value()
                               : rows.text(row, 1);
            message.headers = json::parse(rows.view(row, 3)).get<std::map<std::string, std::string>>();
            message.key = message.headers["partition-key"];
        }
        return messages;
    }
    // jsonb keeps the value, not the spelling.
    bool same_body(std::string_view got, std::string_view sent) const override {
        if (got == sent) return true;
        const auto a = json::parse(got, nullptr, false);
        return !a.is_discarded() && a == json::parse(sent, nullptr, false);
    }
    void kill_broker() override { cluster_.server().kill_hard(); }
    void start_broker() override { cluster_.server().start(); }
    Proxy* proxy() override { return &proxy_; }
    bool shut(const std::string&) override {
        Connection(database_).exec("revoke baton_producer, baton_relay from writer");
        return true;
    }
    void open(const std::string&) override {
        Connection(database_).exec("grant baton_producer, baton_relay to writer");
    }
    std::string name_missing() override { return "inbox_" + std::to_string(++count_); }
    void make_missing(const std::string& destination) override {
        Connection(database_).query("select baton.create_inbox($1)", {destination});
    }
    std::optional<relay::Settings> with_wrong_login(const std::string& destination) override {
        auto wrong = settings(destination);
        wrong.set("url", proxied_url() + " user=nobody");
        return wrong;
    }
    bool poison(Message& message, std::string& storage) override {
        storage = R"({"zero":"\u0000"})";  // JSON that jsonb cannot hold
        message.body = storage;
        return true;
    }
    bool deduplicates() const override { return true; }
    const std::string& database() const { return database_; }

  private:
    static std::string without_breaks(std::string text) {
        std::erase(text, '\n');
        return text;
    }
    std::string proxied_url() const {
        const std::string key = "dbname=";
        auto name = database_.substr(database_.find(key) + key.size());
        name = name.substr(0, name.find(' '));
        return "host=127.0.0.1 port=" + std::to_string(proxy_.port()) +
               " user=writer password=w dbname=" + name;
    }

    Proxy proxy_;
    Cluster cluster_;
    std::string database_;
    int count_ = 0;
};

class PostgresSink : public testing::Test {
  protected:
    static void SetUpTestSuite() { fixture_ = std::make_unique<PostgresFixture>(); }
    static void TearDownTestSuite() { fixture_.reset(); }
    static inline std::unique_ptr<PostgresFixture> fixture_;
};

TEST_F(PostgresSink, an_inbox_that_is_not_there_is_shut_in_the_servers_words) {
    const auto sink = brokers::make_sink(fixture_->settings("nowhere"));
    EXPECT_THROW(sink->check(), Error);
    Message message;
    message.message_id = "m";
    message.destination = "nowhere";
    message.body = "{}";
    message.content_type = "application/json";
    Driver driver(*sink);
    driver.give({message});
    driver.run_until([&] { return driver.shut() >= 3; });
    EXPECT_NE(driver.last_error().find("nowhere"), std::string::npos) << driver.last_error();
}

TEST_F(PostgresSink, what_the_event_knows_of_itself_reaches_the_inbox) {
    const std::string inbox = fixture_->make_destination();
    Event event;
    event.event_id = "e1";
    event.event_type = "placed";
    event.aggregate_id = "42";
    event.tenant_id = "acme";
    event.trace_id = "t1";
    Message message;
    message.message_id = "e1";
    message.destination = inbox;
    message.body = R"({"n":1})";
    message.content_type = "application/json";
    message.event = &event;
    const auto sink = brokers::make_sink(fixture_->settings(inbox));
    Driver driver(*sink);
    driver.give({message});
    driver.run();
    const auto row =
        Connection(fixture_->database())
            .query("select event_type, aggregate_id, tenant_id, trace_id, source, payload ->> 'n' from " +
                   inbox);
    ASSERT_EQ(row.rows(), 1);
    const std::array<std::string, 6> expected{"placed", "42", "acme", "t1", "baton", "1"};
    for (int i = 0; i < 6; ++i) EXPECT_EQ(row.text(0, i), expected[static_cast<std::size_t>(i)]);
}

// Nothing but the inbox keeps what came from a broker.
TEST_F(PostgresSink, what_an_inbox_with_tenants_cannot_take_from_a_broker_is_kept_as_a_dead_letter) {
    Connection admin(fixture_->database());
    admin.exec("select baton.create_inbox('of_tenants', tenancy => true)");
    std::array<Event, 3> events;
    std::array<Message, 3> messages;
    const std::array<std::string, 3> ids{"nobodys", "odd", "good"};
    for (std::size_t i = 0; i < events.size(); ++i) {
        events[i].event_id = ids[i];
        events[i].event_type = "placed";
        events[i].from_broker = true;
        if (i > 0) events[i].tenant_id = "acme";
        messages[i].message_id = ids[i];
        messages[i].destination = "of_tenants";
        messages[i].body = i == 1 ? R"({"n":"\u0000"})" : R"({"n":1})";
        messages[i].content_type = "application/json";
        messages[i].event = &events[i];
    }
    const auto sink = brokers::make_sink(fixture_->settings("of_tenants"));
    Driver driver(*sink);
    driver.give({messages.begin(), messages.end()});
    driver.run();
    EXPECT_EQ(driver.delivered(), 3U);
    const auto rows = admin.query(
        "select event_id, tenant_id, error ~ 'tenant', error is null, convert_from(payload_raw, 'utf8') from "
        "of_tenants order by event_id");
    ASSERT_EQ(rows.rows(), 3);
    EXPECT_EQ(rows.text(0, 0) + rows.text(0, 1) + rows.text(0, 3), "goodacmet");
    EXPECT_EQ(rows.text(1, 0) + rows.text(1, 1) + rows.text(1, 2), "nobodyst");
    EXPECT_EQ(rows.text(1, 4), R"({"n":1})");
    EXPECT_EQ(rows.text(2, 0) + rows.text(2, 1) + rows.text(2, 3), "oddacmef");
}

TEST_F(PostgresSink, inboxes_that_are_switched_off_are_waited_for) {
    const std::string inbox = fixture_->make_destination();
    Connection admin(fixture_->database());
    const auto set = [&](const char* value) {
        admin.query("select baton.set_setting('inbox_enabled', $1)", {value});
    };
    set("off");
    Message message;
    message.message_id = "m";
    message.destination = inbox;
    message.body = "{}";
    const auto sink = brokers::make_sink(fixture_->settings(inbox));
    Driver driver(*sink);
    driver.give({message});
    driver.run_until([&] { return driver.retries() >= 3; });
    EXPECT_EQ(driver.delivered(), 0U);
    set("on");
    driver.run();
    EXPECT_EQ(fixture_->read_all(inbox).size(), 1U);
}

TEST_F(PostgresSink, what_a_broker_sends_and_no_inbox_takes_is_a_dead_letter_and_the_others_arrive) {
    const std::string inbox = fixture_->make_destination();
    std::string noise;  // which an index cannot compress
    for (std::uint64_t x = 1; noise.size() < 16000; x = x * 6364136223846793005U + 1442695040888963407U)
        noise += std::to_string(x >> 32);
    const std::array<std::string, 6> ids{"a", noise, "b", "nul header", "nul payload", "long texts"};
    std::array<Event, 6> events;
    std::vector<Message> messages(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        events[i].from_broker = true;
        events[i].event_id = ids[i];
        events[i].source_id = "test:1";
        messages[i].message_id = ids[i];
        messages[i].destination = inbox;
        messages[i].body = i == 4 ? R"({"n":"\u0000"})" : R"({"n":1})";
        messages[i].content_type = "application/json";
        messages[i].event = &events[i];
    }
    messages[3].headers.add("odd", std::string_view("a\0b", 3));
    events[5].event_type = noise;
    events[5].aggregate_id = noise;
    for (int delivery = 0; delivery < 2; ++delivery) {  // a redelivery is a duplicate
        const auto sink = brokers::make_sink(fixture_->settings(inbox));
        Driver driver(*sink);
        driver.give(messages);
        driver.run();
    }
    Connection admin(fixture_->database());
    EXPECT_EQ(admin.value("select string_agg(left(event_id, 10), ',' order by arrival) from " + inbox +
                          " where error is null"),
              "a," + noise.substr(0, 10) + ",b,nul header");
    EXPECT_EQ(admin.value("select string_agg(event_id || ': ' || substring(error from "
                          "'too long|unsupported Unicode escape sequence'), ', ' order by event_id) from " +
                          inbox + " where error is not null and available_at = 'infinity'"),
              "long texts: too long, nul payload: unsupported Unicode escape sequence");
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Postgres, SinkConformance, PostgresFixture);

TEST(PostgresAuditPlace, a_row_that_takes_the_room_of_one_rolled_back_is_seen) {
    const std::string url = shared_cluster(Form::extension).quiet_database();
    relay::Settings settings("sink");
    settings.set("type", "postgres");
    settings.set("url", url);
    const auto place = brokers::make_audit_place({"reused", settings, settings, {}});
    place->create();
    const auto receive = [](Connection& db, int first, int last) {
        db.query(
            "select baton.receive('reused', i::text, 'audited', jsonb_build_object('padding', repeat('x', "
            "500))) from generate_series($1::int, $2) i",
            {first, last});
    };
    Connection db(url);
    db.exec("begin");
    receive(db, 1, 200);
    db.exec("rollback");
    receive(db, 1001, 3000);
    std::set<std::string> seen;
    const auto look = [&] {
        for (auto& message : place->follow(std::chrono::milliseconds(50))) seen.insert(message.id);
        return seen.size();
    };
    wait_until("all are seen", [&] { return look() == 2000; });
    db.exec("vacuum reused");
    Connection later(url);
    receive(later, 4000, 4000);
    ASSERT_EQ(later.value("select (ctid::text::point)[0] < 20 from reused where event_id = '4000'"), "t");
    wait_until("the row on an early page is seen", [&] { return look() == 2001; });
}

}  // namespace baton::test
