// The price of small parts that run for every event: what is used beside what could be.

#include <fmt/format.h>
#include <prometheus/histogram.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "event/header_reader.hpp"
#include "event/headers.hpp"
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
    return ours.sum() > 0 ? 0 : 1;
}
