// The way in: known messages are published to a broker, a pipeline carries them into an inbox, and each must
// be there once.

#include <fmt/format.h>

#include "audit/auditor.hpp"
#include "audit/publisher.hpp"
#include "audit/watcher.hpp"
#include "audit/workplace.hpp"
#include "baton/error.hpp"
#include "brokers/registry.hpp"
#include "postgres/connection.hpp"

namespace baton::audit {

using namespace std::chrono_literals;

namespace {

// What the publisher needs to know of a source's settings: where the broker is, and who we are.
relay::Settings publisher_settings(const Plan& plan, const brokers::AuditPlace::Values& place) {
    relay::Settings settings("publisher");
    for (const auto& [key, value] : plan.sink)
        for (const auto* common : {"type", "brokers", "url", "username", "password", "token", "credentials",
                                   "endpoint", "region", "access_key", "secret_key"})
            if (key == common || key.starts_with("tls_")) settings.set(key, value);
    for (const auto& [key, value] : plan.reader) settings.set(key, value);
    for (const auto& [key, value] : place) settings.set(key, value);
    return settings;
}

class WayIn {
  public:
    explicit WayIn(const Plan& plan)
        : plan_(plan),
          name_(unique_name()),
          workplace_(plan.keep),
          broker_(brokers::make_audit_place(
              {name_, make_settings("source", plan.sink), publisher_settings(plan, {}), workplace_.path()})),
          inbox_(brokers::make_audit_place({name_,
                                            make_settings("sink", {{"type", "postgres"}, {"url", plan.db}}),
                                            make_settings("reader", {{"url", plan.db}}), workplace_.path()})),
          relays_({plan.program, relay_db(), plan.db, workplace_.path() / "relay.toml", workplace_.path(),
                   name_, plan.relays, plan.environment}) {}

    Report run() {
        broker_->create();
        const Undo place([this] { broker_->remove(); }, plan_.keep);
        inbox_->create();
        const Undo inbox([this] { inbox_->remove(); }, plan_.keep);
        write_text(workplace_.path() / "relay.toml", write_pipeline(pipeline_values()));
        relays_.start();
        const Undo relays([this] { relays_.stop(); });
        Publisher publisher(publisher_settings(plan_, broker_->sink_values()), broker_->publish_to(),
                            {plan_.load.keys, plan_.load.rate, plan_.load.payload_bytes, plan_.load.seed});
        Watcher watcher(*inbox_, publisher.names());
        publisher.start();
        const auto check = [this, &publisher] {
            if (plan_.check) plan_.check();
            if (const std::string failure = publisher.failure(); !failure.empty()) throw Error(failure);
        };
        facts_.faults = strike(plan_, relays_, check, progress_of(plan_.duration));
        publisher.stop();
        check();
        publisher.testify(facts_);
        drain(watcher, check);
        relays_.stop();
        watcher.stop();
        return conclude(watcher, publisher);
    }

  private:
    std::string relay_db() const { return plan_.relay_db.empty() ? plan_.db : plan_.relay_db; }

    brokers::AuditPlace::Values pipeline_values() const {
        brokers::AuditPlace::Values values{{"name", name_},          {"sink.type", "postgres"},
                                           {"sink.url", relay_db()}, {"sink.inbox", name_},
                                           {"sink.timeout", "3s"},   {"failure.breaker_limit", "2s"}};
        for (const auto& [key, value] : plan_.sink) values["source." + key] = value;
        for (const auto& [key, value] : broker_->source_values()) values["source." + key] = value;
        for (const auto& [key, value] : plan_.pipeline) values[key] = value;
        return values;
    }

    // Wait until everything is in the inbox, or nothing arrives any more.
    void drain(const Watcher& watcher, const std::function<void()>& check) const {
        auto moved = Clock::now();
        std::size_t before = watcher.count();
        const auto committed = static_cast<std::size_t>(facts_.count(Fate::committed));
        while (watcher.count() < committed && Clock::now() - moved < plan_.drain_limit) {
            check();
            std::this_thread::sleep_for(50ms);
            if (watcher.count() != before) moved = Clock::now();
            before = watcher.count();
        }
    }

    Report conclude(Watcher& watcher, const Publisher& publisher) {
        Report report;
        report.sink = std::get<std::string>(plan_.sink.at("type")) + " -> inbox";
        facts_.seen = watcher.take_seen();
        facts_.ordered = broker_->source_keeps_order();
        facts_.deduplicates = true;
        inbox_->read_ids([this](std::string_view id) { facts_.arrived.add(facts_.names, id); });
        report.judgement = judge(facts_);
        report.repeated = publisher.repeated();
        report.seed = plan_.load.seed;
        for (const auto& fault : facts_.faults) report.faults.push_back(fault.name);
        postgres::Connection db(plan_.db, "baton audit");
        report.dead = std::stol(
            db.value("select count(*) from " + db.escape_identifier(name_) + " where error is not null"));
        report.seconds = std::chrono::duration<double>(plan_.duration).count();
        if (plan_.keep) report.kept = workplace_.path().string();
        return report;
    }

    const Plan& plan_;
    std::string name_;
    Workplace workplace_;
    std::unique_ptr<brokers::AuditPlace> broker_;
    std::unique_ptr<brokers::AuditPlace> inbox_;
    Relays relays_;
    Facts facts_;
};

}  // namespace

Report audit_way_in(const Plan& plan) {
    return WayIn(plan).run();
}

}  // namespace baton::audit
