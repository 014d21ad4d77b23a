// Events that are large, in the log and parked: the relay's memory stays bounded whatever is there.

#include <gtest/gtest.h>

#include <fstream>

#include "cli/pipeline_parts.hpp"
#include "support/cluster.hpp"

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
        pipeline = std::make_unique<relay::Pipeline>(cli::make_parts(made, {url, "relay"}));
        pipeline->start();
    }
    void wait_until_delivered(std::uint64_t count) {
        wait_until(std::to_string(count) + " are delivered",
                   [&] { return pipeline->status().counts.delivered >= count; });
    }
    // Every event that is over the limit is dead, and nothing of that size was ever in memory.
    void expect_dead_and_small(const std::string& count) {
        pipeline.reset();
        EXPECT_LT(memory("VmHWM") - before, allowance);
        EXPECT_EQ(admin.value("select count(*) from baton.dead_letters where error ~ 'max_event_bytes'"),
                  count);
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
    insert(120'000'000, 1);
    insert(10, 3);
    start();
    wait_until_delivered(6);
    expect_dead_and_small("1");
}

TEST_P(LargeEvents, many_that_are_stored_in_little_room_are_read_as_far_as_there_is_room) {
    insert(10, 2100);        // in reads of 100, 400 and 1600, so that the next one is of 2000
    insert(600'000, 400);    // stored in 7 kB each, 240 MB as text
    insert(12'000'000, 15);  // 180 MB
    start();
    wait_until_delivered(2515);
    expect_dead_and_small("0");
}

TEST_P(LargeEvents, parked_ones_are_read_as_far_as_there_is_room_too) {
    insert(10, 100, "now() + interval '1 second'");
    insert(12'000'000, 15, "now() + interval '1 second'");
    insert(120'000'000, 1, "now() + interval '1 second'");
    insert(10, 100, "now() + interval '1 second'");
    start();
    wait_until_delivered(215);
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
    pipeline = std::make_unique<relay::Pipeline>(cli::make_parts(made, {url, "relay"}));
    pipeline->start();
    wait_until("it is dead", [&] { return admin.value("select count(*) from baton.dead_letters") == "1"; });
    EXPECT_NE(admin.value("select error from baton.dead_letters").find("1000000"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Forms, LargeEvents, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
