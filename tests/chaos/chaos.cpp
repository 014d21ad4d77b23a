// Every sink on its real server, everything that can break broken in turn, and an audit of each:
//
//   chaos [SINK...]     BATON_CHAOS_SECONDS says how long each of them is written to (60), BATON_CHAOS_FAULTS
//                       which faults are struck, by their names (all), BATON_CHAOS_SEED the writers' seed
//
// Prints a page in Markdown; ends with 1 when an audit was bad.

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>

#include "audit/report.hpp"
#include "brokers/registry.hpp"
#include "chaos/database.hpp"
#include "chaos/failover.hpp"
#include "chaos/poison.hpp"
#include "chaos/restores.hpp"
#include "chaos/stands.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using audit::Fault;
using audit::Relays;

namespace {

constexpr auto lease = 3s;

std::chrono::seconds seconds_per_sink() {
    const char* given = std::getenv("BATON_CHAOS_SECONDS");
    return std::chrono::seconds(given == nullptr ? 60 : std::max(std::atoi(given), 5));
}

// The relays' wall clock, which can be set: their steady clock goes on, as it does when an operator or NTP
// sets the time.
class FakeClock {
  public:
    FakeClock() { set("+0"); }
    // What makes a child believe it; nothing where the library is missing.
    std::vector<std::pair<std::string, std::string>> environment() const {
        if (!present()) return {};
        return {{"LD_PRELOAD", library.string()},
                {"FAKETIME_TIMESTAMP_FILE", file_.string()},
                {"FAKETIME_CACHE_DURATION", "1"},
                {"FAKETIME_DONT_FAKE_MONOTONIC", "1"},
                {"DONT_FAKE_MONOTONIC", "1"}};
    }
    std::vector<Fault> faults() {
        if (!present()) return {};
        return {{"the relays' clock set an hour ahead, then an hour back", [this](Relays&) {
                     for (const auto* offset : {"+3600", "-3600", "+0"}) {
                         set(offset);
                         std::this_thread::sleep_for(2s);
                     }
                 }}};
    }

  private:
    static bool present() { return std::filesystem::exists(library); }
    void set(const std::string& offset) const { std::ofstream(file_) << offset << "\n"; }

    static inline const std::filesystem::path library =
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
    TemporaryFolder folder_;
    std::filesystem::path file_ = folder_ / "clock";
};

// Faults of the broker and of the database in turn, and after every second one something happens to the
// relays.
std::vector<Fault> all_faults(Stand& stand, Way way, Database& database, FakeClock& clock) {
    const std::vector<Fault> broker = broker_faults(stand, way);
    std::vector<Fault> rest = database_faults(database, lease);
    for (auto& fault : clock.faults()) rest.push_back(std::move(fault));
    std::vector<Fault> others;
    for (std::size_t i = 0; i < std::max(broker.size(), rest.size()); ++i) {
        if (i < broker.size()) others.push_back(broker[i]);
        if (i < rest.size()) others.push_back(rest[i]);
    }
    const std::vector<Fault> relays{audit::kill_relay(), audit::pause_relay(lease + 2s), audit::kill_relay(),
                                    audit::cut_database()};
    std::vector<Fault> faults{audit::kill_relay()};
    for (std::size_t i = 0; i < others.size(); ++i) {
        faults.push_back(others[i]);
        if (i % 2 == 1) faults.push_back(relays[i / 2 % relays.size()]);
    }
    if (const char* only = std::getenv("BATON_CHAOS_FAULTS"))
        std::erase_if(faults, [only](const Fault& fault) {
            return std::string_view(only).find(fault.name) == std::string_view::npos;
        });
    return faults;
}

// "kafka" is the way out to it, "kafka-in" the way in from it.
audit::Report audit_stand(const std::string& name, unsigned seed) {
    const bool way_in = name.ends_with("-in");
    const auto stand = make_stand(way_in ? name.substr(0, name.size() - 3) : name);
    Database database;
    audit::Plan plan;
    plan.db = database.url();
    plan.relay_db = database.proxied_url();
    plan.program = program_file();
    // The way in from PostgreSQL is that from an outbox elsewhere: the relay lives where its inbox is.
    const bool from_outbox = way_in && stand->source().empty();
    plan.sink = way_in && !from_outbox ? stand->source() : stand->sink();
    plan.reader = way_in ? stand->publisher() : stand->reader();
    if (from_outbox) {
        plan.pipeline = {{"source.type", "postgres"}, {"source.url", plan.relay_db}};
        plan.relay_db = stand->home();
    }
    plan.duration = seconds_per_sink();
    plan.keep = std::getenv("BATON_KEEP") != nullptr;
    plan.relays = 2;
    plan.lease = lease;
    plan.load.rate = stand->rate();
    plan.load.seed = seed;
    plan.load.retention = 1s;
    FakeClock clock;
    plan.environment = clock.environment();
    plan.faults = all_faults(*stand, way_in ? Way::in : Way::out, database, clock);
    plan.fault_interval = 1s;
    plan.drain_limit = 300s;  // a busy machine starves a broker that has just been restarted
    plan.tell = [&name](const std::string& what) { std::cerr << name << ": " << what << std::endl; };
    auto report = way_in && !from_outbox ? audit::audit_way_in(plan) : audit::run_audit(plan);
    report.sink = name;
    return report;
}

const std::map<std::string, Replication> failovers{{"failover-synchronous", Replication::synchronous},
                                                   {"failover-guarded", Replication::guarded},
                                                   {"failover-unguarded", Replication::unguarded}};

// Any audit by its name: a stand's, or that of failovers, of restores, of events that kill their consumers.
audit::Report audit_by_name(const std::string& name, unsigned seed) {
    const auto tell = [&name](const std::string& what) { std::cerr << name << ": " << what << std::endl; };
    const auto failover = failovers.find(name);
    const auto restore = restores().find(name);
    if (name == "poison") return audit_poison(seconds_per_sink());
    if (failover == failovers.end() && restore == restores().end()) return audit_stand(name, seed);
    auto report = failover != failovers.end()
                      ? audit_failover(failover->second, seconds_per_sink(), seed, tell)
                      : audit_restore(restore->second, seconds_per_sink(), seed, tell);
    report.sink = fmt::format("{} ({} lost by the database, {} of them sent)", name,
                              report.judgement.taken_back, report.judgement.ghosts.count);
    return report;
}

// What all audits are to be held for when none is named.
std::vector<std::string> all_names() {
    std::vector<std::string> names = stand_names();
    for (const auto& broker : brokers::registry())
        if (broker.make_source != nullptr || broker.has_tables) names.push_back(broker.name + "-in");
    names.push_back("poison");
    for (const auto& [name, restore] : restores()) names.push_back(name);
    for (const auto& [name, replication] : failovers) names.push_back(name);
    return names;
}

unsigned seed_given() {
    const char* given = std::getenv("BATON_CHAOS_SEED");
    return given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::atol(given));
}

std::string row(const audit::Report& report) {
    const auto& it = report.judgement;
    const auto order = [&it](long count) { return it.ordered ? std::to_string(count) : "n/a"; };
    const std::string latency =
        it.calm.events > 0 ? fmt::format("{:.1f} / {:.1f} / {:.1f}", it.calm.p50, it.calm.p99, it.calm.p999)
                           : "none was calm";
    return fmt::format("| {} | {} | {} | {} | {} | {} ({:.2f} %) | {} | {} | {} | {} | {} | {} |\n",
                       report.sink, it.committed, it.rolled_back, it.lost.count,
                       it.phantom.count + it.unknown.count, it.copies, it.copy_rate() * 100,
                       it.unexplained_copies.count, order(it.out_of_order.count), order(it.leaps.count),
                       report.dead + report.left, latency, report.good() ? "good" : "**bad**");
}

std::string preamble(unsigned seed) {
    return fmt::format(
        "Each sink on its real server, written to for {} s at about 400 events/s (SQS: 100) by 4 writers "
        "and one transaction that is held open; two relays with a lease of {} s. Faults follow each other 1 "
        "s apart. Latency is from commit to being read back at the broker, of the events that no fault "
        "touched. NAME-in is the way in: messages published to the broker, some of them twice, must be in "
        "an inbox once. On the way out the outbox retires partitions after one second, while a second group "
        "stands still most of the time: whatever that one misses or gets out of order makes the verdict bad "
        "too. Seed {}.\n\n"
        "In restores and unguarded failovers the database itself goes back to an earlier moment: what it "
        "lost, and how much of that had been sent, stands next to the name; everything else is judged.\n\n"
        "A group's position follows its oldest event that is not settled. Where a broker takes one message "
        "of a key at a time, a busy key holds it back, and what was delivered beyond it is delivered again "
        "after a crash: those are the copies of RabbitMQ and SQS.\n\n",
        seconds_per_sink().count(), std::chrono::seconds(lease).count(), seed);
}

template <class Count>
std::string counts(const std::map<std::string, Count>& by_name) {
    std::string text;
    for (const auto& [name, count] : by_name) text += " " + name + " " + std::to_string(count);
    return text;
}

int run(std::vector<std::string> names) {
    if (names.empty()) names = all_names();
    const unsigned seed = seed_given();
    std::string page =
        "| sink | committed | rolled back | lost | phantom | copies | unexplained | out of order | ... with "
        "copies | dead or left | latency p50 / p99 / p99.9, ms | verdict |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    std::map<std::string, std::map<std::string, int>> struck;
    std::map<std::string, long> retired;
    std::string details;
    bool good = true;
    for (const auto& name : names) {
        try {
            const auto report = audit_by_name(name, seed);
            page += row(report);
            for (const auto& fault : report.faults) ++struck[fault][name];
            if (report.sleeper) retired[name] = report.retired;
            good = good && report.good();
            if (!report.good()) details += "\n```\n" + audit::as_text(report) + "```\n";
        } catch (const Unavailable& unavailable) {
            page += "| " + name + " | skipped: " + unavailable.what() + " |\n";
        } catch (const std::exception& error) {
            page += "| " + name + " | **the audit could not be held**: " + error.what() + " |\n";
            good = false;
        }
    }
    std::cout << preamble(seed) << page << "\nFaults struck:\n\n";
    for (const auto& [fault, sinks] : struck) std::cout << "- " << fault << ":" << counts(sinks) << "\n";
    std::cout << "\nPartitions retired:" << counts(retired) << "\n";
    std::cout << details;
    return good ? 0 : 1;
}

}  // namespace

}  // namespace baton::test

int main(int argc, char** argv) {
    return baton::test::run({argv + 1, argv + argc});
}
