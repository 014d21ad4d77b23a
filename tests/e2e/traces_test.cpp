// Traces with a collector that reads them by OpenTelemetry's own definitions: one trace from a publisher
// through relays and a broker to a handler, and a collector that hangs, is busy or talks nonsense.

#include <httplib.h>

#include <cstdlib>

#include "baton/baton.hpp"
#include "baton/otlp.hpp"
#include "brokers/redis/tests/server.hpp"
#include "relaying.hpp"
#include "support/collector.hpp"

using namespace baton;
using namespace baton::test;

namespace {

constexpr const char* parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr const char* unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
constexpr const char* secret = "s3cret-t0ken";

// One collector for the suite; none where its definitions cannot be had.
Collector* shared_collector(std::string& why) {
    static std::string reason;
    static const std::unique_ptr<Collector> one = []() -> std::unique_ptr<Collector> {
        try {
            auto made = std::make_unique<Collector>();
            made->start();
            return made;
        } catch (const Unavailable& unavailable) {
            reason = unavailable.what();
            return nullptr;
        }
    }();
    why = reason;
    return one.get();
}

class Traced : public Relaying {
  protected:
    void SetUp() override {
        std::string why;
        collector = shared_collector(why);
        if (collector == nullptr) {
            announce_skip(why);
            GTEST_SKIP() << why;
        }
        collector->answer("take");
    }
    void TearDown() override {
        if (collector != nullptr) {
            EXPECT_EQ(collector->refused(), "");
        }
    }

    std::string traces_table(const std::string& more = {}) const {
        return "[traces]\nendpoint = \"" + collector->endpoint() +
               "\"\ninterval = \"50ms\"\nflush = \"2s\"\nheaders.authorization = \"Bearer "
               "${env:TRACE_TOKEN}\"\n" +
               "service_name = \"" + service + "\"\n" + more;
    }
    std::string server_table() const {
        return "[server]\nlisten = \"127.0.0.1:" + std::to_string(port) + "\"\n";
    }
    Process start_relay(Environment environment = {}) {
        environment.push_back({"TRACE_TOKEN", secret});
        return Process({.argv = {program_file().string(), "relay", "--db", url, "--config",
                                 (folder / "one.toml").string(), "--log", "json"},
                        .output = folder / "one.log",
                        .environment = std::move(environment),
                        .dies_with_us = true});
    }
    // The spans of this test: their service has its name.
    std::vector<CollectedSpan> spans() const {
        auto all = collector->spans();
        std::erase_if(
            all, [this](const auto& span) { return !span.resource.at("service.name").starts_with(service); });
        return all;
    }
    std::vector<CollectedSpan> named(const std::string& name) const {
        auto all = spans();
        std::erase_if(all, [&](const auto& span) { return span.name != name; });
        return all;
    }
    CollectedSpan wait_for_span(const std::string& name) const {
        wait_until("there is a span " + name, [&] { return !named(name).empty(); });
        EXPECT_EQ(named(name).size(), 1U) << name;
        return named(name).front();
    }
    long metric(const std::string& name) const {
        httplib::Client http("127.0.0.1", port);
        const auto answer = http.Get("/metrics");
        if (!answer) return -1;
        const auto at = answer->body.find("\n" + name + " ");
        return at == std::string::npos ? -1 : std::atol(answer->body.c_str() + at + name.size() + 2);
    }

    Collector* collector = nullptr;
    const int port = find_free_port();
    // The relay has another service than the test's own spans, by an ending.
    const std::string service = testing::UnitTest::GetInstance()->current_test_info()->name();
};

// Variables of this process, for as long as they are needed.
class Variables {
  public:
    explicit Variables(Environment values) : values_(std::move(values)) {
        for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
    }
    ~Variables() {
        for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
    }

  private:
    Environment values_;
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Forms, Traced, testing::Values(Form::extension),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(Traced, one_trace_leads_from_the_publisher_through_relays_and_a_broker_to_the_handler) {
    RedisServer redis;
    redis.start();
    admin.exec("select baton.create_inbox('arrivals'); select baton.create_outbox('answers')");
    const std::string broker = "type = \"redis\"\nurl = \"redis://127.0.0.1:" + std::to_string(redis.port()) +
                               "\"\nstream = \"shop\"\n";
    write_config(broker, traces_table("compression = \"gzip\"\n") +
                             "[[pipeline]]\nname = \"in\"\n[pipeline.source]\n" + broker +
                             "[pipeline.sink]\n" + to_inbox());
    auto relay = start_relay();
    {
        const Variables variables(
            {{"OTEL_EXPORTER_OTLP_ENDPOINT", collector->endpoint()}, {"OTEL_BSP_SCHEDULE_DELAY", "50"}});
        const OtlpTracing tracing(service + " shop");
        ASSERT_TRUE(tracing.enabled());
        admin.exec("begin");
        Outbox("orders").publish(admin.native(),
                                 {.type = "order.placed",
                                  .payload = "{}",
                                  .aggregate_id = "7",
                                  .headers = {{"traceparent", parent}, {"tracestate", "vendor=1"}},
                                  .correlation_id = "talk"});
        admin.exec("commit");
        wait_until("the message has arrived",
                   [&] { return admin.value("select count(*) from arrivals") == "1"; });
        std::string seen;
        InboxWorker worker("arrivals", {.conninfo = url},
                           [&](baton::Transaction& tx, const baton::Delivery& message) {
                               seen = traceparent_of(message);
                               tx.publish(Outbox("answers"), {.type = "order.confirmed", .payload = "{}"});
                           });
        EXPECT_EQ(worker.drain(), 1U);
        const auto handler = wait_for_span("process arrivals");
        EXPECT_EQ(seen, "00-" + handler.trace + "-" + handler.id + "-01");
    }
    // Each span below the one before it.
    const std::vector<std::string> way{"publish orders", "relay orders",     "send shop",      "receive shop",
                                       "send arrivals",  "process arrivals", "publish answers"};
    std::string above = "00f067aa0ba902b7";
    std::int64_t began = 0;
    for (const auto& name : way) {
        const auto span = wait_for_span(name);
        EXPECT_EQ(span.trace, "4bf92f3577b34da6a3ce929d0e0e4736") << name;
        EXPECT_EQ(span.parent, above) << name;
        EXPECT_EQ(span.state, "vendor=1") << name;
        EXPECT_EQ(span.error, "") << name;
        EXPECT_GE(span.start, began) << name;
        above = span.id;
        began = span.start;
    }
    EXPECT_EQ(spans().size(), way.size());
    const auto publish = wait_for_span("publish orders"), carried = wait_for_span("relay orders");
    EXPECT_EQ(publish.resource.at("service.name"), service + " shop");
    EXPECT_EQ(publish.attributes.at("messaging.message.conversation_id"), "talk");
    EXPECT_EQ(carried.resource.at("service.name"), service);
    EXPECT_EQ(carried.resource.at("service.version"), version());
    EXPECT_FALSE(carried.resource.at("service.instance.id").empty());
    EXPECT_EQ(carried.authorization, std::string("Bearer ") + secret);
    EXPECT_EQ(carried.attributes.at("messaging.system"), "baton");
    EXPECT_EQ(wait_for_span("send shop").attributes.at("messaging.system"), "redis");
    EXPECT_EQ(wait_for_span("receive shop").attributes.at("messaging.message.id"),
              publish.attributes.at("messaging.message.id"));
    EXPECT_EQ(admin.value("select trace_id from arrivals"), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(relay.stop(), 0);
    EXPECT_FALSE(logged("one", secret));
}

TEST_P(Traced, the_relay_tells_of_what_sql_published_by_the_standard_variables) {
    write_config(to_file("out.jsonl"));
    admin.query("select baton.publish('orders', 'order.placed', '{\"n\": 1}', trace_id => $1)",
                {"4bf92f35-77b3-4da6-a3ce-929d0e0e4736"});
    auto relay = start_relay({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector->endpoint() + "/v1/traces"},
                              {"OTEL_SERVICE_NAME", service},
                              {"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"},
                              {"OTEL_BSP_SCHEDULE_DELAY", "50"}});
    const auto publish = wait_for_span("publish orders"), carried = wait_for_span("relay orders");
    EXPECT_EQ(publish.trace, "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(publish.parent, "");
    EXPECT_EQ(publish.kind, 4);
    EXPECT_EQ(carried.parent, publish.id);
    EXPECT_EQ(carried.kind, 5);
    EXPECT_EQ(carried.resource.at("deployment.environment.name"), "test");
    EXPECT_EQ(
        publish.start / 1000,
        std::stoll(admin.value("select (extract(epoch from occurred_at) * 1000000)::bigint from orders")));
    EXPECT_EQ(relay.stop(), 0);
}

TEST_P(Traced, what_is_not_sampled_goes_on_with_its_context_and_is_not_told_of) {
    admin.exec("select baton.create_inbox('arrivals')");
    write_config(to_inbox(), traces_table());
    admin.query(
        "select baton.publish('orders', 'order.placed', '{}', headers => jsonb_build_object('traceparent', "
        "$1::text))",
        {unsampled});
    admin.query("select baton.publish('orders', 'order.placed', '{}', trace_id => $1)",
                {"11111111111111111111111111111111"});
    auto relay = start_relay();
    EXPECT_EQ(wait_for_span("relay orders").trace, "11111111111111111111111111111111");
    wait_until("both have arrived", [&] { return admin.value("select count(*) from arrivals") == "2"; });
    EXPECT_EQ(admin.value("select headers ->> 'traceparent' from arrivals where trace_id like '4bf%'"),
              unsampled);
    EXPECT_EQ(relay.stop(), 0);
    for (const auto& span : spans()) EXPECT_EQ(span.trace, "11111111111111111111111111111111") << span.name;
}

TEST_P(Traced, a_collector_that_hangs_delays_no_event_and_what_is_dropped_is_counted) {
    collector->answer("hang");
    write_config(to_file("out.jsonl"), traces_table("queue = 100\nbatch = 50\n") + server_table());
    publish(1, 200);
    auto relay = start_relay();
    wait_for_numbers("out.jsonl", 200);
    wait_until("spans are dropped", [&] { return metric("baton_spans_dropped_total") > 0; });
    EXPECT_EQ(metric("baton_spans_exported_total"), 0);
    EXPECT_EQ(relay.stop(std::chrono::seconds(60)), 0);  // the collector still hangs
    EXPECT_TRUE(logged("one", "spans were not exported"));
    EXPECT_FALSE(logged("one", secret));
}

TEST_P(Traced, a_collector_that_is_busy_or_talks_nonsense_gets_the_spans_when_it_is_well) {
    for (const std::string trouble : {"busy", "garbage"}) {
        SCOPED_TRACE(trouble);
        collector->answer(trouble);
        write_config(to_file("out.jsonl"), traces_table() + server_table());
        const int upto = trouble == "busy" ? 5 : 10;
        publish(upto - 4, upto);
        auto relay = start_relay();
        wait_for_numbers("out.jsonl", upto);
        wait_for_log("one", "the collector takes no spans");
        EXPECT_EQ(metric("baton_spans_exported_total"), 0);
        collector->answer("take");
        wait_until("all spans have come", [&] { return metric("baton_spans_exported_total") == 15; });
        EXPECT_EQ(metric("baton_spans_dropped_total"), 0);
        wait_for_log("one", "the collector takes spans again");
        EXPECT_EQ(relay.stop(), 0);
        std::filesystem::rename(folder / "one.log", folder / (trouble + ".log"));
    }
    EXPECT_EQ(spans().size(), 30U);
}

TEST_P(Traced, spans_that_wait_are_sent_when_the_relay_stops) {
    write_config(to_file("out.jsonl"), traces_table() + server_table());
    auto text = text_of(folder / "one.toml");
    text.replace(text.find("50ms"), 4, "1h");
    std::ofstream(folder / "one.toml") << text;
    publish(1, 3);
    auto relay = start_relay();
    wait_for_numbers("out.jsonl", 3);
    EXPECT_EQ(relay.stop(), 0);
    EXPECT_EQ(spans().size(), 9U);
}

TEST_P(Traced, a_mistake_in_the_file_is_named_and_one_in_a_variable_is_passed_over) {
    write_config(to_file("out.jsonl"), "[traces]\nsampler = \"sometimes\"\n");
    const auto checked = run_baton({"relay", "--check=settings", "--config", (folder / "one.toml").string()});
    EXPECT_NE(checked.exit_code, 0);
    EXPECT_NE(checked.errors.find("one.toml:2: traces: sampler"), std::string::npos) << checked.errors;
    write_config(to_file("out.jsonl"), "[traces]\nendpoint = \"collector:4318\"\n");
    const auto again = run_baton({"relay", "--check=settings", "--config", (folder / "one.toml").string()});
    EXPECT_NE(again.errors.find("is no address of a collector"), std::string::npos) << again.errors;
    write_config(to_file("out.jsonl"));
    publish(1, 1);
    auto relay = start_relay({{"OTEL_EXPORTER_OTLP_ENDPOINT", "no address"}});
    wait_for_numbers("out.jsonl", 1);
    wait_for_log("one", "OTEL_EXPORTER_OTLP_ENDPOINT is no http");
    EXPECT_EQ(relay.stop(), 0);
}

namespace {

struct Kept final : SpanExporter {
    void take(Span span) noexcept override { spans.push_back(std::move(span)); }
    std::vector<Span> spans;
};

// libbaton with an exporter of the program's own.
class TracedClient : public Relaying {
  protected:
    void SetUp() override {
        use_tracer(std::make_shared<const Tracer>(Sampler::named("parentbased_always_on"), kept));
        admin.exec("select baton.create_consumer_group('readers', 'orders', 'earliest')");
    }
    void TearDown() override { use_tracer(nullptr); }

    void publish_traced(const NewEvent& event) {
        admin.exec("begin");
        Outbox("orders").publish(admin.native(), event);
        admin.exec("commit");
    }

    std::shared_ptr<Kept> kept = std::make_shared<Kept>();
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Forms, TracedClient, testing::Values(Form::extension),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(TracedClient, a_handler_of_batches_has_a_trace_of_its_own_with_links) {
    for (int i = 0; i < 3; ++i) publish_traced({.type = "order.placed", .payload = "{}"});
    GroupConsumer("readers", {.conninfo = url}, [](baton::Transaction&, std::span<const baton::Delivery>) {
    }).drain();
    ASSERT_EQ(kept->spans.size(), 4U);
    const Span& batch = kept->spans.back();
    EXPECT_EQ(batch.name, "process orders");
    EXPECT_FALSE(batch.parent.valid());
    ASSERT_EQ(batch.links.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(batch.links[i].span, kept->spans[i].context.span);
}

TEST_P(TracedClient, a_handler_that_fails_and_a_transaction_that_is_undone_are_told_as_errors) {
    publish_traced({.type = "order.placed", .payload = "{}"});
    GroupConsumer("readers", {.conninfo = url}, [](baton::Transaction&, const baton::Delivery&) {
        throw Reject("never");
    }).drain();
    ASSERT_EQ(kept->spans.size(), 2U);
    EXPECT_EQ(kept->spans[1].error, "never");
    EXPECT_EQ(kept->spans[1].parent, kept->spans[0].context.span);
    admin.exec(
        "create table notes (id int unique deferrable initially deferred); insert into notes values (1)");
    publish_traced({.type = "order.placed", .payload = "{}"});
    GroupConsumer("readers", {.conninfo = url}, [](baton::Transaction& tx, const baton::Delivery&) {
        tx.query("insert into notes values (1)");
    }).drain();
    ASSERT_EQ(kept->spans.size(), 4U);
    EXPECT_EQ(kept->spans[3].error, "its transaction was undone");
}

TEST_P(TracedClient, a_publish_that_the_server_refuses_is_told_as_an_error) {
    admin.exec("begin");
    EXPECT_THROW(Outbox("orders").publish(admin.native(), {.type = "a", .payload = "no json"}), SqlError);
    admin.exec("rollback");
    ASSERT_EQ(kept->spans.size(), 1U);
    EXPECT_TRUE(kept->spans[0].error);
}

TEST_P(TracedClient, a_scope_is_passed_on_with_and_without_a_tracer) {
    const TraceScope scope(*read_traceparent(parent));
    publish_traced({.type = "order.placed", .payload = "{}"});
    ASSERT_EQ(kept->spans.size(), 1U);
    EXPECT_EQ(to_text(kept->spans[0].parent), "00f067aa0ba902b7");
    use_tracer(nullptr);
    publish_traced({.type = "order.placed", .payload = "{}"});
    EXPECT_EQ(admin.value("select headers ->> 'traceparent' from orders order by id desc limit 1"), parent);
    EXPECT_EQ(admin.value("select count(distinct trace_id) from orders"), "1");
}

TEST_P(TracedClient, what_a_delivery_caused_belongs_to_its_trace_without_a_tracer) {
    use_tracer(nullptr);
    publish_traced({.type = "order.placed", .payload = "{}", .headers = {{"traceparent", parent}}});
    NewEvent next;
    GroupConsumer("readers", {.conninfo = url}, [&](baton::Transaction&, const baton::Delivery& event) {
        next = caused_by(event, {.type = "order.confirmed"});
    }).drain();
    EXPECT_EQ(next.headers.at("traceparent"), parent);
}
