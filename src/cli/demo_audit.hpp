#pragma once
// The demo's audit. It compares what was committed, as the log says, with what arrived in the file, in the
// inbox and in the books; and the revenue per product with what its deltas add up to.

#include <filesystem>
#include <string>
#include <vector>

#include "cli/demo_shop.hpp"

namespace baton::cli {

struct Latency {
    double p50 = 0;  // milliseconds
    double p99 = 0;
};

// One way that the events took.
struct Track {
    std::string name;
    long delivered = 0;
    long lost = 0;
    long phantom = 0;  // delivered, but never committed
    long duplicated = 0;
    long out_of_order = 0;
    Latency latency;

    bool clean() const { return lost == 0 && phantom == 0 && duplicated == 0 && out_of_order == 0; }
};

// The stream table's deltas, as a consumer of the file adds them up.
struct Deltas {
    long arrived = 0;
    bool add_up = false;  // to the stream table, which holds what its query gives
};

struct Audit {
    long committed = 0;
    std::vector<Track> tracks;
    bool books_balance = false;
    Deltas revenue;

    bool passed() const;
};

// Each line is one event as JSON.
struct DemoFiles {
    std::filesystem::path events;
    std::filesystem::path revenue;
};

// Compare.
Audit audit_demo(const std::string& db, const DemoFiles& files);
// A stretch of time in which the relay was stopped on purpose.
struct Pause {
    DemoClock::time_point from = DemoClock::time_point::max();
    DemoClock::time_point until = DemoClock::time_point::max();
};
// From commit to delivery, over the events that have both and were not committed during the pause.
Latency latency_between(const Moments& commits, const Moments& deliveries, const Pause& pause);
std::string describe(const Audit& audit);

}  // namespace baton::cli
