// From an outbox through a broker into an inbox in order of arrival: the relay is killed again and again, so
// that stretches come twice, and two workers with bad luck handle the messages. Each event has its effect
// once, and those of one aggregate in the order in which they were published.

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <random>

#include "base/file.hpp"
#include "brokers/kafka/tests/server.hpp"
#include "brokers/redis/tests/server.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// The way from the outbox into the inbox: which broker, and which form the database has.
struct Way {
    const char* broker;
    Form form;
};

class Ordered : public testing::TestWithParam<Way> {
  protected:
    static constexpr int aggregates = 6;
    static constexpr int events = 600;

    void SetUp() override {
        admin.exec("select baton.create_outbox('moves')");
        admin.exec("select baton.create_inbox('work', max_retries => 1000)");
        admin.exec("select baton.enable_inbox_ordering('work')");
        admin.exec("select baton.alter_inbox('work', backoff_base => '0', backoff_cap => '0')");
        admin.exec(
            "create table effects (place bigserial primary key, event_id text, aggregate text, number int)");
        const bool kafka = GetParam().broker == std::string("kafka");
        const std::string place = kafka ? start_kafka() : start_redis();
        const std::string reader = kafka ? "properties = { \"session.timeout.ms\" = \"6000\" }\n"
                                         : "consumer = \"the one reader\"\n";
        write_text(folder / "relay.toml",
                   "[[pipeline]]\nname = \"out\"\n"
                   "[pipeline.source]\noutbox = \"moves\"\nlease = \"3s\"\n"
                   "[pipeline.sink]\n" +
                       place +
                       "[[pipeline]]\nname = \"in\"\n"
                       "[pipeline.source]\n" +
                       place + reader +
                       "[pipeline.sink]\ntype = \"postgres\"\nurl = \"${env:DATABASE_URL}\"\n"
                       "inbox = \"work\"\n");
    }

    // Start the broker; returns the settings that sink and source share.
    std::string start_redis() {
        broker = std::make_unique<RedisServer>();
        broker->start();
        return "type = \"redis\"\nurl = \"redis://127.0.0.1:" + std::to_string(broker->port()) +
               "\"\nstream = \"moves\"\n";
    }
    std::string start_kafka() {
        auto server = std::make_unique<KafkaServer>();
        server->settings = {"auto.create.topics.enable=true", "num.partitions=3"};
        broker = std::move(server);
        broker->start();
        return "type = \"kafka\"\nbrokers = \"127.0.0.1:" + std::to_string(broker->port()) +
               "\"\ntopic = \"moves\"\n";
    }

    Process start_relay() {
        return Process({.argv = {program_file().string(), "relay", "--db", url, "--config",
                                 (folder / "relay.toml").string()},
                        .output = folder / ("relay" + std::to_string(++started) + ".log"),
                        .environment = {{"DATABASE_URL", url}},
                        .dies_with_us = true});
    }

    // Publish the next numbers of some aggregates.
    void publish(int count) {
        for (int n = 0; n < count && published < events; ++n, ++published)
            admin.query(
                "select baton.publish('moves', 'moved', jsonb_build_object('n', $2::int), aggregate_id => "
                "$1)",
                {"a" + std::to_string(published % aggregates), published / aggregates + 1});
    }

    // Handle messages until all are done; fail, forget and roll back on the way.
    void work(unsigned who) {
        std::mt19937 random(std::random_device{}() + who);
        Connection db(url);
        while (!finished) {
            const auto claimed = db.query(
                "select event_id, aggregate_id, payload ->> 'n', lease_token from baton.claim_inbox('work', "
                "$1, 3, 1)",
                {"worker-" + std::to_string(who)});
            if (claimed.empty()) std::this_thread::yield();
            for (int row = 0; row < claimed.rows(); ++row) {
                const auto luck = random() % 20;
                if (luck == 0) continue;  // forgotten until the lease ends
                try {
                    if (luck == 1) {
                        db.query("select baton.fail('work', $1::text, 'no luck', false, $2)",
                                 {claimed.text(row, 0), claimed.text(row, 3)});
                        continue;
                    }
                    Transaction tx(db);
                    db.query("insert into effects (event_id, aggregate, number) values ($1, $2, $3)",
                             {claimed.text(row, 0), claimed.text(row, 1), claimed.text(row, 2)});
                    if (luck == 2) continue;  // rolled back
                    db.query("select baton.complete('work', $1::text, $2)",
                             {claimed.text(row, 0), claimed.text(row, 3)});
                    tx.commit();
                } catch (const SqlError& error) {
                    ASSERT_EQ(error.sqlstate(), "BT001") << error.what();
                }
            }
        }
    }

    int effects() { return std::stoi(admin.value("select count(*) from effects")); }

    TemporaryFolder folder;
    std::unique_ptr<Broker> broker;
    int started = 0;
    int published = 0;
    std::atomic<bool> finished = false;
    std::string url = shared_cluster(GetParam().form).fresh_database();
    Connection admin{url};
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Ways, Ordered,
                         testing::Values(Way{"redis", Form::extension}, Way{"redis", Form::plain},
                                         Way{"kafka", Form::extension}),
                         [](const auto& test) {
                             return std::string(test.param.broker) + "_" + name_of(test.param.form);
                         });

TEST_P(Ordered, events_of_an_aggregate_have_their_effects_in_the_order_of_publishing) {
    std::vector<std::future<void>> workers;
    for (unsigned n = 0; n < 2; ++n)
        workers.push_back(std::async(std::launch::async, [this, n] { work(n); }));
    Process relay = start_relay();
    try {
        while (published < events) {
            const int before = effects();
            publish(events / 4);
            wait_until(
                "some of it has had its effect", [&] { return effects() > before; }, std::chrono::minutes(2));
            relay.signal(SIGKILL);
            relay.wait(std::chrono::seconds(10));
            relay = start_relay();
        }
        wait_until(
            "every event has had its effect", [&] { return effects() >= events; }, std::chrono::minutes(4));
    } catch (const Error& error) {
        ADD_FAILURE() << error.what() << ": " << effects() << " of " << events << "\n"
                      << read_text(folder / ("relay" + std::to_string(started) + ".log"));
    }
    finished = true;
    for (auto& worker : workers) worker.get();
    EXPECT_EQ(relay.stop(), 0);

    EXPECT_EQ(admin.value("select count(*) || ' ' || count(distinct event_id) from effects"),
              std::to_string(events) + " " + std::to_string(events));
    EXPECT_EQ(
        admin.value(
            "select count(*) from (select number <> 1 + coalesce(lag(number) over (partition by aggregate "
            "order by place), 0) as odd from effects) e where odd"),
        "0");
}
