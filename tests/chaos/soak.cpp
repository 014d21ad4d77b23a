// One piece of the long audit:
//
//   soak EVENTS SEED
//
// Writes that many events with these writers while the relay and PostgreSQL are killed, transactions are slow
// and partitions are retired after a second. Prints one row of the page, bench/results/soak.md; ends with 1
// when the audit was bad.

#include <fmt/format.h>

#include <cstdlib>
#include <iostream>

#include "audit/report.hpp"
#include "chaos/database.hpp"
#include "support/program.hpp"

namespace baton::test {

using namespace std::chrono_literals;

namespace {

std::string row(const audit::Report& report) {
    const auto& it = report.judgement;
    const auto& sleeper = *report.sleeper;
    return fmt::format("{} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.0f} | {} |", report.seed,
                       it.committed, it.rolled_back, report.faults.size(), it.copies, it.lost.count,
                       it.phantom.count + it.unknown.count, it.out_of_order.count + it.leaps.count,
                       sleeper.lost.count + sleeper.phantom.count + sleeper.unknown.count +
                           sleeper.out_of_order.count + sleeper.leaps.count,
                       report.retired, report.dead + report.left, report.seconds,
                       report.good() ? "good" : "**bad**");
}

int run(long events, unsigned seed) {
    Database database;
    audit::Plan plan;
    plan.db = database.url();
    plan.relay_db = database.proxied_url();
    plan.program = program_file();
    plan.sink = {{"type", "file"}};
    plan.events = events;
    plan.relays = 2;
    plan.lease = 3s;
    plan.load.seed = seed;
    plan.load.rate = 100'000;
    plan.load.burst = 100;
    plan.load.writers = 16;
    plan.load.keys = 1000;
    plan.load.retention = 1s;
    plan.fault_interval = 3s;
    plan.drain_limit = 300s;
    plan.faults = {audit::kill_relay(), audit::pause_relay(plan.lease + 2s), audit::kill_relay(),
                   audit::cut_database()};
    for (auto& fault : database_faults(database, plan.lease)) {
        plan.faults.push_back(std::move(fault));
        plan.faults.push_back(audit::kill_relay());
    }
    const auto report = audit::run_audit(plan);
    std::cout << row(report) << std::endl;
    if (!report.good()) std::cerr << audit::as_text(report);
    return report.good() ? 0 : 1;
}

}  // namespace

}  // namespace baton::test

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: soak EVENTS SEED\n";
        return 2;
    }
    try {
        return baton::test::run(std::atol(argv[1]), static_cast<unsigned>(std::atol(argv[2])));
    } catch (const std::exception& error) {
        std::cerr << "soak: " << error.what() << "\n";
        return 1;
    }
}
