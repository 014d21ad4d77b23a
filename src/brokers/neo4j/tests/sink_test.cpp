// The neo4j sink on a real Neo4j.

#include <deque>
#include <thread>

#include "brokers/neo4j/audit_client.hpp"
#include "brokers/neo4j/statement.hpp"
#include "brokers/neo4j/tests/server.hpp"
#include "brokers/registry.hpp"
#include "conformance/deliveries.hpp"
#include "conformance/sink_conformance.hpp"

namespace baton::test {

namespace {

using brokers::Neo4jClient;
using nlohmann::json;
using relay::Verdict;

// It takes long to start: one serves all tests of the binary.
Neo4jServer& the_server() {
    static const auto server = [] {
        auto made = std::make_unique<Neo4jServer>();
        made->start();
        made->admit("relay", "secret-1");
        return made;
    }();
    return *server;
}

class Neo4jFixture final : public SinkFixture {
  public:
    Neo4jFixture() { proxy_.set_target(the_server().port()); }
    std::string make_destination() override {
        const std::string label = "Events" + std::to_string(++count_);
        Neo4jClient(the_server().straight()).make(label);
        return label;
    }
    relay::Settings settings(const std::string& destination) override {
        relay::Settings settings("sink");
        settings.set("type", "neo4j");
        settings.set("url", "http://127.0.0.1:" + std::to_string(proxy_.port()));
        settings.set("username", "relay");
        settings.set("password", "secret-1");
        settings.set("payload", "text");
        settings.set("marks", destination + "Mark");
        settings.set("statement",
                     "WITH event, CASE WHEN event.payload = 'poison' THEN 1/0 ELSE 0 END AS x\n" +
                         Neo4jClient::statement(destination));
        settings.set("connect_timeout", "1s");
        settings.set("timeout", "5s");
        settings.set("batch_size", std::int64_t{100});
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        std::vector<Received> all;
        Neo4jClient(the_server().straight()).read(destination, 0, all);
        return all;
    }
    void kill_broker() override { the_server().kill_hard(); }
    void start_broker() override { the_server().start(); }
    Proxy* proxy() override { return &proxy_; }
    std::optional<relay::Settings> with_wrong_login(const std::string& destination) override {
        auto wrong = settings(destination);
        wrong.set("password", "wrong");
        return wrong;
    }
    bool poison(Message& message, std::string& storage) override {
        storage = "poison";
        message.body = storage;
        return true;
    }
    bool deduplicates() const override { return true; }

  private:
    Proxy proxy_;
    int count_ = 0;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Neo4j, SinkConformance, Neo4jFixture);

class Neo4jSinkTest : public testing::Test {
  protected:
    void SetUp() override {
        try {
            settings_ = the_server().straight();
        } catch (const Unavailable& unavailable) {
            GTEST_SKIP() << unavailable.what();
        }
        static int count = 0;
        label_ = "Own" + std::to_string(++count);
        settings_.set("type", "neo4j");
        settings_.set("marks", label_ + "Mark");
        settings_.set("statement",
                      "MERGE (n:" + label_ + " {id: event.key}) SET n.total = event.payload.total");
    }
    std::unique_ptr<relay::Sink> make() const { return brokers::make_sink(settings_); }
    static json ask(const std::string& statement) {
        return Neo4jClient(the_server().straight()).access().ask(statement, json::object());
    }
    // An event of a key with a JSON payload.
    Message& add(const std::string& key, const std::string& body) {
        const std::string& kept_key = texts_.emplace_back(key);
        Message& message = messages_.emplace_back();
        message.ticket = messages_.size();
        message.message_id = "e" + std::to_string(messages_.size());
        message.key = kept_key;
        message.body = texts_.emplace_back(body);
        message.content_type = "application/json";
        return message;
    }
    // What was added, to be sent.
    std::vector<Message> added() const { return {messages_.begin(), messages_.end()}; }

    relay::Settings settings_;
    std::string label_;
    std::deque<std::string> texts_;
    std::deque<Message> messages_;
};

TEST_F(Neo4jSinkTest, events_become_nodes_and_edges_by_the_statement) {
    settings_.set("statement", "MERGE (o:" + label_ +
                                   " {id: event.key})\nSET o.total = event.payload.total, o.at = "
                                   "datetime(event.occurred_at), o.type = event.type, o.note = "
                                   "event.headers.note\n"
                                   "MERGE (c:" +
                                   label_ +
                                   "Customer {name: event.payload.customer})\n"
                                   "MERGE (c)-[:PLACED]->(o) // and that is all");
    Event event;
    event.event_type = "order.placed";
    event.occurred_at = Timestamp(std::chrono::seconds(1'700'000'000));
    for (const char* key : {"1", "2"}) {
        Message& message = add(key, R"({"total": 12.5, "customer": "Žofie"})");
        message.event = &event;
        message.headers.add("note", "a \"note\"");
    }
    EXPECT_NO_THROW(make()->check());
    expect_delivered(*make(), added());
    const auto rows = ask("MATCH (c:" + label_ + "Customer)-[:PLACED]->(o:" + label_ +
                          ") RETURN c.name, o.id, o.total, toString(o.at), o.type, o.note ORDER BY o.id");
    EXPECT_EQ(rows.dump(), R"([["Žofie","1",12.5,"2023-11-14T22:13:20Z","order.placed","a \"note\""],)"
                           R"(["Žofie","2",12.5,"2023-11-14T22:13:20Z","order.placed","a \"note\""]])");
}

TEST_F(Neo4jSinkTest, an_event_is_applied_once_however_often_it_is_sent) {
    settings_.set("statement",
                  "MERGE (n:" + label_ + " {id: 1}) SET n.sum = coalesce(n.sum, 0) + event.payload");
    for (int i = 1; i <= 10; ++i) add("k", std::to_string(i));
    add("k", "55").message_id = "e10";  // a copy within the batch
    expect_delivered(*make(), added());
    expect_delivered(*make(), added());
    EXPECT_EQ(ask("MATCH (n:" + label_ + ") RETURN n.sum").dump(), "[[55]]");
}

// A library that finds its connection broken, or a proxy, may send a request again by itself.
TEST_F(Neo4jSinkTest, a_request_that_comes_twice_is_applied_once) {
    const std::string statement = brokers::neo4j_batch_statement(
        "MERGE (n:" + label_ + " {id: 1}) SET n.count = coalesce(n.count, 0) + 1", label_ + "Mark");
    const brokers::Neo4jAccess access(the_server().straight());
    for (int time = 0; time < 2; ++time) access.ask(statement, {{"events", {{{"id", "a"}}, {{"id", "b"}}}}});
    EXPECT_EQ(ask("MATCH (n:" + label_ + ") RETURN n.count").dump(), "[[2]]");
    EXPECT_EQ(ask("MATCH (n:" + label_ + "Mark) RETURN properties(n) ORDER BY n.id").dump(),
              R"([[{"id":"a"}],[{"id":"b"}]])");
}

// A relay whose request took too long, and the one that took over.
TEST_F(Neo4jSinkTest, requests_with_the_same_events_that_run_side_by_side_apply_each_event_once) {
    ask(brokers::neo4j_mark_constraint(label_ + "Mark"));
    const std::string statement =
        brokers::neo4j_batch_statement("CREATE (:" + label_ + " {id: event.id})", label_ + "Mark");
    json events = json::array();
    for (int i = 0; i < 100; ++i) events.push_back({{"id", std::to_string(i)}});
    std::vector<std::thread> relays;
    for (int i = 0; i < 4; ++i)
        relays.emplace_back([&] {
            const brokers::Neo4jAccess access(the_server().straight());
            EXPECT_NO_THROW(access.ask(statement, {{"events", events}}));
        });
    for (auto& relay : relays) relay.join();
    EXPECT_EQ(ask("MATCH (n:" + label_ + ") RETURN count(n), count(DISTINCT n.id)").dump(), "[[100,100]]");
}

// A server that is killed while it makes a constraint keeps the constraint's index without the constraint.
TEST_F(Neo4jSinkTest, an_index_that_is_in_the_way_of_the_marks_is_removed) {
    ask("CREATE INDEX `" + label_ + "Mark_id` FOR (mark:" + label_ + "Mark) ON (mark.id)");
    add("k", R"({"total": 1})");
    const auto sink = make();
    EXPECT_EQ(deliver(*sink, added()).at(1).verdict, Verdict::retry);
    expect_delivered(*sink, added());
    EXPECT_EQ(ask("SHOW CONSTRAINTS YIELD labelsOrTypes WHERE labelsOrTypes = ['" + label_ +
                  "Mark'] RETURN count(*)")
                  .dump(),
              "[[1]]");
}

TEST_F(Neo4jSinkTest, another_label_for_marks_replays_from_the_beginning) {
    settings_.set("statement", "MERGE (n:" + label_ + " {id: 1}) SET n.count = coalesce(n.count, 0) + 1");
    for (int i = 0; i < 5; ++i) add("k", "{}");
    expect_delivered(*make(), added());
    settings_.set("marks", label_ + "Again");
    expect_delivered(*make(), added());
    EXPECT_EQ(ask("MATCH (n:" + label_ + ") RETURN n.count").dump(), "[[10]]");
    settings_.set("marks", "");
    expect_delivered(*make(), added());
    expect_delivered(*make(), added());
    EXPECT_EQ(ask("MATCH (n:" + label_ + ") RETURN n.count").dump(), "[[20]]");
}

TEST_F(Neo4jSinkTest, a_statement_that_cannot_be_run_shuts_the_sink_and_rejects_nothing) {
    for (int i = 0; i < 20; ++i) add("k" + std::to_string(i), "{}");
    for (const char* wrong : {"MERGEX (n)", "MERGE (n {id: $other})", "CALL nosuch.procedure(event)",
                              "MERGE (n:A {id: events.id})", "MERGE (n:A {id: event.id}) }"}) {
        settings_.set("statement", wrong);
        const auto sink = make();
        for (const auto& [ticket, delivery] : deliver(*sink, added())) {
            EXPECT_EQ(delivery.verdict, Verdict::shut) << wrong;
            EXPECT_NE(delivery.error.find("mend `statement`"), std::string::npos) << delivery.error;
        }
        EXPECT_FALSE(sink->trouble().empty());
        try {
            sink->check();
            ADD_FAILURE() << "check() finds nothing wrong with " << wrong;
        } catch (const UsageError& error) {
            EXPECT_NE(std::string(error.what()).find("statement"), std::string::npos) << error.what();
        }
    }
}

TEST_F(Neo4jSinkTest, an_event_that_the_database_refuses_is_rejected_alone) {
    ask("CREATE CONSTRAINT IF NOT EXISTS FOR (n:" + label_ + ") REQUIRE n.email IS UNIQUE");
    settings_.set(
        "statement",
        "CREATE (:" + label_ + " {id: event.key, email: event.payload.email, at: date(event.payload.at)})");
    for (int i = 0; i < 40; ++i)
        add("k" + std::to_string(i), R"({"at": "2026-01-01", "email": ")" + std::to_string(i) + R"("})");
    messages_[3].body = R"({"at": "no date", "email": "3"})";          // the server calls that a syntax error
    messages_[17].body = R"({"at": "2026-01-01", "email": "5"})";      // there is one
    messages_[18].body = R"({"at": "2026-01-01", "email": {"a":1}})";  // no value of a property
    messages_[30].body = R"({"at": "2026-01-01", "email": 123456789012345678901234567890})";
    const auto fates = deliver(*make(), added());
    for (const auto& [ticket, delivery] : fates) {
        const bool bad = ticket == 4 || ticket == 18 || ticket == 19 || ticket == 31;
        EXPECT_EQ(delivery.verdict, bad ? Verdict::rejected : Verdict::delivered)
            << ticket << " " << delivery.error;
        EXPECT_EQ(delivery.error.empty(), !bad);
    }
    EXPECT_NE(fates.at(18).error.find("ConstraintValidationFailed"), std::string::npos) << fates.at(18).error;
    EXPECT_EQ(ask("MATCH (n:" + label_ + ") RETURN count(n)").dump(), "[[36]]");
}

TEST_F(Neo4jSinkTest, nothing_of_a_key_is_applied_behind_an_event_that_was_refused) {
    settings_.set("statement", "CREATE (:" + label_ + " {key: event.key, n: 10 / event.payload})");
    for (int i = 1; i <= 12; ++i) add(i % 2 == 0 ? "even" : "odd", i == 5 ? "0" : std::to_string(i));
    const auto sink = make();
    EXPECT_TRUE(sink->traits().keeps_order_after_failure);
    for (const auto& [ticket, delivery] : deliver(*sink, added())) {
        const bool behind = ticket % 2 == 1 && ticket > 5;
        EXPECT_EQ(delivery.verdict, ticket == 5 ? Verdict::rejected
                                    : behind    ? Verdict::retry
                                                : Verdict::delivered)
            << ticket << " " << delivery.error;
    }
    EXPECT_EQ(ask("MATCH (n:" + label_ + ") RETURN n.key, count(*) ORDER BY n.key").dump(),
              R"([["even",6],["odd",2]])");
}

TEST_F(Neo4jSinkTest, a_database_that_is_not_there_and_a_wrong_login_are_no_events_fault) {
    add("k", "{}");
    auto missing = settings_;
    missing.set("database", "nosuch");
    auto wrong = settings_;
    wrong.set("password", "wrong");
    for (const auto& settings : {missing, wrong}) {
        const auto sink = brokers::make_sink(settings);
        EXPECT_EQ(deliver(*sink, added()).at(1).verdict, Verdict::shut);
        EXPECT_THROW(sink->check(), ConnectionError);
    }
}

TEST_F(Neo4jSinkTest, settings_that_cannot_be_are_refused) {
    const auto refused = [&](const char* key, const relay::Settings::Value& value) {
        auto wrong = settings_;
        wrong.set(key, value);
        EXPECT_THROW(brokers::make_sink(wrong), relay::SettingsError) << key;
    };
    refused("url", std::string("bolt://localhost:7687"));
    refused("url", std::string("http://localhost:7474/db"));
    refused("statement", std::string(" \n"));
    refused("payload", std::string("bytes"));
    refused("batch_size", std::int64_t{0});
    refused("max_concurrent", std::int64_t{4});
    refused("database", std::string("a/b"));
}

}  // namespace

}  // namespace baton::test
