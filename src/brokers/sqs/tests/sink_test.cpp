// The sqs sink on ElasticMQ.

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.hpp"
#include "brokers/audit_place.hpp"
#include "brokers/http/tests/receiver.hpp"
#include "brokers/registry.hpp"
#include "brokers/sqs/audit_client.hpp"
#include "brokers/sqs/entry.hpp"
#include "brokers/sqs/tests/server.hpp"
#include "conformance/driver.hpp"
#include "conformance/sink_conformance.hpp"
#include "support/cluster.hpp"
#include "wire/encoding.hpp"

namespace baton::test {

namespace {

using brokers::SqsClient;
using nlohmann::json;
using relay::Verdict;

// Take away what is in a queue; ElasticMQ does not ask who we are.
std::vector<Received> drain(int port, const std::string& url) {
    std::vector<Received> all;
    SqsClient(port).drain(url, all);
    return all;
}

std::string name_of(const std::string& url) {
    return url.substr(url.rfind('/') + 1);
}

template <bool fifo>
class SqsFixture final : public SinkFixture {
  public:
    SqsFixture() {
        server_.start();
        proxy_.set_target(server_.port());
    }
    std::string make_destination() override {
        const std::string name = "queue-" + std::to_string(++count_) + (fifo ? ".fifo" : "");
        killed_ = false;
        SqsClient(server_.port()).create_queue(name);
        return server_.queue_url(name, proxy_.port());
    }
    relay::Settings settings(const std::string& destination) override {
        relay::Settings settings("sink");
        settings.set("type", "sqs");
        settings.set("queue", destination);
        settings.set("region", "elasticmq");
        settings.set("access_key", "key");
        settings.set("secret_key", "secret");
        settings.set("connect_timeout", "1s");
        settings.set("timeout", "3s");
        return settings;
    }
    // Reading takes messages away, so they are remembered here.
    std::vector<Received> read_all(const std::string& destination) override {
        auto& all = read_[destination];
        for (auto& got : drain(server_.port(), server_.queue_url(name_of(destination))))
            all.push_back(std::move(got));
        return all;
    }
    void kill_broker() override {
        server_.kill_hard();
        killed_ = true;
    }
    void start_broker() override { server_.start(); }
    Proxy* proxy() override { return &proxy_; }
    std::string name_missing() override {
        return server_.queue_url("queue-" + std::to_string(++count_) + (fifo ? ".fifo" : ""), proxy_.port());
    }
    void make_missing(const std::string& destination) override {
        SqsClient(server_.port()).create_queue(name_of(destination));
    }
    bool poison(Message& message, std::string& storage) override {
        storage.assign(300 * 1024, 'p');  // SQS takes 256 kB
        message.body = storage;
        return true;
    }
    std::size_t largest_body() const override { return 255 * 1024; }
    // ElasticMQ keeps the deduplication ids in memory.
    bool deduplicates() const override { return fifo && !killed_; }
    std::size_t messages_per_test() const override { return 400; }

  private:
    ElasticServer server_;
    Proxy proxy_;
    std::map<std::string, std::vector<Received>> read_;
    int count_ = 0;
    bool killed_ = false;
};

INSTANTIATE_TYPED_TEST_SUITE_P(SqsStandard, SinkConformance, SqsFixture<false>);
INSTANTIATE_TYPED_TEST_SUITE_P(SqsFifo, SinkConformance, SqsFixture<true>);

std::vector<Message> messages(std::size_t count) {
    std::vector<Message> made(count);
    for (std::size_t i = 0; i < count; ++i) {
        made[i].ticket = i + 1;
        made[i].message_id = "m" + std::to_string(i);
        made[i].body = "{}";
        made[i].content_type = "application/json";
    }
    return made;
}

std::map<std::uint64_t, relay::Delivery> deliver(const relay::Settings& settings,
                                                 const std::vector<Message>& messages) {
    const auto sink = brokers::make_sink(settings);
    std::vector<relay::Delivery> deliveries;
    sink->send(messages);
    wait_until("every message is reported", [&] {
        sink->collect(deliveries, std::chrono::milliseconds(50));
        return deliveries.size() >= messages.size();
    });
    std::map<std::uint64_t, relay::Delivery> fate;
    for (const auto& delivery : deliveries) fate.emplace(delivery.ticket, delivery);
    EXPECT_EQ(fate.size(), deliveries.size());
    return fate;
}

// Somebody took a message and its answer was lost: the queue hides it for a while.
TEST(SqsOnElasticMq, an_audit_waits_for_messages_that_the_queue_hides) {
    std::unique_ptr<ElasticServer> server;
    try {
        server = std::make_unique<ElasticServer>();
    } catch (const Unavailable& unavailable) {
        announce_skip(unavailable.what());
        GTEST_SKIP() << unavailable.what();
    }
    server->start();
    relay::Settings settings("sink");
    settings.set("type", "sqs");
    settings.set("endpoint", "http://127.0.0.1:" + std::to_string(server->port()));
    settings.set("region", "elasticmq");
    settings.set("access_key", "key");
    settings.set("secret_key", "secret");
    const auto place = brokers::make_audit_place({"hidden", settings, settings, {}});
    place->create();
    const SqsClient client(server->port());
    const std::string url = server->queue_url("hidden");
    client.ask("SetQueueAttributes", {{"QueueUrl", url}, {"Attributes", {{"VisibilityTimeout", "3"}}}});
    client.ask("SendMessage",
               {{"QueueUrl", url},
                {"MessageBody", "{}"},
                {"MessageAttributes", {{"message_id", {{"DataType", "String"}, {"StringValue", "1"}}}}}});
    ASSERT_EQ(client.ask("ReceiveMessage", {{"QueueUrl", url}}).at("Messages").size(), 1u);
    EXPECT_EQ(place->read_all().size(), 1u);
}

TEST(SqsOnElasticMq, headers_that_are_no_attributes_arrive_in_one_that_is) {
    std::unique_ptr<ElasticServer> server;
    try {
        server = std::make_unique<ElasticServer>();
    } catch (const Unavailable& unavailable) {
        announce_skip(unavailable.what());
        GTEST_SKIP() << unavailable.what();
    }
    server->start();
    SqsClient(server->port()).create_queue("headers");
    relay::Settings settings("sink");
    settings.set("type", "sqs");
    settings.set("queue", "{topic}");
    settings.set("account", "000000000000");
    settings.set("endpoint", "http://127.0.0.1:" + std::to_string(server->port()));
    settings.set("region", "elasticmq");
    settings.set("access_key", "key");
    settings.set("secret_key", "secret");
    auto many = messages(2);
    for (auto& message : many) message.destination = "headers";
    many[0].key = "k";
    for (int i = 0; i < 15; ++i)
        many[0].headers.push_back({"h" + std::to_string(i), "v" + std::to_string(i)});
    const std::string control(
        "a\x01"
        "b");
    many[1].headers = {
        {"two words", "x"}, {"empty", ""}, {"control", control}, {"message_id", "mine"}, {"AWS.x", "y"}};
    for (const auto& [ticket, delivery] : deliver(settings, many))
        EXPECT_EQ(delivery.verdict, Verdict::delivered) << delivery.error;
    const auto all = drain(server->port(), server->queue_url("headers"));
    ASSERT_EQ(all.size(), 2U);
    for (const auto& got : all) {
        const auto& sent = got.headers.contains("h0") ? many[0] : many[1];
        for (const auto& header : sent.headers)
            EXPECT_EQ(got.headers.at(header.name), header.value) << header.name;
    }
}

// An endpoint that answers as it is told, to show what ElasticMQ never does.
class SqsAnswers : public testing::Test {
  protected:
    void SetUp() override {
        receiver_.start();
        settings_.set("type", "sqs");
        settings_.set("queue", "http://127.0.0.1:" + std::to_string(receiver_.port()) + "/1/q");
        settings_.set("region", "eu-central-1");
        settings_.set("access_key", "AKIDEXAMPLE");
        settings_.set("secret_key", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    }
    static json all_successful(const WebhookRequest& request) {
        json answer{{"Successful", json::array()}};
        const json sent = json::parse(request.body);
        for (const auto& entry : sent.at("Entries")) answer["Successful"].push_back({{"Id", entry.at("Id")}});
        return answer;
    }
    // Answer every request with a complaint about it as a whole.
    relay::Delivery complain(int status, const std::string& type) {
        receiver_.answer_with([=](const WebhookRequest&) {
            return WebhookAnswer{
                status,
                json{{"__type", "com.amazonaws.sqs#" + type}, {"message", "says sqs"}}.dump(),
                {{"Retry-After", "7"}}};
        });
        const auto fate = deliver(settings_, messages(3));
        EXPECT_EQ(fate.at(1).verdict, fate.at(3).verdict);
        EXPECT_EQ(fate.at(1).error, type + ": says sqs");
        return fate.at(1);
    }

    WebhookReceiver receiver_;
    relay::Settings settings_{"sink"};
};

TEST_F(SqsAnswers, each_entry_has_a_fate_of_its_own) {
    receiver_.answer_with([](const WebhookRequest&) {
        return WebhookAnswer{200,
                             R"({"Successful":[{"Id":"0"}],"Failed":[
            {"Id":"1","SenderFault":true,"Code":"InvalidMessageContents","Message":"not text"},
            {"Id":"2","SenderFault":false,"Code":"InternalError","Message":"our fault"},
            {"Id":"3","SenderFault":true,"Code":"KmsThrottled","Message":"slower"},
            {"Id":"77","SenderFault":true,"Code":"Strange","Message":"nobody"}]})",
                             {}};
    });
    const auto fate = deliver(settings_, messages(5));
    EXPECT_EQ(fate.at(1).verdict, Verdict::delivered);
    EXPECT_EQ(fate.at(2).verdict, Verdict::rejected);
    EXPECT_EQ(fate.at(2).error, "InvalidMessageContents: not text");
    EXPECT_EQ(fate.at(3).verdict, Verdict::retry);
    EXPECT_EQ(fate.at(4).verdict, Verdict::retry);
    EXPECT_EQ(fate.at(5).verdict, Verdict::retry) << "it was not mentioned";
}

TEST_F(SqsAnswers, what_is_said_of_the_whole_request_decides_for_all) {
    for (const auto& type : {"QueueDoesNotExist", "AccessDeniedException", "ExpiredTokenException",
                             "InvalidClientTokenId", "SignatureDoesNotMatch"})
        EXPECT_EQ(complain(400, type).verdict, Verdict::shut) << type;
    EXPECT_EQ(complain(403, "SomethingNew").verdict, Verdict::shut);
    for (const auto& type : {"RequestThrottled", "ThrottlingException"})
        EXPECT_EQ(complain(400, type).verdict, Verdict::retry) << type;
    const auto busy = complain(503, "ServiceUnavailable");
    EXPECT_EQ(busy.verdict, Verdict::retry);
    EXPECT_EQ(busy.retry_after, std::chrono::seconds(7));
}

TEST_F(SqsAnswers, an_answer_that_nobody_understands_is_retried) {
    for (const auto& answer : {"", "<html>", "[]", "{\"Successful\":3}"}) {
        receiver_.answer_with([=](const WebhookRequest&) { return WebhookAnswer{200, answer, {}}; });
        for (const auto& [ticket, delivery] : deliver(settings_, messages(2)))
            EXPECT_EQ(delivery.verdict, Verdict::retry) << answer;
    }
}

TEST_F(SqsAnswers, a_request_refused_over_one_entry_is_taken_apart) {
    receiver_.answer_with([](const WebhookRequest& request) {
        if (request.body.find("\"m3\"") != std::string::npos)
            return WebhookAnswer{
                400, R"({"__type":"com.amazonaws.sqs#InvalidAttributeValue","message":"m3"})", {}};
        return WebhookAnswer{200, all_successful(request).dump(), {}};
    });
    for (const auto& [ticket, delivery] : deliver(settings_, messages(8)))
        EXPECT_EQ(delivery.verdict, ticket == 4 ? Verdict::rejected : Verdict::delivered) << ticket;
}

TEST_F(SqsAnswers, requests_hold_ten_entries_and_the_allowed_bytes_at_most) {
    receiver_.answer_with([](const WebhookRequest& request) {
        return WebhookAnswer{200, all_successful(request).dump(), {}};
    });
    const std::string large(100'000, 'x');
    auto many = messages(60);
    for (std::size_t i = 30; i < 60; ++i) many[i].body = large;
    for (const auto& [ticket, delivery] : deliver(settings_, many))
        EXPECT_EQ(delivery.verdict, Verdict::delivered) << delivery.error;
    std::size_t largest_count = 0;
    for (const auto& request : receiver_.kept()) {
        const auto entries = json::parse(request.body).at("Entries");
        std::size_t bytes = 0;
        for (const auto& entry : entries) bytes += entry.at("MessageBody").get<std::string>().size();
        EXPECT_LE(bytes, 256U << 10);
        EXPECT_LE(entries.size(), 10U);
        largest_count = std::max(largest_count, entries.size());
    }
    EXPECT_EQ(largest_count, 10U);
    EXPECT_EQ(receiver_.kept().size(), 3U + 15U);
    const std::string too_large(300'000, 'x');
    auto one = messages(1);
    one[0].body = too_large;
    EXPECT_EQ(deliver(settings_, one).at(1).verdict, Verdict::rejected);
}

TEST_F(SqsAnswers, a_queue_on_another_host_gets_no_signed_request) {
    WebhookReceiver elsewhere;
    elsewhere.start();
    auto one = messages(1);
    one[0].destination = "http://127.0.0.1:" + std::to_string(elsewhere.port()) + "/1/q";
    EXPECT_EQ(deliver(settings_, one).at(1).verdict, Verdict::rejected);
    EXPECT_EQ(elsewhere.requests(), 0U);
    EXPECT_EQ(receiver_.requests(), 0U);
}

// Compute Signature Version 4 anew from what arrived.
std::string expected_signature(const WebhookRequest& request, const std::string& signed_headers,
                               const std::string& secret) {
    std::string canonical = "POST\n/\n\n";
    std::istringstream names(signed_headers);
    for (std::string name; std::getline(names, name, ';');)
        canonical += name + ":" + request.header(name) + "\n";
    canonical += "\n" + signed_headers + "\n" + to_hex(wire::sha256(request.body));
    const std::string time = request.header("x-amz-date");
    const std::string day = time.substr(0, 8);
    const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + day +
                                "/eu-central-1/sqs/aws4_request\n" + to_hex(wire::sha256(canonical));
    std::string key = "AWS4" + secret;
    for (const auto& part :
         {day, std::string("eu-central-1"), std::string("sqs"), std::string("aws4_request"), to_sign})
        key = wire::hmac_sha256(key, part);
    return to_hex(key);
}

TEST_F(SqsAnswers, requests_are_signed_as_aws_checks_them) {
    settings_.set("session_token", "AQoDYXdzEPT//////////wEXAMPLE");
    receiver_.answer_with([](const WebhookRequest& request) {
        return WebhookAnswer{200, all_successful(request).dump(), {}};
    });
    auto one = messages(1);
    one[0].body = "größe: 大";
    EXPECT_EQ(deliver(settings_, one).at(1).verdict, Verdict::delivered);
    const auto request = receiver_.kept().at(0);
    const std::string authorization = request.header("authorization");
    const auto part = [&](const std::string& name) {
        const auto begin = authorization.find(name + "=") + name.size() + 1;
        return authorization.substr(begin, authorization.find(',', begin) - begin);
    };
    const std::string signed_headers = part("SignedHeaders");
    for (const auto& name : {"host", "x-amz-date", "x-amz-security-token", "x-amz-target"})
        EXPECT_NE((";" + signed_headers + ";").find(";" + std::string(name) + ";"), std::string::npos)
            << signed_headers;
    EXPECT_TRUE(part("Credential").starts_with("AKIDEXAMPLE/")) << authorization;
    EXPECT_EQ(part("Signature"),
              expected_signature(request, signed_headers, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"));
    EXPECT_EQ(request.header("x-amz-target"), "AmazonSQS.SendMessageBatch");
    EXPECT_EQ(request.header("content-type"), "application/x-amz-json-1.0");
}

TEST_F(SqsAnswers, settings_that_cannot_work_are_refused) {
    const auto refused = [&](const std::string& key, const relay::Settings::Value& value) {
        auto settings = settings_;
        settings.set(key, value);
        EXPECT_THROW(brokers::make_sink(settings), relay::SettingsError) << key;
    };
    refused("queue", "name-without-account");
    refused("queue", "https://{topic}/1/q");
    refused("access_key", "");
    refused("batch_bytes", std::int64_t{0});
    refused("sekret_key", "typo");
}

}  // namespace

}  // namespace baton::test
