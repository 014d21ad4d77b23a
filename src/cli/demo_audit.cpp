#include "cli/demo_audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "audit/judge.hpp"
#include "cli/demo_screen.hpp"

namespace baton::cli {

using postgres::Connection;

namespace {

// What the log says was committed, and the numbers of its ids.
struct Log {
    audit::Facts facts;
    std::unordered_map<std::string, audit::Index> events;
};

Log read_log(Connection& db) {
    const auto rows = db.query("select event_id, aggregate_id, (payload ->> 'n')::bigint from shop.events");
    Log log;
    std::unordered_map<std::string, std::uint32_t> keys;
    for (int row = 0; row < rows.rows(); ++row) {
        const auto key = static_cast<std::uint32_t>(keys.size());
        const auto [found, is_new] = keys.try_emplace(rows.text(row, 1), key);
        if (is_new) log.facts.keys.push_back(found->first);
        log.events.emplace(rows.text(row, 0), static_cast<audit::Index>(row));
        log.facts.events.push_back(
            {found->second, rows.number<std::uint32_t>(row, 2), audit::never, audit::Fate::committed});
    }
    return log;
}

// Read the file as any consumer would.
Track audit_file(const std::filesystem::path& file, Log log) {
    audit::Facts& facts = log.facts;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        const std::string id = nlohmann::json::parse(line).at("id");
        if (const auto found = log.events.find(id); found != log.events.end())
            facts.arrived.events.push_back(found->second);
        else
            facts.arrived.strangers.add(id);
    }
    const audit::Judgement found = audit::judge(facts);
    Track track;
    track.name = "file";
    track.delivered = found.arrived;
    track.lost = found.lost.count;
    track.phantom = found.phantom.count + found.unknown.count;
    track.duplicated = found.copies;
    track.out_of_order = found.out_of_order.count + found.leaps.count;
    return track;
}

// Look at the inbox, and at what the handler made of it.
Track audit_inbox(Connection& db) {
    Track track;
    track.name = "inbox";
    const auto row = db.query(R"(
        select count(i.event_id) filter (where i.processed_at is not null),
               count(*) filter (where e.event_id is not null and i.processed_at is null),
               count(*) filter (where e.event_id is null),
               greatest((select coalesce(sum(events), 0) from shop.books) - count(i.event_id), 0),
               (select coalesce(sum(disorder), 0) from shop.last_seen)
          from shop.accounting i full join shop.events e on e.event_id::text = i.event_id)");
    track.delivered = row.number<long>(0, 0);
    track.lost = row.number<long>(0, 1);
    track.phantom = row.number<long>(0, 2);
    track.duplicated = row.number<long>(0, 3);
    track.out_of_order = row.number<long>(0, 4);
    return track;
}

bool books_balance(Connection& db) {
    return db.value(R"(
        select not exists (
            (select event_type, count(*), sum((payload ->> 'amount')::numeric) from shop.events group by event_type
             except select event_type, events, amount from shop.books)
            union all
            (select event_type, events, amount from shop.books
             except select event_type, count(*), sum((payload ->> 'amount')::numeric) from shop.events group by event_type)))") ==
           "t";
}

// Keep a copy of the revenue from its deltas, as any consumer would.
Deltas audit_revenue(Connection& db, const std::filesystem::path& file) {
    Deltas deltas;
    std::set<std::string> seen;
    std::map<std::string, long> copy;  // rows, and how often each is there
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        const auto event = nlohmann::json::parse(line);
        if (!seen.insert(event.at("id")).second) continue;
        ++deltas.arrived;
        for (const auto& row : event.at("payload").at("deleted")) --copy[row.dump()];
        for (const auto& row : event.at("payload").at("inserted")) ++copy[row.dump()];
    }
    std::erase_if(copy, [](const auto& row) { return row.second == 0; });
    std::map<std::string, long> wanted;
    const auto rows = db.query("select to_jsonb(r) from shop.revenue r");
    for (int row = 0; row < rows.rows(); ++row) ++wanted[nlohmann::json::parse(rows.text(row, 0)).dump()];
    deltas.add_up =
        copy == wanted &&
        db.value("select missing + surplus from baton.verify_stream_table('shop.revenue')") == "0";
    return deltas;
}

}  // namespace

bool Audit::passed() const {
    return committed > 0 && books_balance && revenue.arrived > 0 && revenue.add_up &&
           std::all_of(tracks.begin(), tracks.end(), [](const Track& track) { return track.clean(); });
}

Audit audit_demo(const std::string& url, const DemoFiles& files) {
    Connection db(url, "baton demo audit");
    Audit audit;
    const auto log = read_log(db);
    audit.committed = static_cast<long>(log.events.size());
    audit.tracks = {audit_file(files.events, log), audit_inbox(db)};
    audit.books_balance = books_balance(db);
    audit.revenue = audit_revenue(db, files.revenue);
    return audit;
}

Latency latency_between(const Moments& commits, const Moments& deliveries, const Pause& pause) {
    std::vector<double> times;
    const auto delivered = deliveries.all();
    for (const auto& [id, at] : commits.all()) {
        const auto found = delivered.find(id);
        if (found == delivered.end() || (at >= pause.from && at <= pause.until)) continue;
        // The sink may have it before the writer's own thread has woken up to note its commit.
        times.push_back(std::max(std::chrono::duration<double, std::milli>(found->second - at).count(), 0.0));
    }
    if (times.empty()) return {};
    std::sort(times.begin(), times.end());
    const auto at = [&times](double part) {
        return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
    };
    return {at(0.5), at(0.99)};
}

std::string describe(const Audit& audit) {
    std::string text = fmt::format("  {:<24}", "audit");
    for (const auto& track : audit.tracks) text += fmt::format("{:>12}", track.name);
    const auto row = [&](const char* name, auto value) {
        text += fmt::format("\n  {:<24}", name);
        for (const auto& track : audit.tracks) text += fmt::format("{:>12}", value(track));
    };
    row("committed", [&](const Track&) { return grouped(audit.committed); });
    row("delivered", [](const Track& track) { return grouped(track.delivered); });
    row("lost", [](const Track& track) { return grouped(track.lost); });
    row("rolled back, yet seen", [](const Track& track) { return grouped(track.phantom); });
    row("duplicated", [](const Track& track) { return grouped(track.duplicated); });
    row("out of order", [](const Track& track) { return grouped(track.out_of_order); });
    row("commit to delivery p50",
        [](const Track& track) { return fmt::format("{:.1f} ms", track.latency.p50); });
    row("                   p99",
        [](const Track& track) { return fmt::format("{:.1f} ms", track.latency.p99); });
    text += fmt::format("\n  {:<24}{:>24}", "books of the handler",
                        audit.books_balance ? "each event once" : "do not balance");
    const std::string deltas = grouped(audit.revenue.arrived) + " deltas, ";
    return text + fmt::format("\n  {:<24}{:>24}\n", "revenue per product",
                              deltas + (audit.revenue.add_up ? "equal" : "not equal"));
}

}  // namespace baton::cli
