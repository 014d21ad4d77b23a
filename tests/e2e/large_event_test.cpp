// Events that are large, in the log and parked: the relay's memory stays bounded whatever is there.

#include <gtest/gtest.h>

#include <fstream>

#include "assembly/pipeline_parts.hpp"
#include "support/cluster.hpp"
#include "tables/adopted_reader.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// Sanitizers keep what was freed for a while.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t allowance = std::size_t{2} << 30;
#else
constexpr std::size_t allowance = std::size_t{128} << 20;
#endif

std::size_t memory(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(name)) return std::stoul(line.substr(name.size() + 1)) * 1024;
    return 0;
}

class LargeEvents : public testing::TestWithParam<Form> {
  protected:
    LargeEvents() { admin.exec("select baton.create_outbox('orders', max_payload_bytes => 128000000)"); }

    // `bytes` of one letter, which the server stores in a hundredth of that.
    void insert(int bytes, int count, const std::string& available = "null") {
        admin.exec(
            "insert into orders (event_type, aggregate_id, payload, available_at) select 'x', 'k' || i % 3, "
            "jsonb_build_object('pad', repeat('x', " +
            std::to_string(bytes) + ")), " + available + " from generate_series(1, " + std::to_string(count) +
            ") i");
    }
    void start() {
        relay::Settings made("pipeline large");
        made.set("name", std::string("large"));
        made.set("source.outbox", std::string("orders"));
        made.set("sink.type", std::string("null"));
        std::ofstream("/proc/self/clear_refs") << "5";  // forget the peak
        before = memory("VmRSS");
        pipeline = std::make_unique<relay::Pipeline>(assembly::make_parts(made, {url, "relay"}));
        pipeline->start();
    }
    void wait_until_delivered(std::uint64_t count) {
        wait_until(std::to_string(count) + " are delivered",
                   [&] { return pipeline->status().counts.delivered >= count; });
    }
    // Every event that is over the limit is dead, and nothing of that size was ever in memory.
    void expect_dead_and_small(const std::string& count) {
        wait_until(count + " are dead", [&] {
            return admin.value("select count(*) from baton.dead_letters where error ~ 'max_event_bytes'") ==
                   count;
        });
        pipeline.reset();
        EXPECT_LT(memory("VmHWM") - before, allowance);
        EXPECT_EQ(admin.value("select count(*) from baton_internal.parked where state <> 'dead'"), "0");
    }

    std::string url = shared_cluster(GetParam()).fresh_database();
    Connection admin{url};
    std::unique_ptr<relay::Pipeline> pipeline;
    std::size_t before = 0;
};

}  // namespace

TEST_P(LargeEvents, one_over_the_limit_is_dead_by_its_id_without_being_loaded_and_the_others_go_on) {
    insert(10, 3);
    insert(80'000'000, 1);
    insert(10, 3);
    start();
    wait_until_delivered(6);
    expect_dead_and_small("1");
}

TEST_P(LargeEvents, many_that_are_stored_in_little_room_are_read_as_far_as_there_is_room) {
    insert(10, 2100);        // in reads of 100, 400 and 1600, so that the next one is of 2000
    insert(600'000, 300);    // stored in 7 kB each, 180 MB as text
    insert(12'000'000, 12);  // 144 MB
    start();
    wait_until_delivered(2412);
    expect_dead_and_small("0");
}

TEST_P(LargeEvents, parked_ones_are_read_as_far_as_there_is_room_too) {
    insert(10, 100, "now() + interval '1 second'");
    insert(12'000'000, 12, "now() + interval '1 second'");
    insert(80'000'000, 1, "now() + interval '1 second'");
    insert(10, 100, "now() + interval '1 second'");
    start();
    wait_until_delivered(212);
    expect_dead_and_small("1");
}

TEST_P(LargeEvents, what_the_sink_does_not_take_is_not_loaded_either) {
    insert(2'000'000, 1);
    relay::Settings made("pipeline large");
    made.set("name", std::string("large"));
    made.set("source.outbox", std::string("orders"));
    made.set("sink.type", std::string("kafka"));
    made.set("sink.brokers", std::string("127.0.0.1:1"));  // nobody is there, and nobody is asked
    made.set("sink.topic", std::string("t"));
    pipeline = std::make_unique<relay::Pipeline>(assembly::make_parts(made, {url, "relay"}));
    pipeline->start();
    wait_until("it is dead", [&] { return admin.value("select count(*) from baton.dead_letters") == "1"; });
    EXPECT_NE(admin.value("select error from baton.dead_letters").find("1000000"), std::string::npos);
}

namespace {

// A table that was there before baton, with or without columns for locks.
class LargeRows : public testing::TestWithParam<bool> {
  protected:
    LargeRows() {
        admin.exec(
            "create table told (id bigint generated always as identity primary key, kind text default 'x', "
            "key text, body text, state text not null default 'new', tries int not null default 0, "
            "error text, taken timestamptz, taker text); "
            "create table consumer_offsets (consumer_name text, partition_key text default '', "
            "last_processed_id bigint not null, last_processed_at timestamptz default now(), "
            "primary key (consumer_name, partition_key))");
        admin.query(
            "select baton.adopt_outbox('told', mapping => $1)",
            {std::string(R"({"columns": {"id": "id", "event_type": "kind", "partition_key": "key", )") +
             (GetParam() ? R"("locked_at": "taken", "locked_by": "taker", )" : "") +
             R"("payload": "body", "status": "state", "attempts": "tries", "last_error": "error"},
                "states": {"pending": "new", "done": "gone", "dead": "dead"}, "order": ["id"],
                "attempts": {"limit": 3}, "dead": {"as": "status"}, "offsets": {"table": "consumer_offsets"}})"});
    }

    void insert(int bytes, int count, const std::string& state = "new") {
        admin.query(
            "insert into told (key, body, state) select 'k' || i % 3, repeat('x', $1), $3 "
            "from generate_series(1, $2::int) i",
            {bytes, count, state});
    }
    void start() {
        relay::Settings made("pipeline large");
        made.set("name", std::string("large"));
        made.set("source.outbox", std::string("told"));
        made.set("sink.type", std::string("null"));
        std::ofstream("/proc/self/clear_refs") << "5";  // forget the peak
        before = memory("VmRSS");
        pipeline = std::make_unique<relay::Pipeline>(assembly::make_parts(made, {url, "relay"}));
        pipeline->start();
    }
    std::string count(const std::string& state) {
        return admin.value("select count(*) from told where state = $1", {state});
    }

    std::string url = shared_cluster(Form::plain).fresh_database();
    Connection admin{url};
    std::unique_ptr<relay::Pipeline> pipeline;
    std::size_t before = 0;
};

}  // namespace

TEST_P(LargeRows, one_over_the_limit_is_dead_and_the_others_are_claimed_as_far_as_there_is_room) {
    insert(10, 3);
    insert(80'000'000, 1);
    insert(10, 3);
    insert(12'000'000, 6);
    insert(10, 3);
    start();
    wait_until("all but one are gone", [this] { return count("gone") == "15"; });
    wait_until("that one is dead", [this] { return count("dead") == "1"; });
    pipeline.reset();
    EXPECT_LT(memory("VmHWM") - before, allowance);
    EXPECT_EQ(
        admin.value("select count(*) from told where error ~ 'bytes, more than max_event_bytes' and id = 4"),
        "1");
    EXPECT_EQ(admin.value("select coalesce(max(tries), 0) from told where state = 'gone'"), "0");
}

TEST_P(LargeRows, a_consumer_reads_as_far_as_there_is_room_and_nothing_of_one_over_the_limit) {
    insert(20'000, 4, "gone");
    insert(500'000, 1, "gone");
    insert(20'000, 1, "gone");
    tables::Holder holder;
    tables::ReaderOptions options;
    options.conninfo = url;
    options.table = "told";
    options.consumer = "mailer";
    options.batch_bytes = 50'000;
    options.max_event_bytes = 100'000;
    const auto reader = tables::AdoptedReader::take(options, holder);
    ASSERT_NE(reader, nullptr);
    std::vector<std::size_t> sizes;
    std::vector<std::string> too_large;
    for (std::size_t count = 0; count < 6; count += sizes.back()) {
        relay::BatchPtr batch;
        wait_until("there is a batch",
                   [&] { return (batch = reader->read(std::chrono::seconds(1))) != nullptr; });
        sizes.push_back(batch->events.size());
        EXPECT_LT(batch->bytes, 80'000U);
        for (const auto& event : batch->events) {
            EXPECT_EQ(event.payload.has_value(), event.too_large == 0);
            if (event.too_large > 0) too_large.emplace_back(event.source_id);
        }
        reader->settle(batch, batch->events.size(), {});
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 2, 2}));
    EXPECT_EQ(too_large, (std::vector<std::string>{"5"}));
}

INSTANTIATE_TEST_SUITE_P(Tables, LargeRows, testing::Bool(),
                         [](const auto& locks) { return locks.param ? "with_locks" : "without_locks"; });

INSTANTIATE_TEST_SUITE_P(Forms, LargeEvents, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
