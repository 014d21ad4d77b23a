#pragma once
// One audit: writers, real relays and faults. At the end the judge says whether everything that was committed
// has arrived at the broker, and nothing else.

#include <atomic>
#include <functional>
#include <optional>

#include "audit/judge.hpp"
#include "audit/load.hpp"
#include "audit/relays.hpp"
#include "brokers/audit_place.hpp"

namespace baton::audit {

// A fault that is caused while the audit runs. The function returns when the fault is over, or throws Error.
struct Fault {
    std::string name;
    std::function<void(Relays&)> strike;
};

// Faults that need only the relays.
Fault kill_relay();
Fault pause_relay(std::chrono::milliseconds time);
Fault cut_database();
// Run a command of the user's own: "systemctl restart kafka".
Fault run_command(const std::string& command);

struct Plan {
    std::string db;
    std::string relay_db;                // how the relays reach the database, when they need another way
    std::filesystem::path program;       // baton
    brokers::AuditPlace::Values sink;    // [pipeline.sink] without its destination
    brokers::AuditPlace::Values reader;  // where the auditor itself needs other values
    brokers::AuditPlace::Values
        pipeline;  // more settings of the pipeline: "failure.attempts", "source.batch", ...
    std::vector<std::pair<std::string, std::string>> environment;  // of the relays, in addition to our own
    LoadPlan load;
    std::chrono::milliseconds duration{10'000};
    long events = 0;  // when set: write until so many are committed, however long it takes
    int relays = 1;
    std::chrono::milliseconds lease{5'000};
    std::vector<Fault> faults;  // in turn, and again from the beginning after the last
    std::chrono::milliseconds fault_interval{5'000};
    std::chrono::milliseconds drain_limit{60'000};  // how long nothing may arrive before the audit ends
    bool keep = false;                              // leave everything behind
    // The faults restore the database: events that the database has lost may have been sent before.
    bool may_send_what_is_taken_back = false;
    std::function<void(const std::string&)> tell;  // is told what happens, line by line
    std::function<void()> check;                   // throws when the audit is to end
};

struct Report {
    std::string sink;
    Judgement judgement;
    std::vector<std::string> faults;  // the faults that were caused
    long repeated = 0;                // audits of a source: messages that were published twice
    long dead = 0;                    // dead letters
    long left = 0;                    // neither settled nor dead when the time was over
    double seconds = 0;               // of writing
    unsigned seed = 0;                // of the writers
    // With a retention: the judgement on a group that stands still most of the time, and how many partitions
    // were retired.
    std::optional<Judgement> sleeper;
    long retired = 0;
    std::string kept;  // where the logs are, when they were kept

    bool good() const { return judgement.good() && dead == 0 && left == 0 && (!sleeper || sleeper->good()); }
};

// Throws Error when the audit cannot run. A bad result is a report.
Report run_audit(const Plan& plan);
// Audit a source: `sink` is [pipeline.source], and `reader` says how the publisher reaches the broker.
Report audit_way_in(const Plan& plan);

// How much of the work is done, from 0 to 1.
using Progress = std::function<double()>;
// The progress of a stretch of time from now on.
Progress progress_of(std::chrono::milliseconds time);

// Cause one fault after the other until the work is done. The last fifth of the work has no faults, so that
// the recovery shows. `check` runs all the time.
std::vector<FaultTime> strike(const Plan& plan, Relays& relays, const std::function<void()>& check,
                              const Progress& progress);

// A pipeline as a file, with values under dotted keys.
std::string write_pipeline(const brokers::AuditPlace::Values& values);
// Settings from values.
relay::Settings make_settings(const std::string& name, const brokers::AuditPlace::Values& values);

}  // namespace baton::audit
