// The price of small parts that run for every event: what is used beside what could be.

#include <fmt/format.h>
#include <prometheus/histogram.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "event/envelope.hpp"
#include "event/header_reader.hpp"
#include "event/headers.hpp"
#include "relay/dispatcher.hpp"
#include "relay/histogram.hpp"

using namespace baton;

namespace {

constexpr int rounds = 9;

struct Part {
    const char* name;
    std::function<void(int)> once;
    std::vector<double> nanoseconds = {};
};

// Run the parts in turn, so that a noisy moment hits all of them; print medians and how many times the first
// is dearer.
void compare(const char* what, int times, std::vector<Part> parts) {
    for (int round = 0; round < rounds; ++round)
        for (auto& part : parts) {
            const auto began = std::chrono::steady_clock::now();
            for (int i = 0; i < times; ++i) part.once(i);
            const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
            part.nanoseconds.push_back(took.count() / times);
        }
    for (auto& part : parts) std::sort(part.nanoseconds.begin(), part.nanoseconds.end());
    const double first = parts.front().nanoseconds[rounds / 2];
    for (const auto& part : parts)
        fmt::print("| {} | {} | {:.0f} | {:.1f} |\n", what, part.name, part.nanoseconds[rounds / 2],
                   first / part.nanoseconds[rounds / 2]);
}

void headers(const char* what, std::string_view text) {
    Headers list;
    HeaderReader reader;
    compare(what, 20'000,
            {{"nlohmann/json",
              [&](int) {
                  list.clear();
                  append_headers(list, text);
              }},
             {"simdjson (used)", [&](int) {
                  list.clear();
                  reader.append(list, text);
              }}});
}

// Takes everything at once.
struct QuietSink final : relay::Sink {
    relay::SinkTraits traits() const override { return {.keeps_order_after_failure = true}; }
    void check() override {}
    void send(std::span<const Message> messages) override {
        for (const auto& message : messages) tickets.push_back(message.ticket);
    }
    void collect(std::vector<relay::Delivery>& deliveries, relay::milliseconds) override {
        for (const auto ticket : tickets) deliveries.push_back({ticket, relay::Verdict::delivered, {}, {}});
        tickets.clear();
    }
    std::vector<std::uint64_t> tickets;
};

struct Forgetful final : relay::Checkpoint {
    void settle(const relay::BatchPtr&, std::size_t, std::vector<relay::Failure>) override {}
    void flush() override {}
};

// A collector's thread is no part of this: spans are made, and thrown away.
struct Drain final : SpanExporter {
    void take(Span) noexcept override {}
};

// Events from a batch to a sink, with and without spans.
class Carried {
  public:
    explicit Carried(const char* sampler) {
        if (sampler == nullptr) return;
        auto tracer = std::make_shared<const Tracer>(Sampler::named(sampler), std::make_shared<Drain>());
        dispatcher_.trace(relay::EventSpans(std::make_shared<relay::Traces>(std::move(tracer)),
                                            {"out", "baton", "orders", "out", "broker"}));
    }
    void carry(const std::shared_ptr<relay::Batch>& batch) {
        batch->number = ++number_;
        dispatcher_.add(batch, {});
        while (!dispatcher_.idle()) dispatcher_.step(relay::Time(std::chrono::seconds(1000)), {});
    }

  private:
    Envelope envelope_{{}};
    QuietSink sink_;
    Forgetful checkpoint_;
    relay::Dispatcher dispatcher_{
        sink_,
        checkpoint_,
        relay::Transformer{{},
                           [this](const Event& event, Messages& out, std::string& storage) {
                               envelope_.render(event, out.emplace_back(), storage);
                           }},
        {},
        true};
    std::uint64_t number_ = 0;
};

void traces() {
    constexpr int count = 1000;
    const auto batch = std::make_shared<relay::Batch>();
    std::vector<std::string> ids;
    for (int i = 0; i < count; ++i)
        ids.push_back("0190b5f0-7f3e-7c4a-8d55-" + std::to_string(100'000'000'000 + i));
    for (const auto& id : ids) {
        Event& event = batch->events.emplace_back();
        event.event_id = event.source_id = id;
        event.partition_key = id;
        event.event_type = "order.placed";
        event.payload = R"({"order": 7, "total": 42})";
        event.headers = R"({"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"})";
    }
    Carried off(nullptr), unsampled("parentbased_always_on"), sampled("always_on");
    compare("1000 events through the dispatcher", 20,
            {{"traces, each event sampled", [&](int) { sampled.carry(batch); }},
             {"traces, none sampled", [&](int) { unsampled.carry(batch); }},
             {"no traces (the default)", [&](int) { off.carry(batch); }}});
}

}  // namespace

int main() {
    fmt::print(
        "Small parts that run for every event. Medians of {} rounds, the parts of one line in turn.\n\n"
        "| part | by | ns each | times quicker |\n|---|---|--:|--:|\n",
        rounds);
    headers("headers: one text", R"({"tenant": "acme"})");
    headers(
        "headers: trace, tenant, number",
        R"({"attempt": 3, "tenant": "acme", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})");
    headers("headers: with a fraction, the slow way", R"({"tenant": "acme", "weight": 1.5})");

    const auto& bounds = relay::Latencies::bounds();
    prometheus::Histogram library({bounds.begin(), bounds.end()});
    relay::Latencies ours;
    const auto value = [](int i) { return i % 1000 * 0.0001; };
    compare("a value into a histogram", 1'000'000,
            {{"prometheus-cpp", [&](int i) { library.Observe(value(i)); }},
             {"relay/histogram (used)", [&](int i) { ours.add(value(i)); }}});
    traces();
    return ours.sum() > 0 ? 0 : 1;
}
