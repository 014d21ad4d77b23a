#include "audit/report.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace baton::audit {

using nlohmann::json;

namespace {

std::map<std::string, long> count_faults(const Report& report) {
    std::map<std::string, long> counts;
    for (const auto& name : report.faults) ++counts[name];
    return counts;
}

struct Line {
    const char* name;
    const char* key;
    const Finding* finding;
    bool judged;
};

std::vector<Line> lines_of(const Judgement& judgement) {
    return {{"lost", "lost", &judgement.lost, true},
            {"phantom (rolled back)", "phantom", &judgement.phantom, true},
            {"unknown", "unknown", &judgement.unknown, true},
            {"lost by the database, and yet sent", "ghosts", &judgement.ghosts, judgement.ghosts_judged},
            {"out of order", "out_of_order", &judgement.out_of_order, judgement.ordered},
            {"out of order, with copies", "leaps", &judgement.leaps, judgement.ordered},
            {"copies that no fault explains", "unexplained_copies", &judgement.unexplained_copies, true}};
}

std::string describe(const Latency& latency) {
    if (latency.events == 0) return "-";
    return fmt::format("{:.1f} / {:.1f} / {:.1f} ms", latency.p50, latency.p99, latency.p999);
}

// What a group came to that stood still most of the time, in one line.
std::string describe(const Judgement& sleeper, long retired) {
    return fmt::format("{} arrived, {} lost, {} phantom, {} out of order; {} partitions retired",
                       sleeper.arrived, sleeper.lost.count, sleeper.phantom.count + sleeper.unknown.count,
                       sleeper.out_of_order.count + sleeper.leaps.count, retired);
}

json sleeper_json(const Report& report) {
    if (!report.sleeper) return nullptr;
    json findings = json::object();
    for (const auto& line : lines_of(*report.sleeper)) findings[line.key] = line.finding->count;
    return {{"arrived", report.sleeper->arrived},
            {"copies", report.sleeper->copies},
            {"findings", findings},
            {"retired_partitions", report.retired}};
}

json latency_json(const Latency& latency) {
    return {{"events", latency.events},
            {"p50_ms", latency.p50},
            {"p99_ms", latency.p99},
            {"p999_ms", latency.p999},
            {"longest_ms", latency.longest}};
}

}  // namespace

std::string as_text(const Report& report) {
    const Judgement& judgement = report.judgement;
    std::string text;
    const auto row = [&text](const std::string& name, const std::string& value) {
        text += fmt::format("  {:<32}{}\n", name, value);
    };
    row("sink", report.sink);
    row("committed", std::to_string(judgement.committed));
    if (report.repeated > 0)
        row("published again", std::to_string(report.repeated));
    else
        row("rolled back", std::to_string(judgement.rolled_back));
    if (judgement.taken_back > 0) row("lost by the database", std::to_string(judgement.taken_back));
    row("arrived", fmt::format("{}, {} of them copies ({:.2f} %)", judgement.arrived, judgement.copies,
                               judgement.copy_rate() * 100));
    for (const auto& line : lines_of(judgement))
        row(line.name, line.judged ? std::to_string(line.finding->count) : "not promised by this broker");
    row("dead letters", std::to_string(report.dead));
    if (report.left != 0) row("not settled at the end", std::to_string(report.left));
    if (report.sleeper) row("a group that often stands still", describe(*report.sleeper, report.retired));
    row("latency p50 / p99 / p99.9", describe(judgement.calm));
    if (!report.faults.empty()) row("  with those hit by faults", describe(judgement.all));
    for (const auto& [name, count] : count_faults(report)) row("fault", fmt::format("{} x {}", count, name));
    for (const auto& line : lines_of(judgement))
        for (const auto& example : line.finding->examples)
            if (line.judged) row(line.name, example);
    if (report.sleeper)
        for (const auto& line : lines_of(*report.sleeper))
            for (const auto& example : line.finding->examples)
                if (line.judged) row(std::string("there: ") + line.name, example);
    row("seed", std::to_string(report.seed));
    return text;
}

std::string as_json(const Report& report) {
    const Judgement& judgement = report.judgement;
    json findings = json::object();
    json examples = json::object();
    for (const auto& line : lines_of(judgement)) {
        findings[line.key] = line.judged ? json(line.finding->count) : json(nullptr);
        if (line.judged && line.finding->count > 0) examples[line.key] = line.finding->examples;
    }
    return json{{"verdict", report.good() ? "good" : "bad"},
                {"sink", report.sink},
                {"seconds", report.seconds},
                {"committed", judgement.committed},
                {"rolled_back", judgement.rolled_back},
                {"taken_back", judgement.taken_back},
                {"published_again", report.repeated},
                {"arrived", judgement.arrived},
                {"copies", judgement.copies},
                {"copy_rate", judgement.copy_rate()},
                {"rewinds", judgement.rewinds},
                {"findings", findings},
                {"examples", examples},
                {"dead", report.dead},
                {"left", report.left},
                {"stopped_group", sleeper_json(report)},
                {"seed", report.seed},
                {"latency", latency_json(judgement.calm)},
                {"latency_with_faults", latency_json(judgement.all)},
                {"faults", count_faults(report)}}
        .dump(2);
}

}  // namespace baton::audit
