// How a message becomes an SQS entry.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "brokers/sqs/access.hpp"
#include "brokers/sqs/entry.hpp"
#include "wire/encoding.hpp"

namespace baton::brokers {

using namespace wire;

namespace {

using nlohmann::json;

const std::string standard = "http://localhost/1/q";
const std::string fifo = "http://localhost/1/q.fifo";

Message message(std::string_view body = "{}") {
    Message made;
    made.message_id = "m1";
    made.body = body;
    return made;
}

json entry(const Message& from, const std::string& queue) {
    return json::parse(make_entry(from, queue).json);
}

std::string attribute(const json& made, const char* name) {
    return made.at("MessageAttributes").at(name).at("StringValue");
}

TEST(SqsComplaint, has_words_whatever_the_answer_is) {
    const auto words = [](std::string body) {
        HttpResponse response;
        response.status = 400;
        response.body = std::move(body);
        return SqsComplaint::read(response).words();
    };
    EXPECT_EQ(words(R"({"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no such queue"})"),
              "QueueDoesNotExist: no such queue");
    EXPECT_EQ(words(R"({"__type": 7, "message": ["x"]})"), R"(HTTP 400: {"__type": 7, "message": ["x"]})");
    EXPECT_EQ(words("<html>"), "HTTP 400: <html>");
    EXPECT_EQ(words("[1]"), "HTTP 400: [1]");
}

TEST(SqsResults, are_about_the_entry_that_they_name_and_no_other) {
    EXPECT_EQ(entry_of(json::parse(R"({"Id": "0"})"), 3), 0U);
    EXPECT_EQ(entry_of(json::parse(R"({"Id": "2"})"), 3), 2U);
    for (const char* none :
         {R"({"Id": "3"})", R"({"Id": "x"})", R"({"Id": ""})", R"({"Id": "1x"})", R"({"Id": "-1"})",
          R"({"Id": 1})", "{}", "[]", "1", R"({"Id": "99999999999999999999"})"})
        EXPECT_FALSE(entry_of(json::parse(none), 3).has_value()) << none;
}

TEST(SqsEntry, text_goes_as_it_is_and_other_bytes_as_base64) {
    EXPECT_EQ(entry(message("größe\n\t大"), standard).at("MessageBody"), "größe\n\t大");
    for (const std::string& bytes : {std::string("\x01"), std::string("\xFF\xFE"), std::string("a\0b", 3),
                                     std::string("\xEF\xBF\xBF")}) {
        const json made = entry(message(bytes), standard);
        EXPECT_EQ(attribute(made, "body_encoding"), "base64");
        EXPECT_EQ(base64_decode(made.at("MessageBody").get<std::string>()), bytes);
    }
    EXPECT_EQ(attribute(entry(message(""), standard), "body_encoding"), "empty");
}

TEST(SqsEntry, a_fifo_queue_gets_group_and_deduplication_id) {
    Message keyed = message();
    keyed.key = "customer-7";
    EXPECT_EQ(entry(keyed, fifo).at("MessageGroupId"), "customer-7");
    EXPECT_EQ(entry(keyed, fifo).at("MessageDeduplicationId"), "m1");
    EXPECT_FALSE(entry(keyed, standard).contains("MessageGroupId"));
    EXPECT_FALSE(entry(keyed, standard).contains("MessageDeduplicationId"));
    EXPECT_EQ(entry(message(), fifo).at("MessageGroupId"), "m1") << "without a key there is no order to keep";
}

TEST(SqsEntry, ids_that_sqs_does_not_take_are_replaced_by_their_digest) {
    Message odd = message();
    const std::string long_key(129, 'k');
    for (const std::string_view key :
         {std::string_view("two words"), std::string_view("schlüssel"), std::string_view(long_key)}) {
        odd.key = key;
        EXPECT_EQ(entry(odd, fifo).at("MessageGroupId"), to_hex(sha256(key)));
        EXPECT_EQ(attribute(entry(odd, fifo), "partition_key"), key) << "the key itself is not lost";
    }
}

TEST(SqsEntry, there_are_never_more_than_ten_attributes) {
    Message many = message("\x01");
    many.key = "k";
    many.content_type = "text/plain";
    for (int count = 0; count < 20; ++count) {
        const json made = entry(many, standard);
        EXPECT_LE(made.at("MessageAttributes").size(), 10U);
        std::size_t found = 0;
        const json rest = made.at("MessageAttributes").contains("headers")
                              ? json::parse(attribute(made, "headers"))
                              : json::object();
        for (const auto& header : many.headers)
            found += made.at("MessageAttributes").contains(header.name) || rest.contains(header.name) ? 1 : 0;
        EXPECT_EQ(found, many.headers.size());
        // While all fit, all are attributes of their own.
        EXPECT_EQ(rest.empty(), many.headers.size() <= 6) << many.headers.size();
        many.headers.push_back({"h" + std::to_string(count), "v"});
    }
}

TEST(SqsEntry, its_size_counts_body_and_attributes) {
    Message one = message(std::string_view("12345"));
    EXPECT_EQ(make_entry(one, standard).bytes, 5 + 10 + 2 + 6);
    one.headers = {{"abc", "defg"}};
    EXPECT_EQ(make_entry(one, standard).bytes, 5 + 10 + 2 + 6 + 3 + 4 + 6);
}

}  // namespace

}  // namespace baton::brokers
