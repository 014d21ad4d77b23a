// Secrets that are exchanged while the relay runs.

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <httplib.h>

#include <cstdarg>
#include <fstream>

#include "base/file.hpp"
#include "brokers/redis/tests/server.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"
#include "support/secret_file.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// An administrator's connection, which outlives a change of the password.
class Redis {
  public:
    explicit Redis(int port) : connection_(redisConnect("127.0.0.1", port), &redisFree) {}

    long long number(const char* format, ...) {
        va_list words;
        va_start(words, format);
        const std::unique_ptr<redisReply, decltype(&freeReplyObject)> reply(
            static_cast<redisReply*>(redisvCommand(connection_.get(), format, words)), &freeReplyObject);
        va_end(words);
        if (!reply || reply->type == REDIS_REPLY_ERROR) throw Error(reply ? reply->str : "no answer");
        return reply->integer;
    }

  private:
    std::unique_ptr<redisContext, decltype(&redisFree)> connection_;
};

class Secrets : public testing::Test {
  protected:
    Secrets() { admin.exec("select baton.create_outbox('orders')"); }

    void publish(int count) {
        for (int i = 0; i < count; ++i) admin.exec("select baton.publish('orders', 'order.changed', '{}')");
    }
    Process start() {
        return start_baton({"relay", "--db", url, "--config", (folder / "relay.toml").string()},
                           folder / "out", folder / "log");
    }
    bool logged(const std::string& what) const {
        return read_text(folder / "log").find(what) != std::string::npos;
    }
    std::string reference() const { return "\"" + secret.reference() + "\"\n"; }

    TemporaryFolder folder;
    SecretFile secret{"hush-1"};
    std::string url = shared_cluster(Form::plain).fresh_database();
    Connection admin{url};
};

}  // namespace

TEST_F(Secrets, a_password_that_was_exchanged_is_taken_without_a_restart_and_other_pipelines_go_on) {
    RedisServer server;
    server.start();
    Redis redis(server.port());
    redis.number("CONFIG SET requirepass hush-1");
    redis.number("AUTH hush-1");
    std::ofstream(folder / "relay.toml")
        << "[[pipeline]]\nname = \"other\"\n[pipeline.source]\noutbox = \"orders\"\n"
        << "[pipeline.sink]\ntype = \"null\"\n"
        << "[[pipeline]]\nname = \"out\"\n[pipeline.source]\noutbox = \"orders\"\n"
        << "[pipeline.sink]\ntype = \"redis\"\nurl = \"redis://127.0.0.1:" << server.port()
        << "\"\nstream = \"s\"\npassword = " << reference();
    publish(3);
    auto relay = start();
    wait_until("the first events are there", [&] { return redis.number("XLEN s") == 3; });
    const std::string epoch_of_the_other =
        "select owner_epoch from baton_internal.group_positions join baton.consumer_groups using (group_id) "
        "where group_name = 'other'";
    wait_until("the other runs", [&] { return admin.value(epoch_of_the_other) == "1"; });
    redis.number("CONFIG SET requirepass hush-2");
    redis.number("CLIENT KILL TYPE normal SKIPME yes");
    publish(3);
    wait_until("the relay is told so", [&] { return logged("no event gets through"); });
    secret.exchange("hush-2");
    wait_until("the others are there", [&] { return redis.number("XLEN s") == 6; });
    EXPECT_TRUE(logged("a secret changed, restarting"));
    EXPECT_EQ(admin.value(epoch_of_the_other), "1");
    EXPECT_EQ(relay.stop(), 0);
    for (const auto* value : {"hush-1", "hush-2"}) EXPECT_FALSE(logged(value)) << read_text(folder / "log");
}

TEST_F(Secrets, a_source_takes_the_new_token_and_refuses_the_old_one) {
    admin.exec("select baton.create_inbox('arrivals')");
    const int port = find_free_port();
    std::ofstream(folder / "relay.toml")
        << "[[pipeline]]\nname = \"in\"\n[pipeline.source]\ntype = \"http\"\nlisten = \"127.0.0.1:" << port
        << "\"\ntoken = " << reference() << "[pipeline.sink]\ntype = \"postgres\"\nurl = \"" << url
        << "\"\ninbox = \"arrivals\"\n";
    auto relay = start();
    const auto post = [port](const std::string& token, const std::string& id) {
        httplib::Client http("127.0.0.1", port);
        const auto answer = http.Post("/", {{"Authorization", "Bearer " + token}, {"webhook-id", id}}, "{}",
                                      "application/json");
        return answer ? answer->status : 0;
    };
    wait_until("the token is taken", [&] { return post("hush-1", "a") == 204; });
    EXPECT_EQ(post("hush-2", "b"), 401);
    secret.exchange("hush-2");
    wait_until("the new token is taken", [&] { return post("hush-2", "b") == 204; });
    EXPECT_EQ(post("hush-1", "c"), 401);
    EXPECT_EQ(admin.value("select count(*) from arrivals"), "2");
    EXPECT_EQ(relay.stop(), 0);
}
