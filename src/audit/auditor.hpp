#pragma once
// One audit: writers, real relays, faults, and at the end the question whether everything that was committed
// has arrived at the broker, and nothing else.

#include <atomic>
#include <functional>
#include <optional>

#include "audit/judge.hpp"
#include "audit/load.hpp"
#include "audit/relays.hpp"
#include "brokers/audit_place.hpp"

namespace baton::audit {

// Something that is done while the audit runs; returns when it is over, or throws Error.
struct Fault {
    std::string name;
    std::function<void(Relays&)> strike;
};

// The faults that need nothing but the relays.
Fault kill_relay();
Fault pause_relay(std::chrono::milliseconds time);
Fault cut_database();
// Run a command of the user's own: "systemctl restart kafka".
Fault run_command(const std::string& command);

struct Plan {
    std::string db;
    std::string relay_db;                // how the relays reach it, when that is another way
    std::filesystem::path program;       // baton
    brokers::AuditPlace::Values sink;    // [pipeline.sink] without its destination
    brokers::AuditPlace::Values reader;  // where the auditor itself must be told something else
    brokers::AuditPlace::Values
        pipeline;  // more settings of the pipeline: "failure.attempts", "source.batch", ...
    std::vector<std::pair<std::string, std::string>> environment;  // of the relays, beyond our own
    LoadPlan load;
    std::chrono::milliseconds duration{10'000};
    long events = 0;  // when given, write until that many are committed, however long it takes
    int relays = 1;
    std::chrono::milliseconds lease{5'000};
    std::vector<Fault> faults;  // in turn, from the beginning again when all were struck
    std::chrono::milliseconds fault_interval{5'000};
    std::chrono::milliseconds drain_limit{60'000};  // without anything arriving
    bool keep = false;                              // leave everything behind
    // Does what a restore does: what the database has taken back may have been sent before.
    bool may_send_what_is_taken_back = false;
    std::function<void(const std::string&)> tell;  // what is going on, a line each
    std::function<void()> check;                   // throws when the audit is to end
};

struct Report {
    std::string sink;
    Judgement judgement;
    std::vector<std::string> faults;  // those that were struck
    long repeated = 0;                // on the way in: published twice
    long dead = 0;                    // parked for good
    long left = 0;                    // neither settled nor dead when the time was over
    double seconds = 0;               // of writing
    unsigned seed = 0;                // of the writers
    // With a retention: what came of a group that stands still most of the time, and how many partitions
    // were retired.
    std::optional<Judgement> sleeper;
    long retired = 0;
    std::string kept;  // where the logs are, when they were kept

    bool good() const { return judgement.good() && dead == 0 && left == 0 && (!sleeper || sleeper->good()); }
};

// Throws Error when the audit cannot be held; a bad result is a report.
Report run_audit(const Plan& plan);
// The same for the way in: `sink` and `reader` are then [pipeline.source] and the publisher's way to the
// broker.
Report audit_way_in(const Plan& plan);

// How much of the work is done, from 0 to 1.
using Progress = std::function<double()>;
// That of a stretch of time from now on.
Progress progress_of(std::chrono::milliseconds time);

// Strike one fault after the other until the work is done; the last fifth is calm, so that a recovery is
// seen. `check` runs all the time.
std::vector<FaultTime> strike(const Plan& plan, Relays& relays, const std::function<void()>& check,
                              const Progress& progress);

// A pipeline as a file, with values under dotted keys.
std::string write_pipeline(const brokers::AuditPlace::Values& values);
// Settings from values.
relay::Settings make_settings(const std::string& name, const brokers::AuditPlace::Values& values);

}  // namespace baton::audit
