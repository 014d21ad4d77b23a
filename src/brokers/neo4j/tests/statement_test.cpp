// What Neo4j is sent and what its answers mean, without a server.

#include "brokers/neo4j/statement.hpp"

#include <gtest/gtest.h>

#include "brokers/neo4j/access.hpp"

namespace baton::test {

namespace {

using brokers::neo4j_event;
using brokers::Neo4jComplaint;
using nlohmann::json;

Message message_with(std::string_view body, std::string_view type) {
    Message message;
    message.message_id = "id\"1";
    message.body = body;
    message.content_type = type;
    return message;
}

TEST(Neo4jStatement, an_event_is_json_whatever_its_payload_is) {
    EXPECT_EQ(neo4j_event(message_with(R"({"a": 1})", "application/json"), false),
              R"({"id":"id\"1","headers":{},"payload":{"a": 1}})");
    EXPECT_EQ(neo4j_event(message_with(R"({"a": 1})", "application/json"), true),
              R"({"id":"id\"1","headers":{},"payload":"{\"a\": 1}"})");
    EXPECT_EQ(neo4j_event(message_with("{\"a\": 1", "application/json"), false),
              R"({"id":"id\"1","headers":{},"payload":"{\"a\": 1"})")
        << "what only says that it is JSON is a text";
    EXPECT_EQ(neo4j_event(message_with("\xff\x01", "text/plain"), false),
              R"({"id":"id\"1","headers":{},"encoding":"base64","payload":"/wE="})");
    EXPECT_EQ(neo4j_event(message_with("", ""), false), R"({"id":"id\"1","headers":{},"payload":""})");
}

TEST(Neo4jStatement, an_event_carries_what_is_known_of_it) {
    Event event;
    event.event_type = "placed";
    event.aggregate_type = "order";
    event.aggregate_id = "7";
    event.tenant_id = "acme";
    event.occurred_at = Timestamp(std::chrono::microseconds(1'700'000'000'000'001));
    Message message = message_with("1", "application/json");
    message.event = &event;
    message.key = "k";
    message.headers = {{"n", "1"}, {"m", "x"}, {"n", "2"}};
    EXPECT_EQ(json::parse(neo4j_event(message, false)),
              json::parse(R"({"id":"id\"1","key":"k","type":"placed","aggregate_type":"order",
                              "aggregate_id":"7","tenant_id":"acme",
                              "occurred_at":"2023-11-14T22:13:20.000001Z",
                              "headers":{"m":"x","n":"2"},"payload":1})"));
}

TEST(Neo4jStatement, a_name_cannot_leave_its_backticks) {
    EXPECT_EQ(brokers::neo4j_name("A`) DETACH DELETE (n"), "`A``) DETACH DELETE (n`");
}

wire::HttpResponse answer(long status, std::string body) {
    wire::HttpResponse response;
    response.status = status;
    response.body = std::move(body);
    return response;
}

enum class Fault { none, destination, moment, batch };

Fault fault_of(const wire::HttpResponse& response) {
    const auto complaint = Neo4jComplaint::read(response);
    if (!complaint) return Fault::none;
    EXPECT_EQ(complaint->words().empty(), response.status == 0);
    if (complaint->is_refusal()) return Fault::destination;
    return complaint->passes() ? Fault::moment : Fault::batch;
}

Fault fault_of_code(long status, const std::string& code) {
    return fault_of(answer(status, R"({"errors":[{"code":")" + code + R"(","message":"why"}]})"));
}

TEST(Neo4jAnswers, an_answer_says_whose_fault_it_is) {
    EXPECT_EQ(fault_of(answer(202, R"({"data":{"fields":[],"values":[]},"bookmarks":[]})")), Fault::none);
    EXPECT_EQ(fault_of_code(400, "Neo.ClientError.Statement.SyntaxError"), Fault::batch);
    EXPECT_EQ(fault_of_code(400, "Neo.ClientError.Schema.ConstraintValidationFailed"), Fault::batch);
    EXPECT_EQ(fault_of_code(400, "N/A"), Fault::batch);
    EXPECT_EQ(fault_of_code(202, "Neo.ClientError.Statement.TypeError"), Fault::batch)
        << "an error after a good beginning";
    EXPECT_EQ(fault_of_code(401, "Neo.ClientError.Security.Unauthorized"), Fault::destination);
    EXPECT_EQ(fault_of_code(400, "Neo.ClientError.Security.Forbidden"), Fault::destination);
    EXPECT_EQ(fault_of_code(404, "Neo.ClientError.Database.DatabaseNotFound"), Fault::destination);
    EXPECT_EQ(fault_of(answer(404, "<html>nothing here</html>")), Fault::destination);
    EXPECT_EQ(fault_of(answer(301, "")), Fault::destination);
    EXPECT_EQ(fault_of_code(400, "Neo.TransientError.Transaction.DeadlockDetected"), Fault::moment);
    EXPECT_EQ(fault_of_code(400, "Neo.ClientError.Transaction.TransactionTimedOut"), Fault::moment);
    EXPECT_EQ(fault_of_code(400, "Neo.ClientError.Cluster.NotALeader"), Fault::moment);
    EXPECT_EQ(fault_of_code(500, "Neo.DatabaseError.General.UnknownError"), Fault::moment);
    EXPECT_EQ(fault_of(answer(503, "")), Fault::moment);
    EXPECT_EQ(fault_of(answer(0, "")), Fault::moment);
    EXPECT_EQ(fault_of(answer(202, R"({"data":{"fields":["n"],"val)")), Fault::moment)
        << "a part of an answer is none";
    EXPECT_EQ(fault_of(answer(200, "hello")), Fault::moment);
}

}  // namespace

}  // namespace baton::test
