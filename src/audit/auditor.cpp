#include "audit/auditor.hpp"

#include <fmt/format.h>

#include "audit/watcher.hpp"
#include "audit/workplace.hpp"
#include "baton/error.hpp"
#include "postgres/connection.hpp"

namespace baton::audit {

using namespace std::chrono_literals;
using postgres::Connection;
using std::chrono::milliseconds;

namespace {

Destination::Values merged(Destination::Values values, const Destination::Values& over) {
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
          destination_(
              make_destination({name_, make_settings("sink", plan.sink),
                                make_settings("reader", merged(plan.sink, plan.reader)), workplace_.path()})),
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
        Watcher watcher(*destination_);
        load_.start();
        const Undo load([this] { load_.stop(); });
        facts_.faults = strike(plan_, relays_, [this] { check(); });
        load_.stop();
        tell("waiting for what is under way");
        drain(watcher);
        relays_.stop();
        watcher.stop();
        return conclude(watcher);
    }

  private:
    Destination::Values pipeline_values() const {
        Destination::Values values{{"name", name_},
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
    }

    // How many events the group has not settled, without the dead ones.
    long unsettled() const {
        try {
            Connection db(plan_.db, "baton audit");
            return std::stol(db.value(
                "select coalesce((select max(lag_rows) from baton.group_lag where group_name = $1), "
                "0) + (select "
                "count(*) from baton_internal.parked join baton.consumer_groups using (group_id) where "
                "group_name = $1 "
                "and state <> 'dead')",
                {name_}));
        } catch (const ConnectionError&) {
            return -1;
        }
    }

    // Wait until everything is settled, or nothing arrives any more.
    void drain(const Watcher& watcher) {
        auto moved = Clock::now();
        std::size_t before = watcher.count();
        while ((left_ = unsettled()) != 0) {
            check();
            std::this_thread::sleep_for(50ms);
            if (watcher.count() != before) moved = Clock::now();
            before = watcher.count();
            if (Clock::now() - moved > plan_.drain_limit) return;
        }
    }

    Report conclude(const Watcher& watcher) {
        Report report;
        const auto type = plan_.sink.find("type");
        if (type != plan_.sink.end()) report.sink = std::get<std::string>(type->second);
        facts_.seen = watcher.seen();
        facts_.ordered = destination_->keeps_order();
        facts_.deduplicates = destination_->deduplicates();
        facts_.recovery = plan_.lease + 5s;
        for (auto& message : destination_->read_all()) facts_.arrived.push_back(std::move(message.id));
        load_.testify(facts_);
        report.judgement = judge(facts_);
        for (const auto& fault : facts_.faults) report.faults.push_back(fault.name);
        report.left = left_;
        Connection db(plan_.db, "baton audit");
        report.dead = std::stol(db.value(
            "select coalesce(max(dead_letters), 0) from baton.dead_letter_depth where group_name = $1",
            {name_}));
        report.seconds = std::chrono::duration<double>(plan_.duration).count();
        if (plan_.keep) report.kept = workplace_.path().string();
        return report;
    }

    const Plan& plan_;
    std::string name_;
    Workplace workplace_;
    Load load_;
    std::unique_ptr<Destination> destination_;
    Relays relays_;
    Facts facts_;
    long left_ = 0;
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

std::vector<FaultTime> strike(const Plan& plan, Relays& relays, const std::function<void()>& check) {
    const auto tell = [&plan](const std::string& what) {
        if (plan.tell) plan.tell(what);
    };
    tell(fmt::format("writing for {:.0f} s", std::chrono::duration<double>(plan.duration).count()));
    std::vector<FaultTime> struck;
    const auto end = Clock::now() + plan.duration;
    const auto last = end - plan.duration / 5;
    auto next = Clock::now() + plan.fault_interval / 2;
    while (Clock::now() < end) {
        check();
        std::this_thread::sleep_for(20ms);
        if (plan.faults.empty() || Clock::now() < next || Clock::now() > last) continue;
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
