// From an outbox through a broker into an inbox in order of arrival: the relay is killed again and again, so
// that stretches come twice, and two workers with bad luck handle the messages. Each event has its effect
// once, and those of one aggregate in the order in which they were published.

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <random>

#include "base/file.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class Ordered : public testing::TestWithParam<Form> {
  protected:
    static constexpr int aggregates = 6;
    static constexpr int events = 600;

    void SetUp() override {
        redis.start();
        admin.exec("select baton.create_outbox('moves')");
        admin.exec("select baton.create_inbox('work', max_retries => 1000)");
        admin.exec("select baton.enable_inbox_ordering('work')");
        admin.exec("select baton.alter_inbox('work', backoff_base => '0', backoff_cap => '0')");
        admin.exec(
            "create table effects (place bigserial primary key, event_id text, aggregate text, number int)");
        write_text(folder / "relay.toml", R"(
[[pipeline]]
name = "out"
[pipeline.source]
outbox = "moves"
lease = "3s"
[pipeline.sink]
type = "redis"
url = "${env:REDIS_URL}"
stream = "moves"

[[pipeline]]
name = "in"
[pipeline.source]
type = "redis"
url = "${env:REDIS_URL}"
stream = "moves"
consumer = "the one reader"
[pipeline.sink]
type = "postgres"
url = "${env:DATABASE_URL}"
inbox = "work"
)");
    }

    Process start_relay() {
        return Process({.argv = {program_file().string(), "relay", "--db", url, "--config",
                                 (folder / "relay.toml").string()},
                        .output = folder / ("relay" + std::to_string(++started) + ".log"),
                        .environment = {{"DATABASE_URL", url},
                                        {"REDIS_URL", "redis://127.0.0.1:" + std::to_string(redis.port())}},
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
    RedisServer redis;
    int started = 0;
    int published = 0;
    std::atomic<bool> finished = false;
    std::string url = shared_cluster(GetParam()).fresh_database();
    Connection admin{url};
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Forms, Ordered, testing::Values(Form::extension, Form::plain),
                         [](const auto& test) { return std::string(name_of(test.param)); });

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
