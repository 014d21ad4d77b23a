// What brokers answer, taken apart: an answer that is not what was asked for does no harm.

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "baton/error.hpp"
#include "brokers/nats/message.hpp"
#include "brokers/redis/entry.hpp"
#include "brokers/sqs/message.hpp"

namespace baton::brokers {

using namespace intake;

namespace {

using nlohmann::json;

const Decoder decoder(relay::Settings("source"), "test", {});

std::shared_ptr<redisReply> from_wire(const std::string& bytes) {
    const std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader(redisReaderCreate(),
                                                                          &redisReaderFree);
    redisReaderFeed(reader.get(), bytes.data(), bytes.size());
    void* reply = nullptr;
    if (redisReaderGetReply(reader.get(), &reply) != REDIS_OK || reply == nullptr) throw Error("no reply");
    return {static_cast<redisReply*>(reply), &freeReplyObject};
}

const std::string entry = "*2\r\n$3\r\n7-0\r\n*4\r\n$4\r\nbody\r\n$2\r\n{}\r\n$1\r\na\r\n$1\r\nb\r\n";
const std::string gone = "*2\r\n$3\r\n8-0\r\n*-1\r\n";

TEST(RedisAnswers, entries_are_found_and_those_that_are_gone_told_apart) {
    const auto answer = from_wire("*1\r\n*2\r\n$1\r\ns\r\n*3\r\n" + entry + gone + "*-1\r\n");
    const auto* entries = entries_of_read(*answer);
    ASSERT_NE(entries, nullptr);
    BrokerBatch batch;
    std::string left;
    for_each_entry(
        *entries,
        [&](const std::string& id, const redisReply& fields) {
            decode_entry(id, fields, "s", "body", decoder, batch);
        },
        [&](const std::string& id) { left += id; });
    ASSERT_EQ(batch.events.size(), 1U);
    EXPECT_EQ(batch.events[0].payload, "{}");
    EXPECT_EQ(batch.events[0].event_id, "test:s/7-0");
    EXPECT_EQ(left, "8-0");
    EXPECT_EQ(last_id(*entries), "") << "the last one has no id";
    EXPECT_EQ(entries_of_read(*from_wire("*-1\r\n")), nullptr);
}

TEST(RedisAnswers, out_of_protocol_are_refused) {
    for (const char* odd : {"+OK\r\n", ":1\r\n", "*1\r\n*-1\r\n", "*1\r\n*2\r\n$1\r\ns\r\n:1\r\n",
                            "*2\r\n:1\r\n:2\r\n", "*1\r\n*1\r\n$1\r\ns\r\n"})
        EXPECT_THROW(entries_of_read(*from_wire(odd)), ConnectionError) << odd;
    std::string cursor;
    for (const char* odd : {"+OK\r\n", "*1\r\n$3\r\n0-0\r\n", "*2\r\n$3\r\n0-0\r\n:1\r\n"})
        EXPECT_THROW(entries_of_claim(*from_wire(odd), cursor), ConnectionError) << odd;
    EXPECT_EQ(entries_of_claim(*from_wire("*2\r\n$3\r\n5-0\r\n*0\r\n"), cursor).elements, 0U);
    EXPECT_EQ(cursor, "5-0");
}

TEST(SqsAnswers, members_of_another_kind_count_as_missing) {
    const auto answer = json::parse(R"({"Messages": [
        {"MessageId": 7, "Body": ["x"], "Attributes": "none", "MessageAttributes": {"a": 1, "headers": {"StringValue": "[]"}}},
        {"MessageId": "m", "Body": "{}", "ReceiptHandle": "h", "Attributes": {"SentTimestamp": "99999999999999999999"}},
        "no message"]})");
    SqsBatch batch;
    read_sqs_messages(answer, "http://localhost/1/q", decoder, batch);
    ASSERT_EQ(batch.events.size(), 3U);
    EXPECT_EQ(batch.handles, (std::vector<std::string>{"", "h", ""}));
    EXPECT_EQ(batch.events[1].event_id, "test:m");
    for (const char* none : {"[]", "{}", R"({"Messages": {}})", "7"}) {
        SqsBatch empty;
        read_sqs_messages(json::parse(none), "q", decoder, empty);
        EXPECT_TRUE(empty.events.empty()) << none;
    }
}

TEST(NatsAnswers, standing_and_stored_headers_are_read_or_not_there) {
    const auto standing = read_nats_standing("$JS.ACK.s.c.1.42.7.1700000000000000000.0");
    ASSERT_TRUE(standing.has_value());
    EXPECT_EQ(standing->sequence, 42U);
    EXPECT_FALSE(read_nats_standing("$JS.ACK.s.c.1.x.7.y.0").has_value());
    EXPECT_FALSE(read_nats_standing("").has_value());
    BrokerBatch batch;
    const auto headers =
        read_stored_headers(R"({"message": {"hdrs": "TkFUUy8xLjANCmE6IGINCmM6DQo="}})", batch);
    ASSERT_TRUE(headers.has_value());
    ASSERT_EQ(headers->size(), 2U);
    EXPECT_EQ((*headers)[0].name, "a");
    EXPECT_EQ((*headers)[0].value, "b");
    for (const char* none :
         {"", "{}", R"({"message": 1})", R"({"message": {"hdrs": 7}})", R"({"message": {"hdrs": "!"}})"})
        EXPECT_FALSE(read_stored_headers(none, batch).has_value()) << none;
}

}  // namespace

}  // namespace baton::brokers
