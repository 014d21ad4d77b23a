// Trace context, samplers, the standard variables, and requests to a collector.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "baton/error.hpp"
#include "event/trace.hpp"
#include "otlp/encode.hpp"
#include "otlp/environment.hpp"
#include "otlp/resource.hpp"

using namespace baton;
using namespace baton::otlp;
using nlohmann::json;

namespace {

constexpr const char* example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TraceContext context(bool sampled) {
    return {.trace = {1, 2}, .span = {3}, .flags = static_cast<std::uint8_t>(sampled ? 1 : 0)};
}

Environment read(const std::map<std::string, std::string>& variables) {
    return read_environment([&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

}  // namespace

TEST(Traceparent, is_read_and_written_without_a_change) {
    const auto read = read_traceparent(example, "vendor=1");
    ASSERT_TRUE(read);
    EXPECT_EQ(to_text(read->trace), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(to_text(read->span), "00f067aa0ba902b7");
    EXPECT_TRUE(read->sampled());
    EXPECT_EQ(read->state, "vendor=1");
    EXPECT_EQ(write_traceparent(*read), example);
    EXPECT_EQ(write_traceparent(*read_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02")),
              "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02");
    EXPECT_TRUE(read_traceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes"));
}

TEST(Traceparent, what_is_none_is_not_read) {
    for (const char* text : {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
                             "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                             "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                             "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                             "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                             "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01"})
        EXPECT_FALSE(read_traceparent(text)) << text;
}

TEST(Traceparent, of_a_trace_id_alone_names_the_span_of_the_events_publishing) {
    const auto made = read_traceparent(make_traceparent("4BF92F35-77B3-4DA6-A3CE-929D0E0E4736", "e1"));
    ASSERT_TRUE(made);
    EXPECT_EQ(to_text(made->trace), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(made->span, publish_span_of("e1"));
    EXPECT_NE(publish_span_of("e1"), publish_span_of("e2"));
    EXPECT_EQ(make_traceparent("no trace", "e1"), "");
    EXPECT_EQ(make_traceparent(std::string(32, '0'), "e1"), "");
}

TEST(Traceparent, an_events_own_trace_follows_from_its_id_and_place) {
    EXPECT_EQ(own_trace_of("1", "orders"), own_trace_of("1", "orders"));
    EXPECT_NE(own_trace_of("1", "orders"), own_trace_of("2", "orders"));
    EXPECT_NE(own_trace_of("1", "orders"), own_trace_of("1", "payments"));
}

TEST(Sampling, a_parents_decision_holds_where_it_is_asked) {
    const auto yes = context(true), no = context(false);
    for (const char* name : {"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}) {
        EXPECT_TRUE(Sampler::named(name, 0.5).samples({1, 2}, &yes)) << name;
        EXPECT_FALSE(Sampler::named(name, 0.5).samples({1, 2}, &no)) << name;
    }
    EXPECT_TRUE(Sampler::named("always_on").samples({1, 2}, &no));
    EXPECT_FALSE(Sampler::named("always_off").samples({1, 2}, &yes));
    EXPECT_TRUE(Sampler::named("parentbased_always_on").samples({1, 2}, nullptr));
    EXPECT_FALSE(Sampler::named("parentbased_always_off").samples({1, 2}, nullptr));
}

TEST(Sampling, a_ratio_takes_its_part_of_the_traces_of_events) {
    const auto tenth = Sampler::named("traceidratio", 0.1);
    const auto half = Sampler::named("traceidratio", 0.5);
    int in_tenth = 0, in_half = 0;
    for (int i = 0; i < 10'000; ++i) {
        const TraceId trace = own_trace_of(std::to_string(i), "orders");
        in_tenth += tenth.samples(trace, nullptr) ? 1 : 0;
        in_half += half.samples(trace, nullptr) ? 1 : 0;
        if (tenth.samples(trace, nullptr)) {
            EXPECT_TRUE(half.samples(trace, nullptr));
        }
    }
    EXPECT_NEAR(in_tenth, 1000, 150);
    EXPECT_NEAR(in_half, 5000, 300);
    EXPECT_FALSE(Sampler::named("traceidratio", 0).samples({0, 0}, nullptr));
    EXPECT_TRUE(Sampler::named("traceidratio", 1).samples({0, ~0ULL}, nullptr));
}

TEST(Sampling, unknown_names_and_ratios_are_refused) {
    EXPECT_THROW(Sampler::named("sometimes"), UsageError);
    EXPECT_THROW(Sampler::named("parentbased_"), UsageError);
    for (const double ratio : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
        EXPECT_THROW(Sampler::named("traceidratio", ratio), UsageError) << ratio;
}

TEST(Variables, off_unless_one_asks_for_traces) {
    EXPECT_FALSE(read({}).enabled);
    EXPECT_FALSE(read({{"OTEL_SERVICE_NAME", "shop"}}).enabled);
    EXPECT_FALSE(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", " "}}).enabled);
    EXPECT_EQ(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/"}}).options.url,
              "http://c:4318/v1/traces");
    EXPECT_TRUE(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}}).enabled);
    EXPECT_EQ(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"},
                    {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/in"}})
                  .options.url,
              "https://t/in");
    EXPECT_EQ(read({{"OTEL_TRACES_EXPORTER", "otlp"}}).options.url, "http://localhost:4318/v1/traces");
    EXPECT_TRUE(read({{"OTEL_SDK_DISABLED", "TRUE"}}).forbidden);
    EXPECT_TRUE(read({{"OTEL_TRACES_EXPORTER", "none"}}).forbidden);
    EXPECT_FALSE(read({{"OTEL_SDK_DISABLED", "yes"}}).forbidden);
}

TEST(Variables, say_everything_about_the_way_to_the_collector) {
    const auto made = read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"},
                            {"OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, authorization = Bearer x=y "},
                            {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"},
                            {"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"},
                            {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca"},
                            {"OTEL_BSP_MAX_QUEUE_SIZE", "77"},
                            {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "7"},
                            {"OTEL_BSP_SCHEDULE_DELAY", "70"},
                            {"OTEL_SERVICE_NAME", "shop"},
                            {"OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment=a%2Cb"},
                            {"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"},
                            {"OTEL_TRACES_SAMPLER_ARG", "0.25"}});
    EXPECT_EQ(made.warnings, std::vector<std::string>{});
    EXPECT_EQ(made.options.headers,
              (std::map<std::string, std::string>{{"api-key", "a b"}, {"authorization", "Bearer x=y"}}));
    EXPECT_EQ(made.options.timeout, milliseconds(250));
    EXPECT_TRUE(made.options.gzip);
    EXPECT_EQ(made.options.ca, "/ca");
    EXPECT_EQ(made.options.queue, 77U);
    EXPECT_EQ(made.options.batch, 7U);
    EXPECT_EQ(made.options.interval, milliseconds(70));
    EXPECT_EQ(made.options.resource.at("service.name"), "shop");
    EXPECT_EQ(made.options.resource.at("deployment.environment"), "a,b");
    EXPECT_EQ(made.sampler, "parentbased_traceidratio");
    EXPECT_EQ(made.ratio, 0.25);
}

TEST(Variables, that_cannot_be_read_are_passed_over_with_a_warning_that_tells_no_secret) {
    const auto made = read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318 s3cret"},
                            {"OTEL_EXPORTER_OTLP_HEADERS", "s3cret,a=%0ds3cret,ok=1"},
                            {"OTEL_EXPORTER_OTLP_TIMEOUT", "s3cret"},
                            {"OTEL_BSP_MAX_QUEUE_SIZE", "0"},
                            {"OTEL_TRACES_SAMPLER", "traceidratio"},
                            {"OTEL_TRACES_SAMPLER_ARG", "7"},
                            {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}});
    EXPECT_FALSE(made.enabled);
    EXPECT_EQ(made.warnings.size(), 7U);
    for (const auto& words : made.warnings) EXPECT_EQ(words.find("s3cret"), std::string::npos) << words;
    EXPECT_EQ(made.options.headers, (std::map<std::string, std::string>{{"ok", "1"}}));
    EXPECT_EQ(made.options.timeout, Options{}.timeout);
    EXPECT_EQ(made.options.queue, Options{}.queue);
    EXPECT_EQ(made.sampler, "parentbased_always_on");
}

TEST(Encoding, follows_the_rules_of_otlp_as_json) {
    Span span;
    span.context = *read_traceparent(example, "vendor=1");
    span.parent = {0xabc};
    span.remote_parent = true;
    span.name = "send orders";
    span.kind = Span::Kind::producer;
    span.start = Span::Time(std::chrono::nanoseconds(1'700'000'000'123'456'789));
    span.end = span.start + std::chrono::milliseconds(5);
    span.attributes = {{"text", std::string("a\"b")}, {"number", std::int64_t{1} << 60}, {"truth", true}};
    span.links = {context(true)};
    span.error = "it broke";
    const json request = json::parse(encode({{"service.name", "shop"}}, {&span, 1}));
    const json& scope = request.at("resourceSpans").at(0).at("scopeSpans").at(0);
    EXPECT_EQ(request["resourceSpans"][0]["resource"]["attributes"][0],
              json::parse(R"({"key": "service.name", "value": {"stringValue": "shop"}})"));
    EXPECT_EQ(scope["scope"]["name"], "baton");
    const json wanted = json::parse(R"({
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7",
        "parentSpanId": "0000000000000abc", "traceState": "vendor=1", "flags": 769,
        "name": "send orders", "kind": 4,
        "startTimeUnixNano": "1700000000123456789", "endTimeUnixNano": "1700000000128456789",
        "attributes": [{"key": "text", "value": {"stringValue": "a\"b"}},
                       {"key": "number", "value": {"intValue": "1152921504606846976"}},
                       {"key": "truth", "value": {"boolValue": true}}],
        "links": [{"traceId": "00000000000000010000000000000002", "spanId": "0000000000000003", "flags": 1}],
        "status": {"code": 2, "message": "it broke"}})");
    EXPECT_EQ(scope["spans"].at(0), wanted);
}

TEST(Encoding, no_bytes_of_a_span_spoil_the_request) {
    Span span;
    span.name = "\xff\xfe" + std::string(10'000, 'x');
    span.attributes = {{"a", std::string("\x00\x80", 2)}};
    const json request = json::parse(encode({}, {&span, 1}));
    EXPECT_LT(request.dump().size(), 6'000U);
}

TEST(Encoding, refused_spans_are_counted_where_the_answer_says_so) {
    EXPECT_EQ(rejected_spans(R"({"partialSuccess": {"rejectedSpans": "3"}})"), 3U);
    EXPECT_EQ(rejected_spans(R"({"partialSuccess": {"rejectedSpans": 4}})"), 4U);
    for (const char* answer : {"", "{}", "[1]", "no", R"({"partialSuccess": 1})",
                               R"({"partialSuccess": {"rejectedSpans": "-1"}})", "\xff"})
        EXPECT_EQ(rejected_spans(answer), 0U) << answer;
}

TEST(Resource, is_described_unless_somebody_did) {
    std::map<std::string, std::string> resource{{"service.name", "mine"}};
    describe(resource, "baton-relay", "me");
    EXPECT_EQ(resource.at("service.name"), "mine");
    EXPECT_EQ(resource.at("service.instance.id"), "me");
    EXPECT_EQ(resource.at("telemetry.sdk.language"), "cpp");
    EXPECT_NE(make_instance_id(), make_instance_id());
}
