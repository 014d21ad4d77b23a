#include "event/router.hpp"
#include "brokers/registry.hpp"

#include <gtest/gtest.h>

#include "event/trace.hpp"
#include "relay/transform.hpp"

namespace baton {

namespace {

using Names = std::vector<std::string>;

Event order_placed() {
    Event event;
    event.event_id = "e1";
    event.tenant_id = "acme";
    event.aggregate_type = "order";
    event.aggregate_id = "42";
    event.event_type = "placed";
    event.topic = "orders";
    event.payload = "{}";
    return event;
}

relay::Settings sink_settings(const std::string& type) {
    relay::Settings settings("sink");
    settings.set("type", type);
    return settings;
}

relay::MessageForm form_of(const std::string& type) {
    return brokers::form_of(sink_settings(type));
}

DestinationRules rules_of(const std::string& type) {
    return form_of(type).rules;
}

Names route(const std::string& destination, const Event& event, const DestinationRules& rules = {}) {
    Reused<std::string> names;
    names.push_back("of the event before");
    Router(destination, rules).route(event, names);
    return {names.begin(), names.end()};
}

TEST(Template, fields_are_replaced_and_braces_can_be_written) {
    const Event event = order_placed();
    EXPECT_EQ(Template("{aggregate_type}.{event_type}").render(event), "order.placed");
    EXPECT_EQ(Template("{{{topic}}}").render(event), "{orders}");
    EXPECT_EQ(Template("plain").render(event), "plain");
    EXPECT_EQ(Template("{key}").render(event), "42");
}

TEST(Template, a_missing_field_gives_way_to_the_next_or_is_an_error) {
    Event event = order_placed();
    event.topic.reset();
    event.tenant_id = "";
    EXPECT_EQ(Template("{topic|aggregate_type}").render(event), "order");
    EXPECT_EQ(Template("{topic|tenant_id|shared}").render(event), "shared");
    EXPECT_EQ(Template("a{topic|}b").render(event), "ab");
    try {
        Template("x.{tenant_id}").render(event);
        ADD_FAILURE();
    } catch (const RenderError& error) {
        EXPECT_NE(std::string(error.what()).find("tenant_id"), std::string::npos);
    }
}

TEST(Template, an_unknown_field_is_refused_with_the_ones_that_exist) {
    for (const char* text :
         {"{agregate_type}", "{topic", "topic}", "{}", "{nonsense|topic}", "{topic|nonsense|x}"}) {
        try {
            Template{text};
            ADD_FAILURE() << text;
        } catch (const UsageError& error) {
            EXPECT_FALSE(error.hint().empty()) << text;
        }
    }
}

TEST(Router, commas_in_the_template_or_the_topic_fan_out_and_repeat_nothing) {
    Event event = order_placed();
    EXPECT_EQ(route("audit, {topic}", event), (Names{"audit", "orders"}));
    event.topic = "orders, billing,,orders";
    EXPECT_EQ(route("{topic}", event), (Names{"orders", "billing"}));
    EXPECT_EQ(route("shop.{topic}.{event_type},audit", event),
              (Names{"shop.orders.placed", "shop.billing.placed", "audit"}));
    event.topic = " , ";
    EXPECT_THROW(route("{topic}", event), RenderError);
}

TEST(Router, a_comma_in_another_field_does_not_fan_out) {
    Event event = order_placed();
    event.aggregate_id = "1,2";
    EXPECT_EQ(route("s.{aggregate_id}", event), Names{"s.1,2"});
}

TEST(Router, each_message_of_a_fan_out_has_an_id_of_its_own) {
    const Event event = order_placed();
    const auto message_id = [&event](std::string_view destination, std::size_t destinations) {
        std::string id = "the one before";
        write_message_id(id, event, destination, destinations);
        return id;
    };
    EXPECT_EQ(message_id("a", 1), "e1");
    EXPECT_EQ(message_id("a", 2), "e1#a");
    EXPECT_EQ(message_id("b", 2), "e1#b");
}

TEST(Router, a_value_cannot_make_a_destination_that_the_broker_would_misread) {
    Event event = order_placed();
    for (const char* type : {"a b", "*", "a>", "", ".a", "a..b", "a\n"}) {
        event.event_type = type;
        EXPECT_THROW(route("x.{event_type|}", event, rules_of("nats")), RenderError) << type;
    }
    event.event_type = "placed.late";
    EXPECT_EQ(route("x.{event_type}", event, rules_of("nats")), Names{"x.placed.late"});
    for (const char* type : {"a b", "a/b", "größe"}) {
        event.event_type = type;
        EXPECT_THROW(route("{event_type}", event, rules_of("kafka")), RenderError) << type;
    }
    const std::string long_name(250, 'x');
    event.event_type = long_name;
    EXPECT_THROW(route("{event_type}", event, rules_of("kafka")), RenderError);
    const std::string long_key(256, 'x');
    event.event_type = long_key;
    EXPECT_THROW(route("{event_type}", event, rules_of("rabbitmq")), RenderError);
}

TEST(Router, values_in_a_url_are_encoded_and_cannot_leave_their_place) {
    Event event = order_placed();
    event.tenant_id = "../admin?x=1#/ü";
    EXPECT_EQ(route("https://h/{tenant_id}/in,box", event, url_rules),
              Names{"https://h/..%2Fadmin%3Fx%3D1%23%2F%C3%BC/in,box"});
}

TEST(Router, a_value_in_a_url_cannot_lead_out_of_its_path) {
    Event event = order_placed();
    for (const char* tenant : {".", ".."}) {
        event.tenant_id = tenant;
        EXPECT_THROW(route("https://h/tenants/{tenant_id}/in", event, url_rules), RenderError) << tenant;
        EXPECT_THROW(route("https://h/tenants/{tenant_id}", event, url_rules), RenderError) << tenant;
        EXPECT_NO_THROW(route("https://h/tenants/a{tenant_id}/?q={tenant_id}", event, url_rules)) << tenant;
    }
    EXPECT_THROW(Router("https://h/a/%2e./b", url_rules), UsageError);
    EXPECT_THROW(Router("https://h/a/../b", url_rules), UsageError);
}

TEST(Router, a_value_of_any_kind_goes_into_a_path_and_a_query) {
    const std::pair<const char*, const char*> values[]{{"a/b", "a%2Fb"},
                                                       {"100%", "100%25"},
                                                       {"%2e%2e", "%252e%252e"},
                                                       {"...", "..."},
                                                       {".well-known", ".well-known"},
                                                       {"1.2", "1.2"},
                                                       {"x y", "x%20y"},
                                                       {"\xC3\xBC", "%C3%BC"},
                                                       {"a://b", "a%3A%2F%2Fb"},
                                                       {"", "none"}};
    Event event = order_placed();
    for (const auto& [value, text] : values) {
        event.tenant_id = value;
        EXPECT_EQ(route("https://h:1/t/{tenant_id|none}/in?of={tenant_id|none}", event, url_rules),
                  Names{std::string("https://h:1/t/") + text + "/in?of=" + text});
        EXPECT_EQ(route("queue-{tenant_id|none}.fifo", event, url_rules),
                  Names{std::string("queue-") + text + ".fifo"});
    }
}

TEST(Router, a_value_in_a_host_is_one_name_before_a_domain_of_the_settings) {
    for (const char* url :
         {"https://{tenant_id}/", "https://{tenant_id}", "https://a.{tenant_id}/x",
          "https://a{tenant_id}?x=1", "https://example.com:{key}/", "https://{key}.@h/",
          "https://{tenant_id}.", "https://u:{key}@example.com/", "https://{tenant_id}.:8080/",
          "https://{tenant_id}..:8080/", "https:///{tenant_id}/x"})
        EXPECT_THROW(Router(url, url_rules), UsageError) << url;
    Event event = order_placed();
    event.tenant_id = "acme-1";
    EXPECT_EQ(route("https://{tenant_id}.example.com:8443/{key}", event, url_rules)
                  .front()
                  .find("https://acme-1.example.com:8443/"),
              0U);
    for (const char* tenant : {"evil.com/", "a.b", "a@b", "evil.com#", "x:y", "ü", "a%2f", "127.0.0.1", ""}) {
        event.tenant_id = tenant;
        EXPECT_THROW(route("https://{tenant_id}.example.com/", event, url_rules), RenderError) << tenant;
    }
}

TEST(Router, a_fixed_destination_is_checked_at_once) {
    EXPECT_THROW(Router("bad topic", rules_of("kafka")), UsageError);
    EXPECT_THROW(Router(""), UsageError);
    EXPECT_THROW(Router("a.>", rules_of("nats")), UsageError);
    EXPECT_NO_THROW(Router("good", rules_of("kafka")));
}

TEST(Filter, lists_include_by_pattern_and_exclude_with_an_exclamation_mark) {
    const Event event = order_placed();
    Event bare;
    EXPECT_TRUE(Filter{}.wants(bare));
    EXPECT_TRUE((Filter{{"acme", "other"}, {}, {}}.wants(event)));
    EXPECT_FALSE((Filter{{"other"}, {}, {}}.wants(event)));
    EXPECT_FALSE((Filter{{"acme"}, {}, {}}.wants(bare)));
    EXPECT_TRUE((Filter{{}, {"ord*"}, {"pl?ced"}}.wants(event)));
    EXPECT_FALSE((Filter{{}, {"ord*"}, {"!placed"}}.wants(event)));
    EXPECT_TRUE((Filter{{}, {}, {"!cancelled"}}.wants(event)));
    EXPECT_FALSE((Filter{{}, {"*", "!orders"}, {}}.wants(event)));
}

TEST(Filter, patterns_match_whole_texts) {
    EXPECT_TRUE(matches_pattern("a.b.c", "a.*.c"));
    EXPECT_TRUE(matches_pattern("", "*"));
    EXPECT_FALSE(matches_pattern("abc", "ab"));
    EXPECT_FALSE(matches_pattern("abc", "?"));
    EXPECT_TRUE(matches_pattern("aaab", "*a?b*"));
    EXPECT_FALSE(matches_pattern("", "?"));
}

TEST(Trace, a_trace_id_becomes_a_traceparent_that_is_the_same_each_time) {
    const std::string first = make_traceparent("4BF92F3577B34DA6A3CE929D0E0E4736", "e1");
    EXPECT_EQ(first.size(), 55U);
    EXPECT_TRUE(first.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
    EXPECT_EQ(first, make_traceparent("4bf92f35-77b3-4da6-a3ce-929d0e0e4736", "e1"));
    EXPECT_NE(first, make_traceparent("4bf92f3577b34da6a3ce929d0e0e4736", "e2"));
    EXPECT_EQ(first, make_traceparent(first, "e9")) << "a traceparent is carried on as it is";
}

TEST(Trace, what_is_no_trace_id_gives_none) {
    for (const char* text :
         {"", "abc", "00000000000000000000000000000000", "zzf92f3577b34da6a3ce929d0e0e4736",
          "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
          "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"})
        EXPECT_EQ(make_traceparent(text, "e1"), "") << text;
}

TEST(Transform, renders_one_message_per_destination_with_one_body) {
    auto settings = sink_settings("kafka");
    settings.set("topic", "a,{topic}");
    settings.set("envelope", "json");
    relay::Transform transform(settings, relay::Settings("filter"), brokers::form_of(settings));
    const Event event = order_placed();
    Messages messages;
    std::string storage;
    transform.render(event, messages, storage);
    ASSERT_EQ(messages.size(), 2U);
    EXPECT_EQ(messages[0].destination, "a");
    EXPECT_EQ(messages[1].destination, "orders");
    EXPECT_EQ(messages[0].body.data(), messages[1].body.data());
    EXPECT_EQ(messages[1].message_id, "e1#orders");
    EXPECT_EQ(messages[1].key, "42");
}

TEST(Transform, an_event_that_cannot_be_rendered_leaves_no_message) {
    auto settings = sink_settings("kafka");
    settings.set("envelope", "cloudevents");
    relay::Transform transform(settings, relay::Settings("filter"), brokers::form_of(settings));
    Event event = order_placed();
    event.event_type.reset();
    Messages messages;
    std::string storage;
    EXPECT_THROW(transform.render(event, messages, storage), RenderError);
    EXPECT_TRUE(messages.empty());
}

TEST(Transform, bad_settings_are_refused_by_name) {
    for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
             {"topic", "{nothing}"}, {"envelope", "xml"}, {"cloudevents_source", "a b"}}) {
        auto settings = sink_settings("kafka");
        settings.set(key, value);
        try {
            relay::Transform(settings, relay::Settings("filter"), brokers::form_of(settings));
            ADD_FAILURE() << key;
        } catch (const relay::SettingsError& error) {
            EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
        }
    }
    EXPECT_THROW(relay::Transform(sink_settings("http"), relay::Settings("filter"), form_of("http")),
                 relay::SettingsError);
    relay::Settings filter("filter");
    filter.set("tenant", "x");
    EXPECT_THROW(relay::Transform(sink_settings("kafka"), filter, form_of("kafka")), relay::SettingsError);
}

}  // namespace

}  // namespace baton
