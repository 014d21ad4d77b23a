// examples/bidirectional as it stands: requests from Redis, through an inbox, a handler and an outbox, to
// answers in Redis. Relays, handlers and Redis are killed in the middle; the money still moves exactly once,
// and every request is answered.

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <signal.h>

#include <map>
#include <random>
#include <set>

#include "base/file.hpp"
#include "brokers/redis/tests/server.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;

namespace {

const fs::path example = fs::path(BATON_SOURCE) / "examples/bidirectional";

struct Answer {
    std::string request;
    std::string type;
};

class Bidirectional : public testing::TestWithParam<Form> {
  protected:
    static constexpr int accounts = 5;
    static constexpr int requests = 150;

    void SetUp() override {
        redis.start();
        const auto ran = run_separately({.argv = {"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f",
                                                  (example / "schema.sql").string(), url}});
        ASSERT_EQ(ran.exit_code, 0) << ran.errors;
        // Each account has enough for two thirds of what is asked of it.
        admin.query("insert into accounts select 'a' || n, $2::int from generate_series(0, $1::int - 1) n",
                    {accounts, requests / accounts * 10 * 2 / 3});
    }

    // A command on a connection of its own, because the server may have been another one a moment ago.
    template <class Read>
    auto ask(const std::vector<std::string>& words, const Read& read) const {
        const std::unique_ptr<redisContext, decltype(&redisFree)> context(
            redisConnect("127.0.0.1", redis.port()), &redisFree);
        std::vector<const char*> pointers;
        for (const auto& word : words) pointers.push_back(word.c_str());
        const std::unique_ptr<void, decltype(&freeReplyObject)> reply(
            redisCommandArgv(context.get(), static_cast<int>(words.size()), pointers.data(), nullptr),
            &freeReplyObject);
        if (!reply) throw Error(std::string("redis: ") + context->errstr);
        return read(*static_cast<redisReply*>(reply.get()));
    }
    void request(int n) const {
        ask({"XADD", "payment-requests", "*", "message_id", "r-" + std::to_string(n), "header:event-type",
             "payment.requested", "body",
             R"({"account": "a)" + std::to_string(n % accounts) + R"(", "amount": 10})"},
            [](const redisReply& reply) { EXPECT_EQ(reply.type, REDIS_REPLY_STRING); });
    }
    // The answers by their message id, and how many entries there are.
    std::map<std::string, Answer> answers(std::size_t* entries = nullptr) const {
        std::map<std::string, Answer> all;
        ask({"XRANGE", "payment-answers", "-", "+"}, [&](const redisReply& reply) {
            if (entries != nullptr) *entries = reply.elements;
            for (std::size_t i = 0; i < reply.elements; ++i) {
                const redisReply& fields = *reply.element[i]->element[1];
                std::map<std::string, std::string> entry;
                for (std::size_t f = 0; f + 1 < fields.elements; f += 2)
                    entry[fields.element[f]->str] = {fields.element[f + 1]->str, fields.element[f + 1]->len};
                all[entry.at("message_id")] = {entry.at("header:request"), entry.at("header:event-type")};
            }
        });
        return all;
    }

    Process start_relay() {
        const std::string name = "relay" + std::to_string(++started);
        return Process({.argv = {program_file().string(), "relay", "--db", url, "--config",
                                 (example / "relay.toml").string()},
                        .output = folder / (name + ".log"),
                        .environment = {{"DATABASE_URL", url},
                                        {"REDIS_URL", "redis://127.0.0.1:" + std::to_string(redis.port())},
                                        {"RELAY_NAME", name}},
                        .dies_with_us = true});
    }
    Process start_handler() {
        return Process({.argv = {(build_folder() / "bin/bidirectional_handler").string(), url},
                        .output = folder / ("handler" + std::to_string(++started) + ".log"),
                        .dies_with_us = true});
    }
    int handled() {
        return std::stoi(admin.value("select count(*) from payment_requests where processed_at is not null"));
    }

    TemporaryFolder folder;
    RedisServer redis;
    int started = 0;
    std::string url = shared_cluster(GetParam()).fresh_database();
    Connection admin{url};
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Forms, Bidirectional, testing::Values(Form::extension, Form::plain),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(Bidirectional, the_money_moves_exactly_once_whoever_is_killed) {
    std::mt19937 random(std::random_device{}());
    std::vector<Process> relays;
    std::vector<Process> handlers;
    for (int n = 0; n < 2; ++n) {
        relays.push_back(start_relay());
        handlers.push_back(start_handler());
    }
    const auto kill_one = [&](std::vector<Process>& processes, const std::function<Process()>& start) {
        auto& victim = processes[random() % processes.size()];
        victim.signal(SIGKILL);
        victim.wait(std::chrono::seconds(10));
        victim = start();
    };
    int sent = 0;
    int deaths = 0;
    while (sent < requests) {
        for (int n = 0; n < 15 && sent < requests; ++n) {
            request(++sent);
            if (random() % 4 == 0)
                request(1 +
                        static_cast<int>(random() % static_cast<unsigned>(sent)));  // the sender was not sure
        }
        const int enough = sent - 10;  // some are always under way when somebody dies
        wait_until(
            "most requests are handled", [&] { return handled() >= enough; }, std::chrono::seconds(120));
        switch (deaths++ % 3) {
            case 0:
                kill_one(handlers, [&] { return start_handler(); });
                break;
            case 1:
                kill_one(relays, [&] { return start_relay(); });
                break;
            default:
                redis.kill_hard();
                redis.start();
        }
    }
    EXPECT_GE(deaths, 9);
    wait_until(
        "every request is answered", [&] { return answers().size() >= requests; }, std::chrono::seconds(180));
    for (auto& relay : relays) EXPECT_EQ(relay.stop(), 0);
    for (auto& handler : handlers) EXPECT_EQ(handler.stop(), 0);

    // The audit: what the accounts lost is what was transferred, each request has one outcome and one answer.
    EXPECT_EQ(admin.value("select count(*) || ' ' || count(processed_at) from payment_requests"), "150 150");
    EXPECT_EQ(
        admin.value("select count(*) from accounts a where balance <> 200 - (select coalesce(sum(amount), 0) "
                    "from transfers where account = a.id)"),
        "0");
    EXPECT_EQ(admin.value("select string_agg(balance::text, ' ') from accounts"), "0 0 0 0 0");
    EXPECT_EQ(admin.value("select count(*) from transfers"), "100");
    EXPECT_EQ(admin.value("select count(*) || ' ' || count(distinct partition_key) from payment_answers"),
              "150 150");
    std::set<std::string> answered;
    std::set<std::string> done;
    for (const auto& [id, answer] : answers()) {
        EXPECT_TRUE(answered.insert(answer.request).second) << answer.request << " was answered twice";
        if (answer.type == "payment.done") done.insert(answer.request);
    }
    EXPECT_EQ(answered.size(), static_cast<std::size_t>(requests));
    EXPECT_EQ(done.size(), 100U);
    for (const auto& id : done)
        EXPECT_EQ(admin.value("select count(*) from transfers where request = $1", {id}), "1") << id;
}
