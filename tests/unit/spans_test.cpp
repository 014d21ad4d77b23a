// What a pipeline tells of its events, and what their messages carry.

#include "relay/spans.hpp"

#include <cstdlib>
#include <new>
#include <set>

#include "event/envelope.hpp"
#include "event/headers.hpp"
#include "event/trace.hpp"
#include "scripted_sink.hpp"

using namespace baton;
using namespace baton::relay;
using namespace baton::relay::test;

// Count what is allocated. Not inlined: the compiler would see a free() of what new made.
static std::size_t allocations = 0;

[[gnu::noinline]] void* operator new(std::size_t size) {
    ++allocations;
    if (void* made = std::malloc(size)) return made;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* made) noexcept {
    std::free(made);
}
[[gnu::noinline]] void operator delete(void* made, std::size_t) noexcept {
    std::free(made);
}

namespace {

constexpr const char* sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr const char* unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

struct Kept final : SpanExporter {
    void take(Span span) noexcept override { spans.push_back(std::move(span)); }
    std::vector<Span> spans;
};

std::string attribute(const Span& span, const std::string& name) {
    for (const auto& each : span.attributes)
        if (each.name == name) {
            if (const auto* text = std::get_if<std::string>(&each.value)) return *text;
            return std::to_string(std::get<std::int64_t>(each.value));
        }
    return "(none)";
}

class Telling : public Dispatching {
  protected:
    void begin(const std::string& sampler = "parentbased_always_on", double ratio = 1) {
        Dispatching::begin(false);
        traces =
            std::make_shared<Traces>(std::make_shared<const Tracer>(Sampler::named(sampler, ratio), kept));
        dispatcher = make_dispatcher();
    }
    std::unique_ptr<Dispatcher> make_dispatcher() {
        auto made = std::make_unique<Dispatcher>(
            *sink, checkpoint,
            Transformer{{},
                        [this](const Event& event, Messages& out, std::string& storage) {
                            Message message;
                            envelope.render(event, message, storage);
                            message.message_id = event.event_id;
                            message.destination = "topic";
                            const Header* header = find_header(message.headers, "traceparent");
                            carried.push_back(header == nullptr ? "" : header->value);
                            out.push_back(message);
                        }},
            policy, true);
        made->trace(EventSpans(traces, {"out", "baton", "orders", "group", "broker"}));
        return made;
    }
    std::shared_ptr<TextBatch> event(const std::string& id, const char* headers = nullptr,
                                     const char* trace_id = nullptr) {
        auto made = batch({id});
        made->events[0].event_type = "order.placed";
        if (headers != nullptr) made->events[0].headers = made->keep(headers);
        if (trace_id != nullptr) made->events[0].trace_id = trace_id;
        return made;
    }
    void carry(const BatchPtr& given) {
        dispatcher->add(given, Tracer::now());
        run();
    }
    const Span& one(const std::string& name) const {
        const Span* found = nullptr;
        for (const auto& span : kept->spans)
            if (span.name == name) {
                EXPECT_EQ(found, nullptr) << "there are two spans " << name;
                found = &span;
            }
        if (found == nullptr) throw Error("there is no span " + name);
        return *found;
    }
    static std::string with(const char* traceparent) {
        return std::string(R"({"traceparent": ")") + traceparent + R"(", "tracestate": "vendor=1"})";
    }

    std::shared_ptr<Kept> kept = std::make_shared<Kept>();
    std::shared_ptr<Traces> traces;
    Envelope envelope{{}};
    std::vector<std::string> carried;
};

}  // namespace

TEST_F(Telling, an_event_is_published_relayed_and_sent_in_the_trace_that_it_came_with) {
    begin();
    carry(event("e1", with(sampled).c_str()));
    ASSERT_EQ(kept->spans.size(), 3U);
    const auto &publish = one("publish orders"), &relay = one("relay orders"), &send = one("send topic");
    for (const auto* span : {&publish, &relay, &send}) {
        EXPECT_EQ(to_text(span->context.trace), "4bf92f3577b34da6a3ce929d0e0e4736");
        EXPECT_EQ(span->context.state, "vendor=1");
        EXPECT_EQ(attribute(*span, "messaging.message.id"), "e1");
        EXPECT_LE(span->start, span->end);
        EXPECT_FALSE(span->error);
    }
    EXPECT_EQ(to_text(publish.parent), "00f067aa0ba902b7");
    EXPECT_EQ(relay.parent, publish.context.span);
    EXPECT_EQ(send.parent, relay.context.span);
    EXPECT_EQ(publish.kind, Span::Kind::producer);
    EXPECT_EQ(relay.kind, Span::Kind::consumer);
    EXPECT_EQ(send.kind, Span::Kind::producer);
    EXPECT_EQ(attribute(relay, "messaging.system"), "baton");
    EXPECT_EQ(attribute(relay, "messaging.consumer.group.name"), "group");
    EXPECT_EQ(attribute(relay, "baton.outcome"), "delivered");
    EXPECT_EQ(attribute(send, "messaging.system"), "broker");
    EXPECT_EQ(attribute(send, "messaging.destination.name"), "topic");
    EXPECT_EQ(carried, (Ids{write_traceparent(send.context)}));
}

TEST_F(Telling, a_publisher_that_told_of_its_span_is_not_told_of_again) {
    begin();
    TraceContext own = *read_traceparent(sampled);
    own.span = publish_span_of("e1");
    carry(event("e1", with(write_traceparent(own).c_str()).c_str()));
    ASSERT_EQ(kept->spans.size(), 2U);
    EXPECT_EQ(one("relay orders").parent, own.span);
}

TEST_F(Telling, two_pipelines_tell_of_one_publishing_once) {
    begin();
    const auto given = event("e1", nullptr, "4bf92f35-77b3-4da6-a3ce-929d0e0e4736");
    carry(given);
    dispatcher = make_dispatcher();
    carry(given);
    EXPECT_EQ(one("publish orders").context.span, publish_span_of("e1"));
    EXPECT_EQ(kept->spans.size(), 5U);
    EXPECT_FALSE(one("publish orders").parent.valid());
    EXPECT_EQ(to_text(one("publish orders").context.trace), "4bf92f3577b34da6a3ce929d0e0e4736");
}

TEST_F(Telling, an_event_without_a_trace_gets_one_that_follows_from_its_id) {
    begin();
    carry(event("e1"));
    carry(event("e2"));
    std::set<std::string> ids;
    for (const auto& span : kept->spans) ids.insert(to_text(span.context.trace));
    EXPECT_EQ(ids, (std::set{to_text(own_trace_of("e1", "orders")), to_text(own_trace_of("e2", "orders"))}));
}

TEST_F(Telling, what_is_not_sampled_is_passed_on_as_it_is) {
    begin();
    carry(event("e1", with(unsampled).c_str()));
    EXPECT_TRUE(kept->spans.empty());
    EXPECT_EQ(carried, (Ids{unsampled}));
}

TEST_F(Telling, a_trace_that_is_not_sampled_here_is_not_sampled_behind_us) {
    begin("parentbased_always_off");
    carry(event("e1", nullptr, "4bf92f3577b34da6a3ce929d0e0e4736"));
    carry(event("e2"));
    EXPECT_TRUE(kept->spans.empty());
    ASSERT_EQ(carried.size(), 2U);
    for (const auto& header : carried) EXPECT_TRUE(header.ends_with("-00")) << header;
    carry(event("e3", with(sampled).c_str()));
    EXPECT_EQ(kept->spans.size(), 3U);
}

TEST_F(Telling, each_try_is_a_span_and_the_last_message_carries_the_last) {
    begin();
    sink->scripts["a1"] = {Verdict::retry};
    carry(event("a1"));
    ASSERT_EQ(kept->spans.size(), 4U);
    std::vector<const Span*> sends;
    for (const auto& span : kept->spans)
        if (span.name == "send topic") sends.push_back(&span);
    ASSERT_EQ(sends.size(), 2U);
    EXPECT_EQ(sends[0]->error, "no a1");
    EXPECT_EQ(attribute(*sends[0], "error.type"), "moment");
    EXPECT_FALSE(sends[1]->error);
    EXPECT_EQ(attribute(*sends[1], "baton.try"), "2");
    EXPECT_EQ(carried.back(), write_traceparent(sends[1]->context));
    EXPECT_NE(carried.front(), carried.back());
}

TEST_F(Telling, an_event_that_is_given_up_says_why) {
    begin();
    sink->scripts["a1"] = {Verdict::rejected};
    carry(event("a1"));
    const auto& relay = one("relay orders");
    EXPECT_EQ(relay.error, "no a1");
    EXPECT_EQ(attribute(relay, "baton.outcome"), "dead");
    EXPECT_EQ(attribute(relay, "error.type"), "dead");
}

TEST_F(Telling, an_event_from_a_broker_is_received) {
    begin();
    const auto given = event("m1", with(sampled).c_str());
    given->events[0].from_broker = true;
    carry(given);
    ASSERT_EQ(kept->spans.size(), 2U);
    EXPECT_EQ(to_text(one("receive orders").parent), "00f067aa0ba902b7");
    EXPECT_EQ(attribute(one("receive orders"), "messaging.operation.type"), "receive");
}

TEST_F(Telling, an_event_that_was_parked_is_not_published_again) {
    begin();
    const auto given = event("a1");
    given->parked = true;
    given->events[0].attempt = 2;
    carry(given);
    ASSERT_EQ(kept->spans.size(), 2U);
    EXPECT_EQ(attribute(one("relay orders"), "baton.attempt"), "2");
}

TEST_F(Telling, without_a_tracer_nothing_is_told_and_nothing_is_changed) {
    begin();
    dispatcher =
        std::make_unique<Dispatcher>(*sink, checkpoint,
                                     Transformer{{},
                                                 [](const Event& given, Messages& out, std::string&) {
                                                     EXPECT_FALSE(given.traceparent);
                                                     out.emplace_back().message_id = given.event_id;
                                                 }},
                                     policy, true);
    carry(event("e1", with(sampled).c_str()));
    EXPECT_TRUE(kept->spans.empty());
    EXPECT_EQ(sink->delivered, (Ids{"e1"}));
}

namespace {

// Takes everything at once, and allocates nothing for it.
struct QuietSink final : Sink {
    QuietSink() { tickets.reserve(10'000); }
    SinkTraits traits() const override { return {.keeps_order_after_failure = true}; }
    void check() override {}
    void send(std::span<const Message> messages) override {
        for (const auto& message : messages) tickets.push_back(message.ticket);
    }
    void collect(std::vector<relay::Delivery>& deliveries, milliseconds) override {
        for (const auto ticket : tickets) deliveries.push_back({ticket, Verdict::delivered, {}, {}});
        tickets.clear();
    }
    std::vector<std::uint64_t> tickets;
};

}  // namespace

TEST_F(Telling, without_a_tracer_an_event_costs_no_allocation) {
    begin();
    QuietSink quiet;
    Dispatcher untold(quiet, checkpoint,
                      Transformer{{},
                                  [](const Event& given, Messages& out, std::string&) {
                                      out.emplace_back().key = given.key();
                                  }},
                      policy, true);
    const auto events = [&] {
        std::vector<std::string> ids;
        for (int i = 0; i < 1000; ++i) ids.push_back("a" + std::to_string(i));
        return batch(ids);
    };
    const auto allocated = [&] {
        const auto given = events();
        const std::size_t before = allocations;
        untold.add(given, {});
        untold.step(now, 0ms);
        EXPECT_TRUE(untold.idle());
        return allocations - before;
    };
    allocated();  // what is kept from one batch to the next
    EXPECT_LT(allocated(), 100U);
    untold.trace(EventSpans(traces, {"out", "baton", "orders", "group", "broker"}));
    EXPECT_GT(allocated(), 1000U) << "this test counts nothing";
}
