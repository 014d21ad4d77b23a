#include "audit/auditor.hpp"

#include <fmt/format.h>

#include <utility>

#include "audit/sleeper.hpp"
#include "audit/watcher.hpp"
#include "audit/workplace.hpp"
#include "baton/error.hpp"
#include "brokers/registry.hpp"
#include "postgres/connection.hpp"

namespace baton::audit {

using namespace std::chrono_literals;
using postgres::Connection;
using std::chrono::milliseconds;

namespace {

brokers::AuditPlace::Values merged(brokers::AuditPlace::Values values,
                                   const brokers::AuditPlace::Values& over) {
    for (const auto& [key, value] : over) values[key] = value;
    return values;
}

class Audit {
  public:
    explicit Audit(const Plan& plan)
        : plan_(plan),
          name_(unique_name()),
          workplace_(plan.keep),
          load_(plan.db, name_, plan.load),
          destination_(brokers::make_audit_place({name_, make_settings("sink", plan.sink),
                                                  make_settings("reader", merged(plan.sink, plan.reader)),
                                                  workplace_.path()})),
          relays_({plan.program, plan.relay_db.empty() ? plan.db : plan.relay_db, plan.db,
                   workplace_.path() / "relay.toml", workplace_.path(), name_, plan.relays,
                   plan.environment}) {}

    Report run() {
        load_.create();
        const Undo outbox([this] { load_.remove(); }, plan_.keep);
        destination_->create();
        const Undo place([this] { destination_->remove(); }, plan_.keep);
        write_text(workplace_.path() / "relay.toml", write_pipeline(pipeline_values()));
        relays_.start();
        const Undo relays([this] { relays_.stop(); });
        relays_.wait_for_owner(60s);
        Watcher watcher(*destination_, load_.names());
        if (plan_.load.retention.count() > 0) {
            sleeper_.emplace(plan_.db, load_.outbox(), name_ + "_sleeper", load_.names());
            sleeper_->start();
        }
        const Undo sleeper([this] { sleeper_.reset(); });
        write();
        tell("waiting for what is under way");
        drain(watcher);
        relays_.stop();
        watcher.stop();
        if (sleeper_) {
            tell("waiting for the second group");
            sleeper_->finish(plan_.drain_limit);
        }
        check();
        tell("comparing");
        return conclude(watcher);
    }

  private:
    brokers::AuditPlace::Values pipeline_values() const {
        brokers::AuditPlace::Values values{{"name", name_},
                                           {"source.outbox", load_.outbox()},
                                           {"source.lease", std::to_string(plan_.lease.count()) + "ms"},
                                           {"sink.envelope", "raw"},
                                           {"failure.retry_base", "200ms"},
                                           {"failure.retry_limit", "2s"},
                                           {"failure.max_attempts", std::int64_t{1000}},
                                           {"failure.breaker_limit", "2s"}};
        for (const auto& [key, value] : merged(plan_.sink, destination_->sink_values()))
            values["sink." + key] = value;
        return merged(values, plan_.pipeline);
    }

    void tell(const std::string& what) const {
        if (plan_.tell) plan_.tell(what);
    }
    void check() const {
        if (plan_.check) plan_.check();
        if (const std::string failure = load_.failure(); !failure.empty())
            throw Error("a writer failed: " + failure);
        if (const std::string failure = sleeper_ ? sleeper_->failure() : ""; !failure.empty())
            throw Error("a group or the maintenance of its outbox failed: " + failure);
    }

    // Write while faults strike.
    void write() {
        const auto began = Clock::now();
        load_.start();
        const Undo load([this] { load_.stop(); });
        const Progress by_events = [this] {
            return static_cast<double>(load_.committed()) / static_cast<double>(plan_.events);
        };
        facts_.faults = strike(
            plan_, relays_, [this] { check(); }, plan_.events > 0 ? by_events : progress_of(plan_.duration));
        load_.stop();
        seconds_ = std::chrono::duration<double>(Clock::now() - began).count();
    }

    // Wait until everything is settled, or nothing arrives any more. To count what is unsettled is dear with
    // a large backlog, so nobody does while the backlog shrinks.
    void drain(const Watcher& watcher) {
        constexpr auto quiet = 3s;
        auto moved = Clock::now();
        std::size_t before = 0;
        for (;; std::this_thread::sleep_for(50ms)) {
            check();
            const std::size_t count = watcher.count();
            if (std::exchange(before, count) != count) moved = Clock::now();
            const bool all_seen = count >= static_cast<std::size_t>(load_.committed());
            if (!all_seen && Clock::now() - moved < quiet) continue;
            left_ = count_unsettled(plan_.db, name_);
            if (left_ == 0 || Clock::now() - moved > plan_.drain_limit) return;
        }
    }

    Report conclude(Watcher& watcher) {
        Report report;
        const auto type = plan_.sink.find("type");
        if (type != plan_.sink.end()) report.sink = std::get<std::string>(type->second);
        facts_.seen = watcher.take_seen();
        facts_.ordered = destination_->keeps_order();
        facts_.deduplicates = destination_->deduplicates();
        facts_.ghosts_judged = !plan_.may_send_what_is_taken_back;
        facts_.recovery = plan_.lease + 5s;
        load_.testify(facts_);
        destination_->read_ids([this](std::string_view id) { facts_.arrived.add(facts_.names, id); });
        report.judgement = judge(facts_);
        for (const auto& fault : facts_.faults) report.faults.push_back(fault.name);
        report.left = left_;
        Connection db(plan_.db, "baton audit");
        report.dead = std::stol(db.value(
            "select coalesce(max(dead_letters), 0) from baton.dead_letter_depth where group_name = $1",
            {name_}));
        report.seconds = seconds_;
        report.seed = plan_.load.seed;
        if (plan_.keep) report.kept = workplace_.path().string();
        if (sleeper_) judge_sleeper(report);
        return report;
    }

    // The same facts, but what the sleeping group got.
    void judge_sleeper(Report& report) {
        facts_.arrived = sleeper_->take();
        facts_.seen.clear();
        facts_.ordered = true;
        facts_.deduplicates = false;
        report.sleeper = judge(facts_);
        report.retired = sleeper_->retired();
    }

    const Plan& plan_;
    std::string name_;
    Workplace workplace_;
    Load load_;
    std::unique_ptr<brokers::AuditPlace> destination_;
    Relays relays_;
    std::optional<Sleeper> sleeper_;
    Facts facts_;
    long left_ = 0;
    double seconds_ = 0;
};

}  // namespace

Fault kill_relay() {
    return {"kill -9 of the relay", [](Relays& relays) { relays.kill_owner(); }};
}

Fault pause_relay(milliseconds time) {
    return {"relay stopped longer than its lease", [time](Relays& relays) { relays.pause_owner(time); }};
}

Fault cut_database() {
    return {"the relay's database connections cut", [](Relays& relays) { relays.cut_database(); }};
}

Fault run_command(const std::string& command) {
    return {command, [command](Relays&) {
                const auto outcome = baton::run({{"/bin/sh", "-c", command}});
                if (outcome.exit_code != 0)
                    throw Error("\"" + command + "\" failed: " + last_lines(outcome.output, 1));
            }};
}

Progress progress_of(milliseconds time) {
    return [time, began = Clock::now()] {
        return std::chrono::duration<double>(Clock::now() - began) / std::chrono::duration<double>(time);
    };
}

std::vector<FaultTime> strike(const Plan& plan, Relays& relays, const std::function<void()>& check,
                              const Progress& progress) {
    constexpr double calm_from = 0.8;
    const auto tell = [&plan](const std::string& what) {
        if (plan.tell) plan.tell(what);
    };
    tell(plan.events > 0
             ? fmt::format("writing {} events", plan.events)
             : fmt::format("writing for {:.0f} s", std::chrono::duration<double>(plan.duration).count()));
    std::vector<FaultTime> struck;
    auto next = Clock::now() + plan.fault_interval / 2;
    while (progress() < 1) {
        check();
        std::this_thread::sleep_for(20ms);
        if (plan.faults.empty() || Clock::now() < next || progress() > calm_from) continue;
        const Fault& fault = plan.faults[struck.size() % plan.faults.size()];
        tell(fault.name);
        const auto began = Clock::now();
        fault.strike(relays);
        struck.push_back({fault.name, began, Clock::now()});
        next = Clock::now() + plan.fault_interval;
    }
    return struck;
}

Report run_audit(const Plan& plan) {
    return Audit(plan).run();
}

}  // namespace baton::audit
