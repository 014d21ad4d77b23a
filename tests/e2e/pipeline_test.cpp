// From commit to a file through a real pipeline: nothing lost, nothing twice, each key in order.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "assembly/pipeline_parts.hpp"
#include "support/cluster.hpp"
#include "support/folder.hpp"

using namespace baton;
using namespace baton::test;
using namespace std::chrono_literals;

namespace {

struct Line {
    std::string id;
    std::string key;
    long number;  // within its key
};

class Piping : public testing::TestWithParam<Form> {
  protected:
    Piping() { admin.exec("select baton.create_outbox('orders')"); }

    relay::Settings settings(const std::string& name = "files") const {
        relay::Settings made("pipeline " + name);
        made.set("name", name);
        made.set("source.outbox", std::string("orders"));
        made.set("source.lease", std::string("3s"));
        made.set("sink.type", std::string("file"));
        made.set("sink.path", (folder / (name + ".jsonl")).string());
        return made;
    }

    std::unique_ptr<relay::Pipeline> start(const relay::Settings& made,
                                           const std::string& owner = "relay one") const {
        auto pipeline = std::make_unique<relay::Pipeline>(assembly::make_parts(made, {url, owner}));
        pipeline->start();
        return pipeline;
    }

    std::vector<Line> lines(const std::string& name = "files") const {
        std::vector<Line> read;
        std::ifstream file(folder / (name + ".jsonl"));
        for (std::string text; std::getline(file, text) && !file.eof();) {
            const auto json = nlohmann::json::parse(text);
            read.push_back({json.at("id"), json.at("aggregate_id"), json.at("payload").at("n").get<long>()});
        }
        return read;
    }

    void wait_for_lines(std::size_t count, const std::string& name = "files") const {
        wait_until(std::to_string(count) + " events are in the file",
                   [&] { return lines(name).size() >= count; });
    }

    void publish(Connection& db, const std::string& key, long n) const {
        db.query(
            "select baton.publish('orders', 'order.changed', jsonb_build_object('n', $2::int), aggregate_id "
            "=> $1)",
            {key, n});
    }

    // Check that exactly the committed events came, each once, and each key in order.
    void expect_all_in_order(const std::string& name = "files") {
        const auto got = lines(name);
        std::set<std::string> committed;
        const auto rows = admin.query("select event_id from orders");
        for (int row = 0; row < rows.rows(); ++row) committed.insert(rows.text(row, 0));
        std::set<std::string> delivered;
        std::map<std::string, long> last;
        for (const auto& line : got) {
            EXPECT_TRUE(delivered.insert(line.id).second) << line.id << " came twice";
            EXPECT_LT(last[line.key], line.number) << "key " << line.key << " is out of order";
            last[line.key] = line.number;
        }
        EXPECT_EQ(delivered, committed);
    }

    Folder folder;
    std::string url = shared_cluster(GetParam()).fresh_database();
    Connection admin{url};
};

// Writers that share keys: each locks a key's row, so that its events are numbered in the order of their
// transactions.
void write_orders(const std::string& url, int seed, int transactions) {
    Connection db(url);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int i = 0; i < transactions; ++i) {
        db.exec("begin");
        const int events = 1 + static_cast<int>(random() % 3);
        std::set<int> keys;
        while (static_cast<int>(keys.size()) < events) keys.insert(static_cast<int>(random() % 8));
        for (const int key : keys)  // in the order of keys, so that nobody waits in a circle
            db.query(
                "with next as (update counters set n = n + 1 where key = $1 returning n) "
                "select baton.publish('orders', 'order.changed', jsonb_build_object('n', n), aggregate_id => "
                "$1) from next",
                {std::to_string(key)});
        db.exec(random() % 5 == 0 ? "rollback" : "commit");
    }
}

}  // namespace

TEST_P(Piping, nothing_is_lost_or_twice_and_keys_keep_their_order_among_rollbacks_and_a_long_transaction) {
    admin.exec("create table counters (key text primary key, n int not null default 0)");
    admin.exec("insert into counters select k::text from generate_series(0, 7) k");
    Connection slow(url);
    slow.exec("begin");
    publish(slow, "slow", 1);
    auto pipeline = start(settings());
    std::vector<std::thread> writers;
    for (int seed = 0; seed < 4; ++seed) writers.emplace_back(write_orders, url, seed, 150);
    for (auto& writer : writers) writer.join();
    const auto before = std::stoul(admin.value("select count(*) from orders"));
    wait_for_lines(before);
    publish(slow, "slow", 2);
    slow.exec("commit");
    wait_for_lines(before + 2);
    pipeline->request_stop();
    pipeline->join();
    expect_all_in_order();
    EXPECT_EQ(admin.value("select owner is null from baton_internal.group_positions"), "t")
        << "the group was not given back";
}

TEST_P(Piping, a_restart_goes_on_where_it_stopped) {
    for (int n = 1; n <= 2500; ++n) publish(admin, "k" + std::to_string(n % 10), n);
    auto made = settings();
    made.set("source.batch", std::int64_t(100));
    made.set("limits.max_in_flight", std::int64_t(50));
    made.set("limits.max_bytes", std::int64_t(10000));  // about a batch is read ahead
    for (int round = 0; round < 3; ++round) {
        // Stopped from inside, so that it cannot be through before anybody notices.
        std::unique_ptr<relay::Pipeline> pipeline;
        int delivered = 0;
        auto parts = assembly::make_parts(made, {url, "relay one"});
        parts.on_delivered = [&](const Event&) {
            if (++delivered == 300) pipeline->request_stop();
        };
        pipeline = std::make_unique<relay::Pipeline>(std::move(parts));
        pipeline->start();
        pipeline->join();
        EXPECT_GE(delivered, 300);
    }
    EXPECT_LT(lines().size(), 2500U) << "it stopped too late for the test to mean anything";
    auto pipeline = start(settings());
    wait_for_lines(2500);
    pipeline.reset();
    expect_all_in_order();
}

TEST_P(Piping, payloads_that_grow_all_at_once_stay_within_the_limits_and_arrive_whole) {
    // Small ones first, so that many are read at once; then large ones that do not compress.
    admin.exec(
        "insert into orders (event_type, aggregate_id, payload) select 'small', 'k' || i % 5, "
        "jsonb_build_object('n', i) from generate_series(1, 1500) i");
    admin.exec(
        "insert into orders (event_type, aggregate_id, payload) select 'large', 'k' || i % 5, "
        "jsonb_build_object('n', i, 'noise', (select string_agg(md5(i || ':' || j), '') from "
        "generate_series(1, "
        "4000) j)) from generate_series(1501, 1650) i");
    auto made = settings();
    made.set("source.batch_bytes", std::int64_t{1 << 20});
    made.set("limits.max_bytes", std::int64_t{4 << 20});
    made.set("limits.rate", 600.0);  // slow enough to be looked at
    auto pipeline = start(made);
    std::size_t most = 0;
    wait_until("all came", [&] {
        most = std::max(most, pipeline->status().buffered_bytes);
        return pipeline->status().counts.delivered >= 1650;
    });
    pipeline.reset();
    // 150 large ones have 19 MB; what is over the limit is the batch that was let in last, and one under way.
    EXPECT_LT(most, 9U << 20);
    expect_all_in_order();
    std::ifstream file(folder / "files.jsonl");
    std::map<std::string, int> sizes;
    for (std::string text; std::getline(file, text);) {
        const auto payload = nlohmann::json::parse(text).at("payload");
        ++sizes[payload.contains("noise") ? std::to_string(payload["noise"].get<std::string>().size())
                                          : "none"];
    }
    EXPECT_EQ(sizes, (std::map<std::string, int>{{"none", 1500}, {"128000", 150}}));
}

TEST_P(Piping, a_second_relay_stands_by_and_takes_over_when_the_first_stops) {
    auto first = start(settings());
    wait_until("the first runs", [&] { return first->status().state == relay::PipelineState::running; });
    auto second = start(settings(), "relay two");
    wait_until("the second stands by",
               [&] { return second->status().state == relay::PipelineState::standby; });
    EXPECT_NE(second->status().detail.find("relay one"), std::string::npos);
    publish(admin, "a", 1);
    wait_for_lines(1);
    first.reset();
    publish(admin, "a", 2);
    wait_for_lines(2);
    EXPECT_EQ(second->status().state, relay::PipelineState::running);
    second.reset();
    expect_all_in_order();
}

TEST_P(Piping, a_relay_that_lost_its_epoch_cannot_move_the_position) {
    publish(admin, "a", 1);
    auto pipeline = start(settings());
    wait_for_lines(1);
    wait_until("the position is written", [&] {
        return admin.value("select not window_open and after_id = 1 from baton_internal.group_positions") ==
               "t";
    });
    const auto group = admin.value("select group_id from baton_internal.group_positions");
    const auto epoch = admin.value("select owner_epoch from baton_internal.group_positions");
    admin.exec("update baton_internal.group_positions set owned_until = now() - interval '1 s'");
    EXPECT_EQ(
        admin.value("select (baton_internal.take_group('files', 'another', '1 s')).epoch > $1", {epoch}),
        "t");
    for (const auto* sql :
         {"select baton_internal.renew_group($1, $2)", "select baton_internal.release_group($1, $2)",
          "select baton_internal.settle_group_parked($1, $2, '{1}')",
          "select * from baton_internal.lease_group_parked($1, $2, 1)",
          "select baton_internal.set_aside($1, $2, '{1}', '{a}', '{null}')",
          "select baton_internal.park_group_events($1, $2, '{1}', '{a}', '{1}', '{x}', '{retry}')",
          "select baton_internal.checkpoint_group($1, $2, null, 7, true)"}) {
        try {
            admin.query(sql, {group, epoch});
            FAIL() << sql;
        } catch (const SqlError& error) {
            EXPECT_EQ(error.sqlstate(), "BT001") << sql << ": " << error.what();
        }
    }
    publish(admin, "a", 2);
    wait_for_lines(2);  // taken again when the other's lease is over
    wait_until("the group is back", [&] { return pipeline->status().sessions >= 2; });
    EXPECT_EQ(admin.value("select owner from baton_internal.group_positions"), "relay one");
}

TEST_P(Piping, a_consumer_cannot_poll_an_owned_group_and_its_leases_keep_a_relay_away) {
    publish(admin, "a", 1);
    publish(admin, "b", 1);
    admin.exec("select baton.create_consumer_group('files', 'orders', 'earliest')");
    const auto token = admin.value("select lease_token from baton.poll_outbox('files', 'consumer', 1, 2)");
    auto pipeline = start(settings());
    wait_until("it stands by", [&] { return pipeline->status().state == relay::PipelineState::standby; });
    EXPECT_NE(pipeline->status().detail.find("consumer"), std::string::npos);
    wait_for_lines(2);  // the consumer's lease ended without a commit
    try {
        admin.exec("select * from baton.poll_outbox('files', 'consumer')");
        publish(admin, "c", 1);
        admin.exec("select * from baton.poll_outbox('files', 'consumer')");
        FAIL();
    } catch (const SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "BT003");
    }
}

TEST_P(Piping, a_scheduled_event_comes_when_it_is_due_and_others_do_not_wait) {
    auto pipeline = start(settings());
    admin.exec(
        "select baton.publish('orders', 't', '{\"n\": 1}'::jsonb, aggregate_id => 'later', available_at => "
        "now() + interval '2 s')");
    publish(admin, "now", 1);
    wait_for_lines(1);
    EXPECT_EQ(lines()[0].key, "now");
    wait_for_lines(2);
    EXPECT_EQ(lines()[1].key, "later");
    wait_until("nothing is parked",
               [&] { return admin.value("select count(*) from baton_internal.parked") == "0"; });
}

TEST_P(Piping, events_parked_by_another_owner_keep_their_keys_order) {
    for (int n = 1; n <= 3; ++n) publish(admin, "a", n);
    publish(admin, "b", 1);
    admin.exec(
        "select baton.create_consumer_group('files', 'orders', 'earliest', retry_base => '2 s', retry_limit "
        "=> '5 min')");
    const auto polled = admin.query("select id from baton.poll_outbox('files', 'consumer', 1)");
    admin.query("select * from baton.fail_events('files', 'consumer', array[$1::bigint], 'broken')",
                {polled.text(0, 0)});
    auto pipeline = start(settings());
    wait_for_lines(4);
    EXPECT_EQ(lines()[0].key, "b") << "the others of key a had to wait for the first";
    pipeline.reset();
    expect_all_in_order();
}

TEST_P(Piping, a_database_that_goes_away_for_a_while_loses_nothing) {
    auto pipeline = start(settings());
    const auto seen = [this] {
        std::set<std::string> ids;
        for (const auto& line : lines()) ids.insert(line.id);
        return ids.size();
    };
    for (int n = 1; n <= 20; ++n) {
        publish(admin, "a", n);
        if (n % 5 != 0) continue;
        wait_until("some came", [&] { return seen() >= static_cast<std::size_t>(n - 4); });
        admin.exec(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'baton "
            "relay%'");
    }
    wait_until("all came at least once", [&] { return seen() == 20; });
    EXPECT_GE(pipeline->status().sessions, 2U);
}

INSTANTIATE_TEST_SUITE_P(Forms, Piping, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
