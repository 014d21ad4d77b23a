// One piece of the long audit:
//
//   soak EVENTS SEED
//
// Writes that many events with these writers while the relay and PostgreSQL are killed, transactions are slow
// and partitions are retired after a second. Prints one row of the page, bench/results/soak.md, and on stderr
// what happens; ends with 1 when the audit was bad.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
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

audit::Plan make_plan(Database& database, long events, unsigned seed) {
    audit::Plan plan;
    plan.db = database.url();
    plan.relay_db = database.proxied_url();
    plan.program = program_file();
    plan.sink = {{"type", "file"}};
    plan.events = events;
    plan.relays = 2;
    plan.lease = 5s;
    plan.load.seed = seed;
    plan.load.rate = 200'000;
    plan.load.burst = 200;
    plan.load.writers = 16;
    plan.load.keys = 1000;
    plan.load.payload_bytes = 60;
    plan.load.retention = 1s;
    plan.fault_interval = 3s;
    plan.drain_limit = 300s;
    plan.keep = true;  // until the verdict is known
    plan.faults = {audit::kill_relay(), audit::pause_relay(plan.lease + 2s), audit::kill_relay(),
                   audit::cut_database()};
    for (auto& fault : database_faults(database, plan.lease)) {
        plan.faults.push_back(std::move(fault));
        plan.faults.push_back(audit::kill_relay());
    }
    // A piece may be over before all of them had their turn, so each begins with another one.
    std::rotate(plan.faults.begin(), plan.faults.begin() + static_cast<long>(seed % plan.faults.size()),
                plan.faults.end());
    plan.tell = [began = audit::Clock::now()](const std::string& what) {
        const std::chrono::duration<double> time = audit::Clock::now() - began;
        std::cerr << fmt::format("{:7.1f} s  {}\n", time.count(), what);
    };
    return plan;
}

// Everything of a bad piece stays, and its server runs on.
int run(long events, unsigned seed) {
    Database database({"shared_buffers = '1GB'"});
    const auto keep = [&database] {
        std::cerr << "everything is kept; the server is " << database.url() << " in "
                  << database.cluster().leave_running().string() << "\n";
    };
    try {
        const auto plan = make_plan(database, events, seed);
        const auto report = audit::run_audit(plan);
        plan.tell(report.good() ? "good" : "bad");
        std::cout << row(report) << std::endl;
        if (report.good()) {
            std::filesystem::remove_all(report.kept);
            return 0;
        }
        std::cerr << audit::as_text(report);
        keep();
        return 1;
    } catch (...) {
        keep();
        throw;
    }
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
