// The redis sink on a real redis-server.

#include "brokers/redis/audit_client.hpp"
#include "brokers/redis/tests/server.hpp"
#include "brokers/registry.hpp"
#include "conformance/deliveries.hpp"
#include "conformance/driver.hpp"
#include "conformance/server_conformance.hpp"
#include "conformance/sink_conformance.hpp"
#include "support/certificate.hpp"
#include "support/cluster.hpp"

namespace baton::test {

namespace {

using brokers::RedisClient;

class RedisFixture final : public SinkFixture {
  public:
    RedisFixture() {
        server_.options = {"--proto-max-bulk-len", "1572864"};
        server_.start();
        proxy_.set_target(server_.port());
    }
    std::string make_destination() override { return "stream-" + std::to_string(++count_); }
    relay::Settings settings(const std::string&) override {
        relay::Settings settings("sink");
        settings.set("type", "redis");
        settings.set("url", "redis://127.0.0.1:" + std::to_string(proxy_.port()));
        settings.set("connect_timeout", "1s");
        settings.set("response_timeout", "1s");
        settings.set("transaction_size", std::int64_t{50});
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        return RedisClient(server_.port()).read_stream(destination);
    }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy* proxy() override { return &proxy_; }
    bool shut(const std::string&) override {
        RedisClient(server_.port()).run({"ACL", "SETUSER", "default", "-xadd"});
        return true;
    }
    void open(const std::string&) override {
        RedisClient(server_.port()).run({"ACL", "SETUSER", "default", "+@all"});
    }
    std::optional<relay::Settings> with_wrong_login(const std::string& destination) override {
        auto wrong = settings(destination);
        wrong.set("username", "nobody");
        wrong.set("password", "wrong");
        return wrong;
    }
    bool poison(Message& message, std::string& storage) override {
        storage.assign(2'000'000, 'p');  // over the server's limit of a value
        message.body = storage;
        return true;
    }

  private:
    RedisServer server_;
    Proxy proxy_;
    int count_ = 0;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Redis, ServerConformance, RedisServer);
INSTANTIATE_TYPED_TEST_SUITE_P(Redis, SinkConformance, RedisFixture);

// A server of the test's own, with a sink that goes straight to it.
class RedisSinkTest : public testing::Test {
  protected:
    void start(std::vector<std::string> options = {}) {
        server_.options = std::move(options);
        server_.start();
        settings_.set("type", "redis");
        settings_.set("url", url());
    }
    std::string url(const std::string& login = "") const {
        return "redis://" + login + "127.0.0.1:" + std::to_string(server_.port());
    }
    std::unique_ptr<relay::Sink> make() const { return brokers::make_sink(settings_); }

    RedisServer server_;
    relay::Settings settings_{"sink"};
};

TEST_F(RedisSinkTest, a_stream_is_trimmed_to_maxlen) {
    start();
    settings_.set("maxlen", std::int64_t{10});
    settings_.set("maxlen_exact", true);
    for (const auto& delivery : reports_of(*make(), numbered(50, "trimmed")))
        EXPECT_EQ(delivery.verdict, relay::Verdict::delivered);
    EXPECT_EQ(RedisClient(server_.port()).number({"XLEN", "trimmed"}), 10);
}

TEST_F(RedisSinkTest, a_full_server_takes_none_of_a_key_after_the_first_it_refused) {
    start({"--maxmemory-policy", "noeviction"});
    RedisClient client(server_.port());
    const std::string body(2000, 'x');
    settings_.set("transaction_size", std::int64_t{20});
    const auto sink = make();
    client.run({"CONFIG", "SET", "maxmemory", "1mb"});
    const auto many = numbered(400, "full", body);
    const auto refused = reports_of(*sink, many);
    std::size_t delivered = 0;
    bool failed = false;
    for (const auto& delivery : refused) {
        if (delivery.verdict == relay::Verdict::delivered) {
            EXPECT_FALSE(failed) << "one was taken after an earlier one was refused";
            ++delivered;
            continue;
        }
        failed = true;
        EXPECT_EQ(delivery.verdict, relay::Verdict::retry);
        EXPECT_NE(delivery.error.find("OOM"), std::string::npos) << delivery.error;
    }
    EXPECT_TRUE(failed);
    EXPECT_EQ(RedisClient(server_.port()).number({"XLEN", "full"}), static_cast<std::int64_t>(delivered));
    client.run({"CONFIG", "SET", "maxmemory", "0"});
    for (const auto& delivery : reports_of(*sink, numbered(20, "full", body)))
        EXPECT_EQ(delivery.verdict, relay::Verdict::delivered) << delivery.error;
}

TEST_F(RedisSinkTest, a_wrong_password_is_waited_for_in_the_servers_words_and_the_right_one_works) {
    start({"--requirepass", "secret"});
    settings_.set("url", url(":wrong@"));
    for (const auto& delivery : reports_of(*make(), numbered(2, "s"))) {
        EXPECT_EQ(delivery.verdict, relay::Verdict::shut);
        EXPECT_NE(delivery.error.find("WRONGPASS"), std::string::npos) << delivery.error;
    }
    EXPECT_THROW(make()->check(), Error);
    settings_.set("url", url(":secret@") + "/3");
    EXPECT_NO_THROW(make()->check());
    for (const auto& delivery : reports_of(*make(), numbered(2, "s")))
        EXPECT_EQ(delivery.verdict, relay::Verdict::delivered) << delivery.error;
    RedisClient client(server_.port());
    client.run({"AUTH", "secret"});
    client.run({"SELECT", "3"});
    EXPECT_EQ(client.number({"XLEN", "s"}), 2);
}

TEST_F(RedisSinkTest, a_stream_that_the_user_may_not_write_is_shut_and_the_others_go_on) {
    start();
    RedisClient client(server_.port());
    client.run({"ACL", "SETUSER", "relay", "on", ">pw", "~open*", "+@all"});
    settings_.set("url", url("relay:pw@"));
    // The second transaction would be taken, but its messages must not overtake the first of their key.
    settings_.set("transaction_size", std::int64_t{2});
    auto mixed = numbered(4, "open");
    mixed[1].destination = "closed";
    const auto sink = make();
    std::map<std::uint64_t, relay::Delivery> fate;
    for (const auto& delivery : reports_of(*sink, mixed)) fate.emplace(delivery.ticket, delivery);
    EXPECT_EQ(fate.at(2).verdict, relay::Verdict::shut);
    EXPECT_NE(fate.at(2).error.find("NOPERM"), std::string::npos) << fate.at(2).error;
    for (const std::uint64_t ticket : {1, 3, 4})
        EXPECT_EQ(fate.at(ticket).verdict, relay::Verdict::retry) << ticket;
    for (const auto& delivery : reports_of(*sink, {mixed[0], mixed[2], mixed[3]}))
        EXPECT_EQ(delivery.verdict, relay::Verdict::delivered) << delivery.error;
    EXPECT_EQ(client.number({"XLEN", "open"}), 3);
}

TEST_F(RedisSinkTest, a_body_over_the_servers_limit_is_rejected_alone) {
    start({"--proto-max-bulk-len", "1048576"});
    const std::string large(2 << 20, 'x');
    auto mixed = numbered(3, "limit");
    mixed[1].body = large;
    const auto sink = make();
    std::vector<Message> left = mixed;
    std::map<std::uint64_t, relay::Delivery> final;
    wait_until("all are delivered or rejected", [&] {
        std::vector<Message> again;
        for (const auto& delivery : reports_of(*sink, left))
            if (delivery.verdict == relay::Verdict::retry)
                again.push_back(mixed[delivery.ticket - 1]);
            else
                final.insert_or_assign(delivery.ticket, delivery);
        left = again;
        return left.empty();
    });
    EXPECT_EQ(final.at(1).verdict, relay::Verdict::delivered);
    EXPECT_EQ(final.at(2).verdict, relay::Verdict::rejected);
    EXPECT_NE(final.at(2).error.find("Protocol error"), std::string::npos) << final.at(2).error;
    EXPECT_EQ(final.at(3).verdict, relay::Verdict::delivered);
}

TEST_F(RedisSinkTest, missing_replicas_keep_a_message_undelivered) {
    start();
    settings_.set("wait_replicas", std::int64_t{1});
    settings_.set("wait_timeout", "100ms");
    const auto sink = make();
    for (int time = 0; time < 2; ++time)
        for (const auto& delivery : reports_of(*sink, numbered(2, "lonely"))) {
            EXPECT_EQ(delivery.verdict, relay::Verdict::retry);
            EXPECT_NE(delivery.error.find("0 of 1 replicas"), std::string::npos) << delivery.error;
        }
}

TEST_F(RedisSinkTest, tls_is_spoken_and_a_stranger_is_not_trusted) {
    const auto certificate = make_certificate(server_.folder());
    const int tls_port = find_free_port();
    start({"--tls-port", std::to_string(tls_port), "--tls-cert-file", certificate.cert.string(),
           "--tls-key-file", certificate.key.string(), "--tls-auth-clients", "no"});
    settings_.set("url", "rediss://localhost:" + std::to_string(tls_port));
    for (const auto& delivery : reports_of(*make(), numbered(2, "s"))) {
        EXPECT_EQ(delivery.verdict, relay::Verdict::retry);
        EXPECT_NE(delivery.error.find("self-signed"), std::string::npos) << delivery.error;
    }
    settings_.set("tls_ca", certificate.cert.string());
    const std::string body(1 << 20, 'x');
    for (const auto& host : {"localhost", "127.0.0.1"}) {
        settings_.set("url", std::string("rediss://") + host + ":" + std::to_string(tls_port));
        EXPECT_NO_THROW(make()->check());
        for (const auto& delivery : reports_of(*make(), numbered(20, "s", body)))
            EXPECT_EQ(delivery.verdict, relay::Verdict::delivered) << delivery.error;
    }
    EXPECT_EQ(RedisClient(server_.port()).number({"XLEN", "s"}), 40);
}

TEST_F(RedisSinkTest, a_connection_closed_while_idle_costs_no_message_an_attempt) {
    start();
    RedisClient client(server_.port());
    const auto sink = make();
    reports_of(*sink, numbered(1, "idle"));
    client.run({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    for (const auto& delivery : reports_of(*sink, numbered(1, "idle")))
        EXPECT_EQ(delivery.verdict, relay::Verdict::delivered) << delivery.error;
}

// A name that leads to one server, and after a failover to another; the connection to the old one stays up.
TEST_F(RedisSinkTest, after_a_failover_the_old_server_is_left_and_all_arrives_at_the_new_one) {
    start();
    RedisServer next;
    next.start();
    Proxy name(server_.port());
    settings_.set("url", "redis://127.0.0.1:" + std::to_string(name.port()));
    const auto sink = make();
    for (const auto& delivery : reports_of(*sink, numbered(2, "moved")))
        EXPECT_EQ(delivery.verdict, relay::Verdict::delivered) << delivery.error;
    RedisClient(server_.port()).run({"REPLICAOF", "127.0.0.1", std::to_string(next.port())});
    name.set_target(next.port());
    Driver driver(*sink);
    driver.give(numbered(200, "moved"));
    driver.run();
    EXPECT_GT(driver.retries(), 0U);
    EXPECT_TRUE(driver.rejected().empty()) << driver.last_error();
    EXPECT_EQ(RedisClient(next.port()).number({"XLEN", "moved"}), 200);
}

TEST_F(RedisSinkTest, a_password_that_is_asked_for_from_now_on_shuts_and_is_waited_for) {
    start();
    RedisClient client(server_.port());
    const auto sink = make();
    reports_of(*sink, numbered(1, "s"));
    client.run({"CONFIG", "SET", "requirepass", "secret"});
    client.run({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    Driver driver(*sink);
    driver.give(numbered(50, "s"));
    driver.run_until([&] { return driver.shut() >= 100; });
    EXPECT_NE(driver.last_error().find("NOAUTH"), std::string::npos) << driver.last_error();
    EXPECT_TRUE(driver.rejected().empty());
    client.run({"CONFIG", "SET", "requirepass", ""});
    driver.run();
    EXPECT_EQ(client.number({"XLEN", "s"}), 51);
}

TEST_F(RedisSinkTest, check_finds_a_key_that_is_no_stream) {
    start();
    RedisClient(server_.port()).run({"SET", "taken", "1"});
    settings_.set("stream", "taken");
    try {
        make()->check();
        FAIL() << "check() was content with a string";
    } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find("is a string"), std::string::npos) << error.what();
    }
}

}  // namespace

}  // namespace baton::test
