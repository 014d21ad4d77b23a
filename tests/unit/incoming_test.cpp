#include "intake/incoming.hpp"
#include "base/text.hpp"
#include "brokers/registry.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "event/envelope.hpp"
#include "event/json.hpp"
#include "relay/transform.hpp"
#include "wire/encoding.hpp"

namespace baton::intake {

namespace {

HeaderBinding binding_of(const std::string& broker) {
    relay::Settings sink("sink");
    sink.set("type", broker);
    return brokers::form_of(sink).headers;
}

using nlohmann::json;
using relay::Settings;
using relay::SettingsError;

Settings settings(const std::vector<std::pair<std::string, std::string>>& values = {}) {
    Settings made("source");
    for (const auto& [key, value] : values) made.set(key, value);
    return made;
}

// Decode one message; the batch keeps its texts.
struct Decoded {
    BrokerBatch batch;
    const Event* event = nullptr;

    Decoded(const Incoming& message, const Settings& with = settings(), const std::string& broker = "kafka") {
        Decoder(with, broker, binding_of(broker)).decode(message, batch);
        event = &batch.events.front();
    }
    const Event* operator->() const { return event; }
    json headers() const { return event->headers ? json::parse(*event->headers) : json::object(); }
};

Incoming message(std::string_view body = R"({"a":1})") {
    Incoming made;
    made.body = body;
    made.topic = "orders";
    made.position = "orders/3/17";
    return made;
}

// Render an event as a sink of this type gets it, and read it back.
Incoming as_received(const Event& event, const std::string& envelope, const std::string& broker,
                     Message& sent, std::string& storage) {
    Envelope::Options options;
    options.kind = Envelope::kind_of(envelope);
    options.binding = binding_of(broker);
    Envelope(options).render(event, sent, storage);
    Incoming made;
    made.body = sent.body;
    made.content_type = sent.content_type;
    made.position = "elsewhere";
    for (const auto& header : sent.headers) made.headers.push_back({header.name, header.value});
    return made;
}

TEST(Incoming, a_message_without_an_id_is_known_by_its_place) {
    EXPECT_EQ(Decoded(message())->event_id, "kafka:orders/3/17");
    EXPECT_EQ(Decoded(message())->source_id, "kafka:orders/3/17");
    EXPECT_TRUE(Decoded(message())->from_broker);
}

TEST(Incoming, a_message_without_id_and_place_is_known_by_its_digest) {
    auto one = message();
    one.position.clear();
    one.headers = {{"a", "b"}};
    auto again = one;
    again.headers.push_back({"x-delivery-count", "1"});  // what a broker adds to a redelivery
    auto other = one;
    other.headers = {{"a", "c"}};
    const std::string id(Decoded(one)->event_id);
    EXPECT_EQ(id.find("kafka:sha256:"), 0U);
    EXPECT_EQ(Decoded(again)->event_id, id);
    EXPECT_NE(Decoded(other)->event_id, id);
}

TEST(Incoming, the_id_comes_from_where_the_settings_say) {
    auto it = message(R"({"order":{"id":12345678901234567890123,"name":"x"}})");
    it.message_id = "broker";
    it.headers = {{"Request-Id", "r-1"}, {"event-id", "e"}};
    EXPECT_EQ(Decoded(it)->event_id, "broker");
    EXPECT_EQ(Decoded(it, settings({{"id_header", "request-id"}}))->event_id, "r-1");
    EXPECT_EQ(Decoded(it, settings({{"id_field", "order.id"}}))->event_id, "12345678901234567890123");
    EXPECT_EQ(Decoded(it, settings({{"id_field", "order.name"}}))->event_id, "x");
    it.message_id.reset();
    EXPECT_EQ(Decoded(it)->event_id, "e");
}

TEST(Incoming, a_demanded_id_that_is_not_there_makes_the_message_malformed) {
    const Decoded bad(message(), settings({{"id_field", "order.id"}}));
    ASSERT_TRUE(bad->malformed);
    EXPECT_EQ(*bad->malformed, "the message has no id (kafka:orders/3/17)");
    EXPECT_EQ(bad->event_id, "kafka:orders/3/17");
    EXPECT_FALSE(
        Decoded(message(), settings({{"id_field", "order.id"}, {"missing_id", "position"}}))->malformed);
    EXPECT_TRUE(Decoded(message(), settings({{"missing_id", "malformed"}}))->malformed);
}

TEST(Incoming, a_long_id_becomes_its_digest_and_any_id_a_uuid_where_asked) {
    auto it = message();
    const std::string id(2000, 'i');
    it.message_id = id;
    EXPECT_EQ(Decoded(it)->event_id, "sha256:" + to_hex(wire::sha256(id)));
    const Decoded made(it, settings({{"id_form", "uuid"}}));
    EXPECT_EQ(made->event_id.size(), 36U);
    EXPECT_EQ(made->event_id, Decoded(it, settings({{"id_form", "uuid"}}))->event_id);
    it.message_id = "0192f1b8-0000-7000-8000-000000000001";
    EXPECT_EQ(Decoded(it, settings({{"id_form", "uuid"}}))->event_id, *it.message_id);
}

TEST(Incoming, a_body_is_what_its_content_type_says_or_malformed) {
    const auto with = [](std::string_view body, std::string_view type) {
        auto it = message(body);
        it.content_type = type;
        return it;
    };
    EXPECT_EQ(Decoded(with("{}", "application/json"))->payload_kind, PayloadKind::json);
    EXPECT_EQ(Decoded(with("hé", "text/plain"))->payload_kind, PayloadKind::text);
    EXPECT_EQ(Decoded(with("{}", "image/png"))->payload_kind, PayloadKind::bytes);
    EXPECT_EQ(*Decoded(with("{}", "image/png"))->content_type, "image/png");
    EXPECT_FALSE(Decoded(with("", "application/json"))->payload);  // how sinks write a NULL
    for (const auto& [body, type] : {std::pair{"{", "application/json"}, std::pair{"\xff", "text/plain"},
                                     std::pair{"\xff", "a/b+json"}}) {
        const Decoded bad(with(body, type));
        ASSERT_TRUE(bad->malformed) << type;
        EXPECT_EQ(*bad->payload, body);
        EXPECT_EQ(*bad->content_type, type);
        EXPECT_EQ(bad->payload_kind, PayloadKind::bytes);
    }
    EXPECT_EQ(Decoded(message("[1]"))->payload_kind, PayloadKind::json);
    EXPECT_EQ(Decoded(message("plain"))->payload_kind, PayloadKind::text);
    EXPECT_EQ(Decoded(message("\xff\xfe"))->payload_kind, PayloadKind::bytes);
    EXPECT_EQ(Decoded(message("[1]"), settings({{"format", "bytes"}}))->payload_kind, PayloadKind::bytes);
    EXPECT_TRUE(Decoded(message("plain"), settings({{"format", "json"}}))->malformed);
}

TEST(Incoming, a_malformed_message_does_not_take_the_id_of_a_better_copy) {
    auto it = message("{");
    it.content_type = "application/json";
    it.message_id = "m";
    EXPECT_EQ(Decoded(it)->event_id, "kafka:orders/3/17");
}

TEST(Incoming, headers_are_kept_whatever_their_bytes_are) {
    auto it = message();
    it.headers = {{"a", "1"},
                  {"a", "2"},
                  {"bin", std::string_view("\0\xff", 2)},
                  {"ü", "ö"},
                  {"partition-key", "k"},
                  {"content-type", "application/json"},
                  {"\xff", "x"},
                  {"message-id", "m"}};
    const Decoded decoded(it);
    EXPECT_EQ(decoded.headers(),
              json::parse(R"({"a":["1","2"],"bin_base64":"AP8=","ü":"ö","base64:/w==":"x"})"));
    EXPECT_EQ(*decoded->partition_key, "k");
    EXPECT_EQ(decoded->event_id, "m");
}

TEST(Incoming, a_binary_key_is_written_as_base64_and_stands_for_the_aggregate) {
    auto it = message();
    it.key = std::string_view("\0\1", 2);
    EXPECT_EQ(Decoded(it)->key(), "AAE=");
    it.key = "order-1";
    EXPECT_EQ(*Decoded(it)->aggregate_id, "order-1");
    it.headers = {{"aggregate-id", "7"}};
    EXPECT_EQ(*Decoded(it)->aggregate_id, "7");
    EXPECT_EQ(Decoded(message(R"({"k":"x"})"), settings({{"key_field", "k"}}))->key(), "x");
}

TEST(Incoming, a_cloudevents_id_counts_with_its_source_unless_it_is_unique_by_itself) {
    auto it = message("{}");
    it.headers = {{"ce_specversion", "1.0"}, {"ce_id", "1"}, {"ce_source", "/shop"}, {"ce_type", "made"}};
    EXPECT_EQ(Decoded(it)->event_id, "/shop#1");
    EXPECT_EQ(*Decoded(it)->event_type, "made");
    it.headers[1].value = "0192f1b8-0000-7000-8000-000000000001";
    EXPECT_EQ(Decoded(it)->event_id, "0192f1b8-0000-7000-8000-000000000001");
    it.headers.pop_back();
    EXPECT_TRUE(Decoded(it)->malformed);
}

TEST(Incoming, a_bad_envelope_is_malformed) {
    for (const char* body :
         {"", "[1]", "{}", R"({"type":"x"})", "nonsense", R"({"id":"1","payload_base64":"?"})"})
        EXPECT_TRUE(Decoded(message(body), settings({{"envelope", "json"}}))->malformed) << body;
    auto it = message(R"({"id":"1"})");
    it.content_type = "application/cloudevents+json";
    EXPECT_TRUE(Decoded(it)->malformed);
}

TEST(Incoming, settings_that_cannot_be_are_refused) {
    EXPECT_THROW(Decoder(settings({{"envelope", "xml"}}), "kafka", {}), SettingsError);
    EXPECT_THROW(Decoder(settings({{"id_field", "a"}, {"id_header", "b"}}), "kafka", {}), SettingsError);
    EXPECT_THROW(Decoder(settings({{"missing_id", "x"}}), "kafka", {}), SettingsError);
}

// What baton's own sinks write is read back as it was, through every envelope and binding.
class Roundtrip : public testing::TestWithParam<std::tuple<std::string, std::string, PayloadKind>> {};

TEST_P(Roundtrip, an_event_comes_back_as_it_went_out) {
    const auto& [envelope, broker, kind] = GetParam();
    Event event;
    event.event_id = "0192f1b8-0000-7000-8000-000000000001";
    event.event_type = "order % placed";
    event.aggregate_type = "order";
    event.aggregate_id = "ü 1";
    event.tenant_id = "t";
    event.schema_version = "3";
    event.partition_key = "key";
    event.correlation_id = "c";
    event.causation_id = "d";
    event.idempotency_key = "payment 7 ü";
    event.headers = R"({"x":"1"})";
    event.trace_id = "0af7651916cd43dd8448eb211c80319c";
    event.occurred_at = Timestamp(std::chrono::microseconds(1'700'000'000'123'456));
    event.payload_kind = kind;
    event.payload = kind == PayloadKind::json ? R"({"a": [1.10, "}\"{", 12345678901234567890123], "b": null})"
                    : kind == PayloadKind::text ? "tëxt"
                                                : "\xff\x01";
    Message sent;
    std::string storage;
    auto received = as_received(event, envelope, broker, sent, storage);
    if (envelope == "raw") received.key = sent.key;
    const Decoded decoded(received, settings({{"envelope", envelope == "json" ? "json" : "auto"}}), broker);
    ASSERT_FALSE(decoded->malformed) << *decoded->malformed;
    EXPECT_EQ(decoded->event_id, event.event_id);
    EXPECT_EQ(decoded->event_type, event.event_type);
    EXPECT_EQ(decoded->aggregate_type, event.aggregate_type);
    EXPECT_EQ(decoded->aggregate_id, event.aggregate_id);
    EXPECT_EQ(decoded->tenant_id, event.tenant_id);
    EXPECT_EQ(decoded->schema_version, event.schema_version);
    EXPECT_EQ(decoded->partition_key, event.partition_key);
    EXPECT_EQ(decoded->correlation_id, event.correlation_id);
    EXPECT_EQ(decoded->causation_id, event.causation_id);
    EXPECT_EQ(decoded->idempotency_key, event.idempotency_key);
    EXPECT_EQ(decoded->trace_id, event.trace_id);
    EXPECT_EQ(decoded->occurred_at, event.occurred_at);
    EXPECT_EQ(decoded->payload, event.payload);
    EXPECT_EQ(decoded.headers().at("x"), "1");
    if (envelope != "json") {
        EXPECT_EQ(decoded->payload_kind, event.payload_kind);
    }
}

INSTANTIATE_TEST_SUITE_P(Every, Roundtrip,
                         testing::Combine(testing::Values("raw", "json", "cloudevents",
                                                          "cloudevents-structured"),
                                          testing::Values("kafka", "nats", "rabbitmq", "redis"),
                                          testing::Values(PayloadKind::json, PayloadKind::bytes)));
INSTANTIATE_TEST_SUITE_P(Text, Roundtrip,
                         testing::Combine(testing::Values("raw", "cloudevents", "cloudevents-structured"),
                                          testing::Values("kafka", "nats"),
                                          testing::Values(PayloadKind::text)));

TEST(Incoming, a_malformed_event_passes_filters_and_envelopes_as_it_is) {
    auto it = message("{");
    it.content_type = "application/json";
    it.headers = {{"h", "1"}};
    const Decoded bad(it);
    Settings sink("sink");
    sink.set("type", "kafka");
    sink.set("envelope", "cloudevents-structured");
    Settings filter("filter");
    filter.set("event_types", std::vector<std::string>{"only.this"});
    relay::Transform transform(sink, filter, brokers::form_of(sink));
    EXPECT_TRUE(transform.wants(*bad.event));
    Messages messages;
    std::string storage;
    transform.render(*bad.event, messages, storage);
    ASSERT_EQ(messages.size(), 1U);
    EXPECT_EQ(messages[0].body, "{");
}

TEST(Incoming, a_trace_that_is_none_is_not_cut_out_of_other_bytes) {
    auto traced = message();
    traced.headers = {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}};
    EXPECT_EQ(Decoded(traced)->trace_id, "0af7651916cd43dd8448eb211c80319c");
    // A character of two bytes lies across the end of what would be the id.
    const std::string odd = "00-" + std::string(31, 'a') + "\xC3\xA9" + std::string(30, 'b');
    traced.headers = {{"traceparent", odd}};
    EXPECT_FALSE(Decoded(traced)->trace_id.has_value());
}

TEST(Times, are_read_with_any_offset) {
    const Timestamp at(std::chrono::microseconds(1'700'000'000'123'456));
    EXPECT_EQ(read_rfc3339("2023-11-14T22:13:20.123456Z"), at);
    EXPECT_EQ(read_rfc3339("2023-11-14T23:43:20.123456789+01:30"), at);
    EXPECT_EQ(read_rfc3339("2023-11-14t17:13:20.123456-05:00"), at);
    for (const char* bad :
         {"", "2023-11-14", "2023-11-14T22:13:20", "2023-11-14T22:13:20.1+1", "x", "2023-13-14T22:13:20Z",
          "2023-02-30T22:13:20Z", "2023-11-14T24:13:20Z", "2023-11-14T22:60:20Z", "-023-11-14T22:13:20Z",
          "2023-11-14T22:13:20+24:00", "2023-11-14T22:13:20+ 1:00", "2023-11-14T22:13:20Z ",
          "0000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"})
        EXPECT_FALSE(read_rfc3339(bad)) << bad;
    for (const char* edge : {"0000-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"})
        EXPECT_EQ(std::string_view(TimeText(*read_rfc3339(edge))), edge);
}

TEST(Times, of_a_broker_are_taken_when_somebody_can_have_meant_them) {
    using namespace std::chrono;
    EXPECT_EQ(broker_time(milliseconds(1'700'000'000'123)), Timestamp(microseconds(1'700'000'000'123'000)));
    EXPECT_EQ(broker_time(nanoseconds(1'700'000'000'123'456'789)),
              Timestamp(microseconds(1'700'000'000'123'456)));
    EXPECT_FALSE(broker_time(milliseconds(0)));
    EXPECT_FALSE(broker_time(milliseconds(-1)));
    EXPECT_FALSE(broker_time(seconds(1'700'000'000'123))) << "milliseconds, written as seconds";
    EXPECT_FALSE(broker_time(milliseconds::max()));
    EXPECT_FALSE(broker_time(seconds::max()));
}

TEST(Incoming, a_place_that_is_no_text_is_an_id_all_the_same) {
    auto odd = message("{");
    odd.position = std::string("a\0b", 3);
    EXPECT_EQ(Decoded(odd, settings({{"format", "json"}}))->event_id, "kafka:base64:YQBi");
    EXPECT_EQ(Decoded(odd, settings({{"format", "json"}}))->malformed,
              "the body is not JSON (kafka:base64:YQBi)");
}

TEST(Json, ends_with_its_text_and_not_at_a_zero_byte) {
    EXPECT_TRUE(is_json("{}"));
    EXPECT_FALSE(is_json(std::string_view("{}\0", 3)));
    EXPECT_FALSE(is_json(std::string_view("{}\0garbage", 10)));
    EXPECT_EQ(Decoded(message(std::string_view("{}\0{", 4)))->payload_kind, PayloadKind::text);
}

TEST(Json, members_are_taken_apart_as_they_are_written) {
    const auto members = json_members(R"( { "a\"b" : {"x":"}"} , "c":[1,{"d":2}], "e":"\\" ,"f": 1.0 } )");
    ASSERT_EQ(members.size(), 4U);
    EXPECT_EQ(members[0], (std::pair<std::string, std::string_view>("a\"b", R"({"x":"}"})")));
    EXPECT_EQ(members[1].second, R"([1,{"d":2}])");
    EXPECT_EQ(members[2].second, R"("\\")");
    EXPECT_EQ(members[3].second, "1.0");
    EXPECT_TRUE(json_members("{}").empty());
    EXPECT_TRUE(json_members("[1]").empty());
}

}  // namespace

}  // namespace baton::intake
