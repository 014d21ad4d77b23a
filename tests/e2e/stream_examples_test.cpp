// examples/stream as it stands: a compacted topic of Kafka and a graph in Neo4j follow stream tables, and the
// graph is the same when it is made anew from the first event.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.hpp"
#include "brokers/kafka/audit_client.hpp"
#include "brokers/kafka/tests/server.hpp"
#include "brokers/neo4j/access.hpp"
#include "brokers/neo4j/tests/server.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;
using nlohmann::json;

namespace {

const fs::path example = fs::path(BATON_SOURCE) / "examples/stream";

class StreamExamples : public testing::Test {
  protected:
    StreamExamples() {
        const auto ran = run_separately({.argv = {"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f",
                                                  (example / "schema.sql").string(), url}});
        if (ran.exit_code != 0) throw Error(ran.errors);
    }

    // The pipeline of this name alone, out of the example's file.
    void take_pipeline(const std::string& name) {
        const std::string text = read_text(example / "relay.toml");
        const auto from = text.rfind("[[pipeline]]", text.find("name = \"" + name + "\""));
        write_text(folder / "relay.toml", text.substr(from, text.find("[[pipeline]]", from + 1) - from));
    }
    void start_relay(const Environment& environment) {
        relay.emplace(Command{.argv = {program_file().string(), "relay", "--db", url, "--config",
                                       (folder / "relay.toml").string()},
                              .output = folder / "relay.log",
                              .environment = environment,
                              .dies_with_us = true});
    }
    // Orders come, change and go; now and then somebody refreshes.
    void trade(unsigned seed, int steps) {
        std::mt19937 random(seed);
        const auto one_of = [&](int many) { return std::to_string(random() % many); };
        for (int i = 0; i < steps; ++i) {
            const auto dice = random() % 10;
            if (dice < 6)
                admin.query("insert into orders (customer, product, amount) values ($1, $2, $3)",
                            {"c" + one_of(6), "p" + one_of(5), one_of(100)});
            else if (dice < 8)
                admin.query("update orders set product = $1 where id % 7 = $2::int",
                            {"p" + one_of(5), one_of(7)});
            else
                admin.query("delete from orders where product = $1", {"p" + one_of(5)});
            if (random() % 3 == 0) refresh();
        }
        refresh();
    }
    void refresh() { admin.query("select * from baton.refresh_stream_table($1)", {followed}); }
    // The rows of a table as JSON, by their key.
    std::map<std::string, json> rows(const std::string& query) {
        std::map<std::string, json> all;
        const auto answer = admin.query(query);
        for (int row = 0; row < answer.rows(); ++row)
            all.emplace(answer.text(row, 0), json::parse(answer.text(row, 1)));
        return all;
    }

    TemporaryFolder folder;
    std::string url = shared_cluster(Form::extension).quiet_database();
    Connection admin{url};
    std::optional<Process> relay;
    std::string followed;  // the stream table of the test
};

}  // namespace

TEST_F(StreamExamples, a_compacted_topic_mirrors_a_stream_table) {
    KafkaServer kafka;
    kafka.start();
    const std::string broker = "127.0.0.1:" + std::to_string(kafka.port());
    const brokers::KafkaProperties properties{{"bootstrap.servers", broker}};
    brokers::create_topic(properties, "product-revenue", 2, {{"cleanup.policy", "compact"}});
    followed = "product_revenue";
    take_pipeline("revenue");
    start_relay({{"KAFKA_BROKERS", broker}});
    trade(1, 30);
    const auto table = [&] { return rows("select product, to_jsonb(r) from product_revenue r"); };
    std::size_t tombstones = 0;
    wait_until("the topic is the table", [&] {
        std::map<std::string, json> mirror;
        tombstones = 0;
        for (const auto& message : brokers::read_topic(properties, "product-revenue")) {
            mirror.erase(message.key);
            if (message.body.empty())
                ++tombstones;
            else
                mirror.emplace(message.key, json::parse(message.body).at("after"));
        }
        return mirror == table();
    });
    EXPECT_GT(tombstones, 0U);
    EXPECT_FALSE(table().empty());
}

TEST_F(StreamExamples, a_graph_follows_a_stream_table_and_is_the_same_when_it_is_made_anew) {
    Neo4jServer neo4j;
    neo4j.start();
    const auto settings = neo4j.straight();
    const brokers::Neo4jAccess access(settings);
    const auto graph = [&] {
        std::map<std::string, json> edges;
        for (const auto& edge : access.ask(
                 "MATCH (c:Customer)-[b:BOUGHT]->(p:Product) RETURN c.name, p.name, b.times", json::object()))
            edges[edge.at(0).get<std::string>() + " " + edge.at(1).get<std::string>()] = edge.at(2);
        return edges;
    };
    const auto table = [&] { return rows("select customer || ' ' || product, times from purchases"); };
    const Environment environment{{"NEO4J_URL", neo4j.url()}, {"NEO4J_PASSWORD", settings.text("password")}};
    followed = "purchases";
    take_pipeline("graph");
    start_relay(environment);
    trade(2, 30);
    wait_until("the graph is the table", [&] { return graph() == table(); });
    EXPECT_FALSE(table().empty());

    EXPECT_EQ(relay->stop(), 0);
    access.ask("MATCH (n) DETACH DELETE n", json::object());
    EXPECT_TRUE(graph().empty());
    admin.exec("select baton.seek_offset('graph', 'me', place => 'beginning')");
    start_relay(environment);
    wait_until("the graph is there again", [&] { return graph() == table(); });
    trade(3, 5);
    wait_until("and follows", [&] { return graph() == table(); });
}
