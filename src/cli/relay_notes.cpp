#include "cli/relay_notes.hpp"

#include <algorithm>

#include "baton/error.hpp"

namespace baton::cli {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

std::string dumped(const json& all) {
    return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string in_seconds(std::chrono::seconds time) {
    return std::to_string(time.count()) + " s";
}

std::uint64_t failed(const relay::Counts& counts) {
    return counts.retried + counts.parked + counts.dead;
}

}  // namespace

PipelineNotes::Known PipelineNotes::known(const relay::PipelineStatus& status, Time began) {
    return {began, status.state, !status.trouble.empty(), status.counts.delivered + failed(status.counts)};
}

bool PipelineNotes::due(const Pipelines& now, Time at) {
    if (lost_) return true;
    if (now.empty() && known_.empty()) return false;
    if (at - written_at_ >= pause || now.size() != known_.size()) return true;
    return !std::ranges::all_of(now, [this](const auto& status) {
        const auto found = known_.find(status.name);
        return found != known_.end() && found->second.state == status.state &&
               found->second.troubled == !status.trouble.empty();
    });
}

json PipelineNotes::written(const Pipelines& now, Time at) {
    std::map<std::string, Known> known_now;
    json all = json::array();
    for (const auto& status : now) {
        Known known_status = known(status, at);
        // A pipeline that has counted less than before was made anew since.
        if (const auto found = known_.find(status.name); found != known_.end())
            known_status.began =
                known_status.settled < found->second.settled ? written_at_ : found->second.began;
        const std::chrono::duration<double> counting = at - known_status.began;
        all.push_back({{"pipeline", status.name},
                       {"group", status.group},
                       {"state", relay::name_of(status.state)},
                       {"detail", status.detail},
                       {"trouble", status.trouble},
                       {"delivered", status.counts.delivered},
                       {"failed", failed(status.counts)},
                       {"buffered", status.buffered},
                       {"latency", status.counts.latency.counts()},
                       {"seconds", counting.count()}});
        known_now.emplace(status.name, known_status);
    }
    known_ = std::move(known_now);
    written_at_ = at;
    lost_ = false;
    return all;
}

RelayNotes::RelayNotes(std::string owner, const Log& log, Sources sources)
    : owner_(std::move(owner)), log_(log), sources_(std::move(sources)) {}

void RelayNotes::begin(bool pooled) {
    troubles_.forget();
    pipelines_.forget();
    leased_ = pooled;
}

void RelayNotes::write(postgres::Connection& db) {
    attempt([&] { write_troubles(db); });
    attempt([&] { write_pipelines(db); });
}

// A role without the right, or a server that only reads, is no reason to stop anything.
void RelayNotes::attempt(const std::function<void()>& writing) {
    try {
        writing();
    } catch (const SqlError& error) {
        log_.write(LogLevel::debug, "the relay cannot note how it is", {{"reason", error.what()}});
    }
}

void RelayNotes::write_troubles(postgres::Connection& db) {
    const auto due = troubles_.due(sources_.troubles(), Clock::now(), leased_);
    if (!due) return;
    auto all = json::array();
    for (const auto& one : *due)
        all.push_back(
            {{"pipeline", one.pipeline}, {"group", one.group}, {"state", one.state}, {"trouble", one.words}});
    troubles_.written(*due, Clock::now());
    db.query("select baton_internal.note_troubles($1, $2::jsonb, $3::interval)",
             {owner_, dumped(all),
              leased_ ? postgres::Param(in_seconds(TroubleNotes::lease)) : postgres::Param(nullptr)});
}

void RelayNotes::write_pipelines(postgres::Connection& db) {
    const auto now = sources_.pipelines();
    if (!pipelines_.due(now, Clock::now())) return;
    const auto all = pipelines_.written(now, Clock::now());
    if (all.empty() && !wrote_) return;
    db.query("select baton_internal.note_pipelines($1, $2::jsonb, $3::interval)",
             {owner_, dumped(all), in_seconds(PipelineNotes::lease)});
    wrote_ = !all.empty();
}

void RelayNotes::end(postgres::Connection& db) {
    db.query("select baton_internal.note_pipelines($1, '[]')", {owner_});
    wrote_ = false;
}

}  // namespace baton::cli
