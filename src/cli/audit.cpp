#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "audit/report.hpp"
#include "cli/commands.hpp"
#include "cli/stop_signal.hpp"
#include "cli/target.hpp"
#include "relay/config.hpp"

namespace baton::cli {

namespace {

struct AuditOptions {
    Target target;
    std::vector<std::string> sink;
    std::vector<std::string> source;
    std::vector<std::string> read;
    std::vector<std::string> set;
    std::filesystem::path config;
    std::string pipeline;
    std::vector<std::string> faults;
    std::vector<std::string> commands;
    double seconds = 10;
    double interval = 5;
    double lease = 5;
    double retention = 0;
    bool json = false;
    audit::Plan plan;
};

// Read "key=value": true and false, whole numbers, else text; quotes make text of anything.
std::pair<std::string, relay::Settings::Value> read_pair(const std::string& word) {
    const auto sign = word.find('=');
    if (sign == std::string::npos || sign == 0)
        throw UsageError("\"" + word + "\" is no setting", "write it as key=value");
    const std::string key = word.substr(0, sign);
    std::string value = word.substr(sign + 1);
    if (value == "true" || value == "false") return {key, value == "true"};
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
        return {key, value.substr(1, value.size() - 2)};
    if (!value.empty() && value.size() < 18 && value.find_first_not_of("0123456789") == std::string::npos)
        return {key, std::int64_t{std::stoll(value)}};
    return {key, value};
}

brokers::AuditPlace::Values read_pairs(const std::vector<std::string>& words) {
    brokers::AuditPlace::Values values;
    for (const auto& word : words) values.insert(read_pair(word));
    return values;
}

// Take the sink of a pipeline that the user has already; its destination is replaced.
brokers::AuditPlace::Values read_sink(const AuditOptions& options) {
    brokers::AuditPlace::Values values;
    if (!options.config.empty()) {
        const auto pipelines = relay::read_config(options.config).pipelines;
        const relay::Settings* chosen = nullptr;
        for (const auto& pipeline : pipelines)
            if (options.pipeline.empty() || pipeline.text("name") == options.pipeline) chosen = &pipeline;
        if (chosen == nullptr || (options.pipeline.empty() && pipelines.size() > 1))
            throw UsageError("which pipeline's sink is to be audited?", "name it with --pipeline");
        values = chosen->below("sink").values();
    }
    for (const auto& [key, value] : read_pairs(options.sink)) values[key] = value;
    if (!values.contains("type")) values["type"] = "file";
    return values;
}

audit::Fault find_fault(const std::string& name, double lease) {
    if (name == "kill") return audit::kill_relay();
    if (name == "cut") return audit::cut_database();
    return audit::pause_relay(std::chrono::milliseconds(static_cast<long>(lease * 1000) + 2000));
}

int audit_command(AuditOptions& options) {
    const auto ms = [](double seconds) {
        return std::chrono::milliseconds(static_cast<long>(seconds * 1000));
    };
    audit::Plan& plan = options.plan;
    plan.db = find_server(options.target);
    connect(options.target);
    plan.program = std::filesystem::read_symlink("/proc/self/exe");
    const bool way_in = !options.source.empty();
    plan.sink = way_in ? read_pairs(options.source) : read_sink(options);
    if (way_in && !plan.sink.contains("type"))
        throw UsageError("which broker is the source?", "say --source type=kafka, for example");
    plan.reader = read_pairs(options.read);
    plan.pipeline = read_pairs(options.set);
    plan.duration = ms(options.seconds);
    plan.lease = ms(options.lease);
    plan.load.retention = ms(options.retention);
    plan.fault_interval = ms(options.interval);
    for (const auto& name : options.faults) plan.faults.push_back(find_fault(name, options.lease));
    for (const auto& command : options.commands) plan.faults.push_back(audit::run_command(command));
    const StopSignal stop;
    plan.check = [&stop] { stop.check(); };
    plan.tell = [](const std::string& what) { print_progress(what); };
    const auto report = way_in ? audit::audit_way_in(plan) : audit::run_audit(plan);
    if (options.json)
        std::cout << audit::as_json(report) << "\n";
    else
        std::cout << audit::as_text(report) << "\n"
                  << (report.good() ? "good: every committed event arrived, in order, and nothing else\n"
                                    : "bad: see above\n");
    if (!report.kept.empty()) print_progress("kept: " + report.kept);
    return report.good() ? done : failed;
}

}  // namespace

void add_audit(Program& program) {
    auto options = std::make_shared<AuditOptions>();
    auto& command =
        program.add("audit", "write events, break things, and prove at the broker that every event arrived",
                    [options] { return audit_command(*options); });
    add_target(command, options->target);
    command.add_option(
        "--sink", options->sink,
        "a setting of the sink, key=value, e.g. type=kafka brokers=localhost:9092 (default: type=file)");
    command.add_option("--source", options->source,
                       "audit the way in: a setting of the source, key=value; messages are published to the "
                       "broker and must be in an inbox once");
    command.add_option("--config", options->config, "take the sink's settings from a relay's file");
    command.add_option("--pipeline", options->pipeline, "... from the pipeline of this name");
    command.add_option("--read", options->read,
                       "a setting in which the auditor's own way to the broker differs");
    command.add_option("--set", options->set, "another setting of the pipeline, e.g. source.batch=100");
    command.add_option("--fault", options->faults, "kill, pause or cut (the relay's database connections)")
        ->check(CLI::IsMember({"kill", "pause", "cut"}));
    command.add_option("--fault-command", options->commands,
                       "a command that breaks something and returns when it is over");
    command.add_option("--fault-interval", options->interval, "seconds between faults")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    command.add_option("--seconds", options->seconds, "how long to write")
        ->check(CLI::Range(1.0, 86400.0))
        ->capture_default_str();
    command
        .add_option("--events", options->plan.events,
                    "how many events to write, however long it takes; instead of --seconds")
        ->check(CLI::Range(1L, 1'000'000'000L));
    command.add_option("--seed", options->plan.load.seed, "of the writers; the report names it");
    command
        .add_option("--retention", options->retention,
                    "seconds after which the outbox retires what every group has read; a second group, which "
                    "stands still most of the time, must get everything too")
        ->check(CLI::Range(0.1, 86400.0));
    command.add_option("--relays", options->plan.relays, "how many relays run at once")
        ->check(CLI::Range(1, 10))
        ->capture_default_str();
    command.add_option("--lease", options->lease, "seconds until another relay takes over from a dead one")
        ->check(CLI::Range(1.0, 600.0))
        ->capture_default_str();
    command.add_option("--writers", options->plan.load.writers, "how many write at the same time")
        ->check(CLI::Range(1, 100))
        ->capture_default_str();
    command
        .add_option("--burst", options->plan.load.burst,
                    "half of the transactions have up to this many times as many events as the others")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    command.add_option("--keys", options->plan.load.keys, "how many keys there are")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    command.add_option("--rate", options->plan.load.rate, "events per second")
        ->check(CLI::Range(1.0, 1e6))
        ->capture_default_str();
    command.add_flag("--json", options->json, "print the report as JSON");
    command.add_flag("--keep", options->plan.keep, "leave outbox, destination and logs behind");
}

}  // namespace baton::cli
