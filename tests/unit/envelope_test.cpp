#include "event/envelope.hpp"
#include "brokers/registry.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "event/headers.hpp"

namespace baton {

namespace {

using nlohmann::json;

Event order_placed() {
    Event event;
    event.id = 7;
    event.source_id = "7";
    event.event_id = "0190b5f0-7f3e-7c4a-8d55-0123456789ab";
    event.tenant_id = "acme";
    event.aggregate_type = "order";
    event.aggregate_id = "ord-42";
    event.event_type = "OrderPlaced";
    event.schema_version = "2";
    event.topic = "orders";
    event.payload = R"({"total": 12.50, "note": "größe\n✓"})";
    event.headers = R"({"region":"eu","Priority":3,"none":null,"flags":{"a":true}})";
    event.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
    event.correlation_id = "c-1";
    event.occurred_at = Timestamp(std::chrono::microseconds(1'769'903'999'123'456));
    return event;
}

struct Rendered {
    Message message;
    std::string storage;
};

void render(Envelope::Options options, const Event& event, Rendered& out) {
    Envelope(std::move(options)).render(event, out.message, out.storage);
}

std::string header(const Message& message, const std::string& name) {
    const Header* found = find_header(message.headers, name);
    return found == nullptr ? "(none)" : found->value;
}

// The rules that the CloudEvents specification states for a structured event.
void expect_valid_cloudevent(const json& event) {
    for (const char* name : {"id", "source", "specversion", "type"}) {
        ASSERT_TRUE(event.contains(name)) << name;
        ASSERT_TRUE(event[name].is_string()) << name;
        EXPECT_FALSE(event[name].get<std::string>().empty()) << name;
    }
    EXPECT_EQ(event["specversion"], "1.0");
    EXPECT_FALSE(event.contains("data") && event.contains("data_base64"));
    for (const auto& [name, value] : event.items()) {
        if (name == "data" || name == "data_base64") continue;
        EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789"), std::string::npos) << name;
        EXPECT_LE(name.size(), 20U) << name;
        EXPECT_TRUE(value.is_string() || value.is_boolean() || value.is_number_integer()) << name;
        if (value.is_string()) {
            EXPECT_FALSE(value.get<std::string>().empty()) << name;
        }
    }
}

TEST(Envelope, raw_carries_the_payload_itself_and_the_rest_in_headers) {
    const Event event = order_placed();
    Rendered out;
    render({}, event, out);
    EXPECT_EQ(out.message.body.data(), event.payload->data()) << "the payload was copied";
    EXPECT_EQ(out.message.content_type, "application/json");
    EXPECT_EQ(out.message.key, "ord-42");
    EXPECT_FALSE(out.message.enveloped);
    EXPECT_EQ(header(out.message, "event-id"), event.event_id);
    EXPECT_EQ(header(out.message, "event-type"), "OrderPlaced");
    EXPECT_EQ(header(out.message, "aggregate-type"), "order");
    EXPECT_EQ(header(out.message, "tenant-id"), "acme");
    EXPECT_EQ(header(out.message, "occurred-at"), "2026-01-31T23:59:59.123456Z");
    EXPECT_EQ(header(out.message, "region"), "eu");
    EXPECT_EQ(header(out.message, "Priority"), "3");
    EXPECT_EQ(header(out.message, "flags"), R"({"a":true})");
    EXPECT_EQ(header(out.message, "none"), "(none)");
    EXPECT_EQ(header(out.message, "causation-id"), "(none)");
    EXPECT_TRUE(header(out.message, "traceparent").starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
}

TEST(Envelope, raw_without_metadata_adds_nothing_but_the_trace) {
    const Event event = order_placed();
    Rendered out;
    render({.metadata = false, .binding = {}}, event, out);
    EXPECT_EQ(out.message.headers.size(), 4U);
}

TEST(Envelope, a_header_that_the_producer_set_is_not_overwritten) {
    Event event = order_placed();
    event.headers =
        R"({"Event-Type":"mine","traceparent":"00-11111111111111111111111111111111-2222222222222222-01"})";
    Rendered out;
    render({}, event, out);
    EXPECT_EQ(header(out.message, "event-type"), "mine");
    EXPECT_EQ(header(out.message, "traceparent"), "00-11111111111111111111111111111111-2222222222222222-01");
    std::set<std::string> names;
    for (const auto& it : out.message.headers) EXPECT_TRUE(names.insert(it.name).second) << it.name;
}

TEST(Envelope, headers_that_are_no_object_are_refused) {
    for (const char* headers : {"[1]", "\"x\"", "{\"a\":"}) {
        Event event = order_placed();
        event.headers = headers;
        Rendered out;
        EXPECT_THROW(render({}, event, out), RenderError) << headers;
    }
}

TEST(Envelope, a_null_payload_has_no_bytes_and_an_empty_one_has_none_either_but_is_there) {
    Event event = order_placed();
    event.payload.reset();
    Rendered out;
    render({}, event, out);
    EXPECT_EQ(out.message.body.data(), nullptr);
    event.payload = "";
    render({}, event, out);
    EXPECT_NE(out.message.body.data(), nullptr);
}

TEST(Envelope, json_holds_everything_in_one_object) {
    const Event event = order_placed();
    Rendered out;
    render({.kind = EnvelopeKind::json, .binding = {}}, event, out);
    const json object = json::parse(out.message.body);
    EXPECT_TRUE(out.message.enveloped);
    EXPECT_EQ(object["id"], "0190b5f0-7f3e-7c4a-8d55-0123456789ab");
    EXPECT_EQ(object["type"], "OrderPlaced");
    EXPECT_EQ(object["aggregate_type"], "order");
    EXPECT_EQ(object["aggregate_id"], "ord-42");
    EXPECT_EQ(object["tenant_id"], "acme");
    EXPECT_EQ(object["topic"], "orders");
    EXPECT_EQ(object["key"], "ord-42");
    EXPECT_EQ(object["occurred_at"], "2026-01-31T23:59:59.123456Z");
    EXPECT_EQ(object["payload"], json::parse(*event.payload));
    EXPECT_EQ(object["headers"], json::parse(*event.headers));
    EXPECT_NE(out.message.body.find("12.50"), std::string_view::npos) << "numbers keep their digits";
    EXPECT_FALSE(object.contains("causation_id"));
}

TEST(Envelope, json_gives_text_as_text_and_bytes_as_base64) {
    Event event = order_placed();
    event.payload_kind = PayloadKind::text;
    event.payload = "say \"hi\"\n\x01";
    Rendered out;
    render({.kind = EnvelopeKind::json, .binding = {}}, event, out);
    EXPECT_EQ(json::parse(out.message.body)["payload"], "say \"hi\"\n\x01");
    event.payload_kind = PayloadKind::bytes;
    for (const auto& [bytes, expected] :
         std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {std::string("\xff\x00\xfe", 3), "/wD+"}}) {
        event.payload = bytes;
        render({.kind = EnvelopeKind::json, .binding = {}}, event, out);
        EXPECT_EQ(json::parse(out.message.body)["payload_base64"], expected);
    }
}

TEST(Envelope, a_structured_cloudevent_obeys_the_specification) {
    const Event event = order_placed();
    Rendered out;
    render({.kind = EnvelopeKind::cloudevents_structured, .binding = {}}, event, out);
    const json object = json::parse(out.message.body);
    expect_valid_cloudevent(object);
    EXPECT_TRUE(out.message.content_type.starts_with("application/cloudevents+json"));
    EXPECT_EQ(object["id"], event.event_id);
    EXPECT_EQ(object["type"], "OrderPlaced");
    EXPECT_EQ(object["source"], "/baton/order");
    EXPECT_EQ(object["subject"], "ord-42");
    EXPECT_EQ(object["time"], "2026-01-31T23:59:59.123456Z");
    EXPECT_EQ(object["datacontenttype"], "application/json");
    EXPECT_EQ(object["data"], json::parse(*event.payload));
    EXPECT_EQ(object["partitionkey"], "ord-42");
    EXPECT_EQ(object["region"], "eu");
    EXPECT_FALSE(object.contains("Priority")) << "an attribute's name has no capitals";
}

TEST(Envelope, a_header_cannot_take_the_place_of_a_cloudevents_attribute) {
    Event event = order_placed();
    event.headers = R"({"id":"evil","source":"evil","data":"evil","tenantid":"evil"})";
    Rendered out;
    render({.kind = EnvelopeKind::cloudevents_structured, .binding = {}}, event, out);
    EXPECT_EQ(out.message.body.find("evil"), std::string_view::npos);
}

TEST(Envelope, a_structured_cloudevent_of_bytes_or_nothing_is_valid_too) {
    Event event = order_placed();
    event.payload_kind = PayloadKind::bytes;
    event.payload = "foo";
    Rendered out;
    render({.kind = EnvelopeKind::cloudevents_structured, .binding = {}}, event, out);
    json object = json::parse(out.message.body);
    expect_valid_cloudevent(object);
    EXPECT_EQ(object["data_base64"], "Zm9v");
    event = Event{};
    event.event_id = "1";
    event.event_type = "t";
    render({.kind = EnvelopeKind::cloudevents_structured, .binding = {}}, event, out);
    object = json::parse(out.message.body);
    expect_valid_cloudevent(object);
    EXPECT_FALSE(object.contains("data"));
    EXPECT_FALSE(object.contains("subject")) << "an empty attribute must not be there";
}

TEST(Envelope, a_binary_cloudevent_has_its_attributes_in_headers_as_each_broker_binds_them) {
    Event event = order_placed();
    event.aggregate_id = "größe 100%\"x";
    for (const auto& [broker, prefix, subject] :
         std::vector<std::array<std::string, 3>>{{"http", "ce-", "gr%C3%B6%C3%9Fe%20100%25%22x"},
                                                 {"nats", "ce-", "gr%C3%B6%C3%9Fe%20100%25%22x"},
                                                 {"kafka", "ce_", "größe 100%\"x"},
                                                 {"rabbitmq", "cloudEvents_", "größe 100%\"x"}}) {
        Rendered out;
        relay::Settings sink("sink");
        sink.set("type", broker);
        render({.kind = EnvelopeKind::cloudevents, .binding = brokers::form_of(sink).headers}, event, out);
        EXPECT_EQ(out.message.body.data(), event.payload->data());
        EXPECT_EQ(out.message.content_type, "application/json");
        EXPECT_EQ(header(out.message, prefix + "specversion"), "1.0");
        EXPECT_EQ(header(out.message, prefix + "id"), event.event_id);
        EXPECT_EQ(header(out.message, prefix + "type"), "OrderPlaced");
        EXPECT_EQ(header(out.message, prefix + "source"), "/baton/order");
        EXPECT_EQ(header(out.message, prefix + "subject"), subject) << broker;
        EXPECT_EQ(header(out.message, prefix + "datacontenttype"), "(none)") << "the content type says it";
        EXPECT_EQ(header(out.message, "region"), "eu");
    }
}

TEST(Envelope, an_event_that_cannot_be_a_cloudevent_is_refused_with_the_reason) {
    Event event = order_placed();
    event.event_type.reset();
    Rendered out;
    EXPECT_THROW(render({.kind = EnvelopeKind::cloudevents, .binding = {}}, event, out), RenderError);
    event = order_placed();
    event.event_id = "";
    EXPECT_THROW(render({.kind = EnvelopeKind::cloudevents, .binding = {}}, event, out), RenderError);
    event = order_placed();
    event.aggregate_id = "line\nbreak";
    EXPECT_THROW(render({.kind = EnvelopeKind::cloudevents_structured, .binding = {}}, event, out),
                 RenderError);
}

TEST(Envelope, headers_that_are_passed_on_from_another_message_do_not_stand_for_the_events_id) {
    Event event = order_placed();
    event.headers = R"({"Event-Id": "another", "ce-id": "another", "a": "b"})";
    Rendered raw;
    render({}, event, raw);
    EXPECT_EQ(header(raw.message, "event-id"), event.event_id);
    EXPECT_EQ(header(raw.message, "event-Event-Id"), "another");
    Rendered binary;
    render({.kind = EnvelopeKind::cloudevents, .binding = {"ce-", false}}, event, binary);
    EXPECT_EQ(header(binary.message, "ce-id"), event.event_id);
    EXPECT_EQ(header(binary.message, "event-ce-id"), "another");
    EXPECT_EQ(header(binary.message, "a"), "b");
}

TEST(Envelope, an_idempotency_key_goes_along_in_every_form) {
    Event event = order_placed();
    Rendered raw;
    render({}, event, raw);
    EXPECT_EQ(header(raw.message, "idempotency-key"), "(none)");
    event.idempotency_key = "payment-7";
    render({}, event, raw);
    EXPECT_EQ(header(raw.message, "idempotency-key"), "payment-7");
    Rendered object;
    render({.kind = EnvelopeKind::json, .binding = {}}, event, object);
    EXPECT_EQ(json::parse(object.message.body)["idempotency_key"], "payment-7");
    Rendered binary;
    render({.kind = EnvelopeKind::cloudevents, .binding = {"ce-", false}}, event, binary);
    EXPECT_EQ(header(binary.message, "ce-idempotencykey"), "payment-7");
    event.headers = R"({"idempotencykey": "another"})";
    Rendered structured;
    render({.kind = EnvelopeKind::cloudevents_structured, .binding = {}}, event, structured);
    const json attributes = json::parse(structured.message.body);
    expect_valid_cloudevent(attributes);
    EXPECT_EQ(attributes["idempotencykey"], "payment-7");
}

TEST(Envelope, a_source_is_checked_when_the_pipeline_is_made) {
    EXPECT_THROW(Envelope({.source = "", .binding = {}}), UsageError);
    EXPECT_THROW(Envelope({.source = "has space", .binding = {}}), UsageError);
    EXPECT_THROW(Envelope({.source = "/{nonsense}", .binding = {}}), UsageError);
    EXPECT_NO_THROW(Envelope({.source = "https://shop.example/{tenant_id|all}", .binding = {}}));
    EXPECT_THROW(Envelope::kind_of("xml"), UsageError);
}

}  // namespace

}  // namespace baton
