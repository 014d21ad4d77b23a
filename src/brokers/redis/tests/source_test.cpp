// The redis source on a real redis-server.

#include <hiredis/hiredis.h>

#include "brokers/redis/tests/server.hpp"
#include "conformance/source_conformance.hpp"
#include "conformance/way_in.hpp"

namespace baton::test {

namespace {

// A connection of the test's own.
class RedisClient {
  public:
    using Reply = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;

    explicit RedisClient(int port) : context_(redisConnect("127.0.0.1", port), redisFree) {
        if (!context_ || context_->err != 0) throw Error("cannot reach redis");
    }
    Reply ask(const std::vector<std::string>& words) {
        std::vector<const char*> pointers;
        std::vector<std::size_t> sizes;
        for (const auto& word : words) {
            pointers.push_back(word.data());
            sizes.push_back(word.size());
        }
        void* reply =
            redisCommandArgv(context_.get(), static_cast<int>(words.size()), pointers.data(), sizes.data());
        if (reply == nullptr) throw Error(std::string("redis: ") + context_->errstr);
        return {static_cast<redisReply*>(reply), freeReplyObject};
    }

  private:
    std::unique_ptr<redisContext, decltype(&redisFree)> context_;
};

class RedisFixture final : public SourceFixture {
  public:
    RedisFixture() {
        server_.start();
        proxy_.set_target(server_.port());
    }
    std::string make_place() override { return "stream-" + std::to_string(++count_); }
    Table source(const std::string& place, const std::string& reader) override {
        return {{"type", "redis"},         {"url", "redis://127.0.0.1:" + std::to_string(proxy_.port())},
                {"stream", place},         {"consumer", reader},
                {"claim_idle", "2s"},      {"connect_timeout", "2s"},
                {"response_timeout", "1s"}};
    }
    Table sink() override {
        return {{"type", "redis"}, {"url", "redis://127.0.0.1:" + std::to_string(server_.port())}};
    }
    // What nobody has read yet, and what was read and not acknowledged.
    std::size_t held(const std::string& place) override {
        auto redis = client();
        const auto groups = redis.ask({"XINFO", "GROUPS", place});
        if (groups->type != REDIS_REPLY_ARRAY || groups->elements == 0)
            return static_cast<std::size_t>(redis.ask({"XLEN", place})->integer);
        std::size_t held = 0;
        const redisReply& group = *groups->element[0];
        for (std::size_t i = 0; i + 1 < group.elements; i += 2) {
            const std::string name(group.element[i]->str, group.element[i]->len);
            if (name == "pending" || name == "lag")
                held += static_cast<std::size_t>(group.element[i + 1]->integer);
        }
        return held;
    }
    bool knows_missing_places() const override { return false; }  // a stream may come later
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy& proxy() override { return proxy_; }
    RedisClient client() const { return RedisClient(server_.port()); }

  private:
    RedisServer server_;
    Proxy proxy_;
    int count_ = 0;
};

class RedisSource : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        fixture_ = std::make_unique<RedisFixture>();
        cluster_ = std::make_unique<Cluster>(Form::extension);
    }
    static void TearDownTestSuite() {
        fixture_.reset();
        cluster_.reset();
    }
    static inline std::unique_ptr<RedisFixture> fixture_;
    static inline std::unique_ptr<Cluster> cluster_;
};

TEST_F(RedisSource, an_entry_of_somebody_else_is_known_by_its_place_and_keeps_its_fields) {
    WayIn way(*fixture_, *cluster_);
    auto redis = fixture_->client();
    const auto id = [](const RedisClient::Reply& reply) { return std::string(reply->str, reply->len); };
    const auto first = id(redis.ask({"XADD", way.place(), "*", "temperature", "21", "bin", "\xff"}));
    const auto second = id(redis.ask({"XADD", way.place(), "*", "body", "hello", "origin", "sensor"}));
    const auto pipeline = way.start();
    way.wait_for(2);
    pipeline->request_stop();
    pipeline->join();
    const auto all = way.arrived();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].id, "redis:" + way.place() + "/" + first);
    EXPECT_EQ(all[0].payload, R"({"bin_base64": "/w==", "temperature": "21"})");
    EXPECT_EQ(all[1].id, "redis:" + way.place() + "/" + second);
    EXPECT_EQ(all[1].bytes, "hello");
    EXPECT_NE(all[1].headers.find(R"("origin": "sensor")"), std::string::npos) << all[1].headers;
    EXPECT_EQ(fixture_->held(way.place()), 0U);
}

TEST_F(RedisSource, what_a_reader_that_is_gone_left_behind_is_claimed_and_what_was_deleted_does_not_block) {
    WayIn way(*fixture_, *cluster_);
    way.add_keyed(50);
    way.publish();
    auto redis = fixture_->client();
    redis.ask({"XGROUP", "CREATE", way.place(), "in", "0"});
    redis.ask({"XREADGROUP", "GROUP", "in", "gone", "COUNT", "30", "STREAMS", way.place(), ">"});
    const auto mine =
        redis.ask({"XREADGROUP", "GROUP", "in", "one", "COUNT", "10", "STREAMS", way.place(), ">"});
    const redisReply* deleted = mine->element[0]->element[1]->element[0]->element[0];
    redis.ask({"XDEL", way.place(), std::string(deleted->str, deleted->len)});
    const auto pipeline = way.start();
    way.wait_for(49);
    wait_until("nothing is left", [&] { return fixture_->held(way.place()) == 0; });
    pipeline->request_stop();
    pipeline->join();
    EXPECT_EQ(way.count(), 49U);
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Redis, SourceConformance, RedisFixture);

}  // namespace baton::test
