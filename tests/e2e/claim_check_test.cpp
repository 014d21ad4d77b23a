// Large deltas of a stream table on their way through the relay: in parts, or as the claim checks that they
// are.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "assembly/pipeline_parts.hpp"
#include "base/process.hpp"
#include "brokers/http/tests/receiver.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::test;
using nlohmann::json;

namespace {

// Sanitizers keep what was freed for a while.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t allowance = std::size_t{2} << 30;
#else
constexpr std::size_t allowance = std::size_t{16} << 20;
#endif

std::size_t memory(pid_t pid, const std::string& name) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(name)) return std::stoul(line.substr(name.size() + 1)) * 1024;
    return 0;
}

class ClaimChecks : public testing::TestWithParam<Form> {
  protected:
    ClaimChecks() {
        admin.exec(
            "create table items (id int primary key, name text); "
            "select baton.create_stream_table('shelf', 'select id, name from items', null); "
            "select baton.enable_outbox('shelf'); "
            "set baton.outbox_inline_threshold_rows = 100");
    }

    // Change rows as one refresh, so as one event.
    void change(const std::string& statement) {
        admin.exec(statement);
        admin.exec("select baton.refresh_stream_table('shelf')");
    }
    void fill(int rows, int bytes = 10) {
        change("insert into items select n, repeat('x', " + std::to_string(bytes) +
               ") from generate_series(1, " + std::to_string(rows) + ") n");
    }
    // The small delta behind the large one.
    void add_one() { change("insert into items values (0, 'last')"); }

    void write_config(const std::string& source, const std::string& limits = {}) const {
        std::ofstream(folder / "relay.toml")
            << "[[pipeline]]\nname = \"deltas\"\n[pipeline.source]\noutbox = \"outbox_shelf\"\n"
            << source << "[pipeline.sink]\ntype = \"file\"\npath = \"" << (folder / "out").string()
            << "\"\n[pipeline.limits]\n"
            << limits;
    }
    Process start_relay() const {
        return start_baton({"relay", "--db", url, "--config", (folder / "relay.toml").string()},
                           folder / "log", folder / "log");
    }
    std::vector<json> lines() const {
        std::vector<json> read;
        std::ifstream file(folder / "out");
        for (std::string line; std::getline(file, line) && !file.eof();) read.push_back(json::parse(line));
        return read;
    }
    std::size_t count() const {
        std::ifstream file(folder / "out");
        return static_cast<std::size_t>(
            std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
    }

    relay::Settings to_hook() {
        receiver.start();
        relay::Settings made("pipeline deltas");
        made.set("name", std::string("deltas"));
        made.set("source.outbox", std::string("outbox_shelf"));
        made.set("source.claim_check_rows", std::int64_t{100});
        made.set("source.lease", std::string("2s"));
        made.set("sink.type", std::string("http"));
        made.set("sink.url", "http://127.0.0.1:" + std::to_string(receiver.port()) + "/hook");
        made.set("sink.allow_private", true);
        made.set("failure.attempts", std::int64_t{1});
        made.set("failure.retry_base", std::string("10ms"));
        made.set("failure.breaker_threshold", std::int64_t{100});
        return made;
    }
    void start(const relay::Settings& made) {
        pipeline = std::make_unique<relay::Pipeline>(assembly::make_parts(made, {url, "relay"}));
        pipeline->start();
    }
    // Answer parts that begin with this row with `status`, `times` times.
    void refuse_part(int first_row, int status, int times) {
        receiver.answer_with([=, left = times](const WebhookRequest& request) mutable {
            const bool refused = json::parse(request.body).value("first_row", 0) == first_row && left-- > 0;
            return WebhookAnswer{refused ? status : 200, "because", {}};
        });
    }
    // The first rows of the parts that were taken, in order; -1 for the small delta.
    std::vector<int> taken() {
        std::vector<int> rows;
        for (const auto& request : receiver.kept())
            rows.push_back(json::parse(request.body).value("first_row", -1));
        return rows;
    }
    std::string value(const std::string& query) { return admin.value(query); }

    TemporaryFolder folder;
    std::string url = shared_cluster(GetParam()).fresh_database();
    Connection admin{url};
    WebhookReceiver receiver;
    std::unique_ptr<relay::Pipeline> pipeline;
};

constexpr const char* acknowledged = "select count(*) from baton_internal.claim_check_acks";

}  // namespace

using ManyRows = ClaimChecks;

TEST_P(ManyRows,
       fifty_thousand_rows_arrive_in_order_in_little_memory_although_the_relay_is_killed_among_them) {
    fill(50000, 500);
    add_one();
    write_config("claim_check_rows = 500\nlease = \"2s\"\n", "rate = 10\n");
    {
        auto relay = start_relay();
        wait_until("some parts are there", [&] { return count() >= 5; });
        relay.signal(SIGKILL);
        relay.wait(std::chrono::seconds(60));
    }
    const std::size_t before = count();
    EXPECT_LT(before, 100U);
    EXPECT_EQ(value(acknowledged), "0");
    EXPECT_EQ(value("select after_id from baton_internal.group_positions"), "0");
    write_config("claim_check_rows = 500\n");
    auto relay = start_relay();
    wait_until("the relay goes on", [&] { return count() > before; });
    const std::size_t at_first = memory(relay.pid(), "VmRSS");
    wait_until("the group has the rows", [&] { return value(acknowledged) == "1"; });
    EXPECT_LT(memory(relay.pid(), "VmHWM") - at_first, allowance);
    wait_until("the small delta is there", [&] { return count() >= before + 101; });

    std::map<std::string, json> parts;
    int upto = 0;
    const auto arrived = lines();
    EXPECT_FALSE(arrived.back().at("payload").contains("part"));
    for (const auto& line : arrived) {
        const auto& payload = line.at("payload");
        if (!payload.contains("part")) continue;
        const auto [seen, first] = parts.emplace(line.at("id"), payload);
        EXPECT_EQ(seen->second, payload) << "another part under the same id";
        if (!first) continue;
        EXPECT_EQ(payload.at("first_row"), upto + 1);
        EXPECT_EQ(payload.at("part"), upto / 500 + 1);
        EXPECT_EQ(payload.at("total_rows"), 50000);
        upto += static_cast<int>(payload.at("inserted").size());
        EXPECT_EQ(payload.at("last"), upto == 50000);
    }
    EXPECT_EQ(parts.size(), 100U);
    std::set<int> ids;
    for (const auto& [id, payload] : parts)
        for (const auto& row : payload.at("inserted")) ids.insert(row.at("id").get<int>());
    EXPECT_EQ(ids.size(), 50000U);
}

TEST_P(ClaimChecks, as_they_are_unless_the_pipeline_asks_for_their_rows) {
    fill(1000);
    write_config("");
    auto relay = start_relay();
    wait_until("the event is there", [&] { return !lines().empty(); });
    const auto payload = lines().front().at("payload");
    EXPECT_EQ(payload.at("claim_check"), true);
    EXPECT_EQ(payload.at("inserted_count"), 1000);
    EXPECT_EQ(value(acknowledged), "0");
}

TEST_P(ClaimChecks, small_and_large_deltas_follow_each_other_and_deletes_come_before_inserts) {
    fill(50);
    change(
        "update items set name = 'y' where id <= 50; insert into items select n, '' from generate_series(51, "
        "250) n");
    change("delete from items where id > 50");
    add_one();
    start(to_hook());
    wait_until("all arrived", [&] { return taken().size() == 7; });
    EXPECT_EQ(taken(), (std::vector<int>{-1, 1, 101, 201, 1, 101, -1}));
    std::map<int, std::string> mirror;
    for (const auto& request : receiver.kept()) {
        const auto delta = json::parse(request.body);
        for (const auto& row : delta.at("deleted")) EXPECT_EQ(mirror.erase(row.at("id")), 1U);
        for (const auto& row : delta.at("inserted"))
            EXPECT_TRUE(mirror.emplace(row.at("id"), row.at("name")).second);
    }
    EXPECT_EQ(mirror.size(), 51U);
    EXPECT_EQ(value("select count(*) from shelf"), "51");
    wait_until("both are acknowledged", [&] { return value(acknowledged) == "2"; });
}

TEST_P(ClaimChecks, a_part_that_does_not_get_through_parks_the_event_which_begins_again_before_the_next) {
    fill(500);
    add_one();
    refuse_part(201, 500, 2);
    start(to_hook());
    wait_until("the small delta arrived", [&] { return !taken().empty() && taken().back() == -1; });
    EXPECT_EQ(taken(), (std::vector<int>{1, 101, 1, 101, 1, 101, 201, 301, 401, -1}));
    wait_until("nothing is parked",
               [&] { return value("select count(*) from baton_internal.parked") == "0"; });
    EXPECT_EQ(value(acknowledged), "1");
}

TEST_P(ClaimChecks, a_part_that_is_rejected_makes_the_event_a_dead_letter_once_and_its_replay_sends_all) {
    fill(300);
    add_one();
    refuse_part(101, 422, 1);
    start(to_hook());
    wait_until("the small delta arrived", [&] { return !taken().empty() && taken().back() == -1; });
    EXPECT_EQ(taken(), (std::vector<int>{1, -1}));
    wait_until("it is dead", [&] { return value("select count(*) from baton.dead_letters") == "1"; });
    EXPECT_EQ(value(acknowledged), "0");
    admin.exec("select baton.replay_dead_letters()");
    wait_until("all parts came", [&] { return taken().size() == 5; });
    EXPECT_EQ(taken(), (std::vector<int>{1, -1, 1, 101, 201}));
    wait_until("it is acknowledged", [&] { return value(acknowledged) == "1"; });
    EXPECT_EQ(value("select count(*) from baton.dead_letters"), "0");
}

TEST_P(ClaimChecks,
       parts_are_cut_where_a_message_would_be_too_large_and_a_row_that_is_too_large_is_not_loaded) {
    fill(200, 20000);
    change(
        "insert into items values (1001, repeat('z', 2000000)); insert into items select n, '' from "
        "generate_series(2001, 2200) n");
    auto made = to_hook();
    made.set("limits.max_event_bytes", std::int64_t{1'000'000});
    made.set("source.claim_check_rows", std::int64_t{1000});
    start(made);
    wait_until("the second is dead", [&] {
        return value("select count(*) from baton.dead_letters where error ~ 'more than max_event_bytes'") ==
               "1";
    });
    std::size_t rows = 0;
    for (const auto& request : receiver.kept()) {
        EXPECT_LT(request.body.size(), 1'000'000U);
        const auto delta = json::parse(request.body);
        if (delta.at("total_rows") == 200) rows += delta.at("inserted").size();
    }
    EXPECT_EQ(rows, 200U);
    EXPECT_EQ(value(acknowledged), "1");
}

TEST_P(ClaimChecks, whose_rows_are_gone_go_as_they_are) {
    fill(300);
    admin.exec("delete from baton_internal.claim_checks");
    start(to_hook());
    wait_until("it arrived", [&] { return receiver.kept().size() == 1; });
    EXPECT_EQ(json::parse(receiver.kept().front().body).at("claim_check"), true);
    add_one();
    wait_until("and what follows", [&] { return receiver.kept().size() == 2; });
}

TEST_P(ClaimChecks, rows_are_wanted_of_the_outbox_of_a_stream_table_only) {
    admin.exec("select baton.create_outbox('orders')");
    write_config("claim_check_rows = 0\n");
    EXPECT_NE(
        run_baton({"relay", "--config", (folder / "relay.toml").string(), "--check=settings"}).exit_code, 0);
    std::ofstream(folder / "relay.toml")
        << "[[pipeline]]\nname = \"o\"\n[pipeline.source]\noutbox = \"orders\"\nclaim_check_rows = 5\n"
        << "[pipeline.sink]\ntype = \"null\"\n";
    const auto checked =
        run_baton({"relay", "--db", url, "--config", (folder / "relay.toml").string(), "--check"});
    EXPECT_NE(checked.exit_code, 0);
    EXPECT_NE((checked.output + checked.errors).find("no outbox of a stream table"), std::string::npos)
        << checked.output << checked.errors;
}

INSTANTIATE_TEST_SUITE_P(Forms, ManyRows, testing::Values(Form::plain),
                         [](const auto& form) { return name_of(form.param); });
INSTANTIATE_TEST_SUITE_P(Forms, ClaimChecks, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
