#include "cli/database_watch.hpp"

#include <nlohmann/json.hpp>

#include "assembly/catalog.hpp"
#include "postgres/doorbell.hpp"
#include "relay/config.hpp"

namespace baton::cli {

using namespace std::chrono_literals;
using postgres::Connection;
using postgres::Patience;
using relay::Settings;

namespace {

constexpr auto look_interval = 1s;
// The catalog is small: a database that takes longer is in trouble.
constexpr auto look_limit = 5s;
constexpr auto health_limit = 20s;
// A database that takes long for its metrics is no reason to say nothing.
constexpr auto oldest_answer = 60s;
constexpr auto lead_lease = 30s;
// Who has not asked for metrics for so long has gone.
constexpr auto asked_interval = 5min;
constexpr auto leave_limit = 1s;

}  // namespace

DatabaseWatch::DatabaseWatch(std::string db, std::string owner, const Log& log, RelayNotes::Sources notes)
    : db_(std::move(db)),
      owner_(std::move(owner)),
      log_(log),
      notes_(owner_, log, std::move(notes)),
      looking_(std::make_shared<Patience>(look_limit)),
      working_(std::make_shared<Patience>(Patience::long_work)),
      reader_(owner_),
      groups_(db_, "baton relay groups", health_limit,
              [](Connection& asked) { return server::read_lags(asked); }),
      metrics_(db_, "baton relay metrics", health_limit,
               [this](Connection& asked) { return ask_for_metrics(asked); }) {
    threads_.emplace_back([this](const std::stop_token& stop) { look_on(stop); });
    threads_.emplace_back([this](const std::stop_token& stop) { run_jobs_on(stop); });
}

DatabaseWatch::~DatabaseWatch() {
    request_stop();
}

void DatabaseWatch::request_stop() {
    for (const auto& patience : {looking_, working_}) patience->end_by(Clock::now());
    groups_.request_stop();
    metrics_.request_stop();
    for (auto& thread : threads_) thread.request_stop();
}

std::optional<std::vector<Settings>> DatabaseWatch::take_changes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(catalog_, std::nullopt);
}

std::string DatabaseWatch::trouble() const {
    const std::lock_guard lock(mutex_);
    if (!error_.empty()) return error_;
    const auto silence = Clock::now() - answered_at_;
    if (answered_ && silence < look_interval + look_limit) return {};
    return (answered_ ? "has not answered for " : "has not answered yet, for ") + postgres::in_words(silence);
}

void DatabaseWatch::note_answer() {
    const std::lock_guard lock(mutex_);
    if (!error_.empty()) log_.info("the database is back");
    error_.clear();
    answered_ = true;
    answered_at_ = Clock::now();
}

void DatabaseWatch::note_failure(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (error_.empty()) log_.warn("the database does not answer", {{"reason", why}});
    error_ = why;
}

// Follow the catalog; while the database is away the pipelines try by themselves.
void DatabaseWatch::look_on(const std::stop_token& stop) {
    std::optional<Connection> db;
    std::string state = "unknown";
    while (!stop.stop_requested()) {
        try {
            look(db, state);
        } catch (const std::exception& error) {
            if (stop.stop_requested()) break;
            note_failure(error.what());
            db.reset();
        }
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, stop, look_interval, [] { return false; });
    }
    leave();
}

// A pooler would give the session that listens to others, and a server in recovery does not let anybody
// listen: alerts are not counted there.
void DatabaseWatch::listen(Connection& db) {
    if (!postgres::is_pooled(db) && db.value("select pg_is_in_recovery()") == "f")
        db.exec("listen baton_alert");
}

void DatabaseWatch::look(std::optional<Connection>& db, std::string& state) {
    if (!db || !db->alive()) {
        db.emplace(db_, "baton relay", looking_);
        listen(*db);
        notes_.begin(postgres::is_pooled(*db));
    }
    const auto asked = Clock::now();
    const auto seen = db->value(
        "select coalesce(string_agg(name || '/' || revision || '/' || enabled, ',' order by name), '') "
        "from baton.pipelines");
    const std::chrono::duration<double> round_trip = Clock::now() - asked;
    if (seen != state) {
        auto catalog = assembly::read_catalog(*db);
        state = seen;
        const std::lock_guard lock(mutex_);
        catalog_ = std::move(catalog);
    }
    db->query("select baton_internal.cancel_long_refresh()");
    const bool due = jobs_are_due(*db);
    keep_lead(*db);
    count_alerts(*db);
    notes_.write(*db);
    note_answer();
    const std::lock_guard lock(mutex_);
    round_trips_.add(round_trip.count());
    if (!due) return;
    jobs_wanted_ = true;
    changed_.notify_all();
}

// Jobs that nobody has run although they are due: there is no worker, so the leader among the relays runs
// them.
bool DatabaseWatch::jobs_are_due(Connection& db) const {
    if (db.value("select coalesce(baton_internal.next_job_due() < clock_timestamp() - interval '3 seconds', "
                 "false)") != "t")
        return false;
    return db.value("select baton_internal.take_lead($1)", {owner_}) == "t";
}

void DatabaseWatch::run_jobs_on(const std::stop_token& stop) {
    std::optional<Connection> db;
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return jobs_wanted_; })) {
        lock.unlock();
        std::string why;
        try {
            run_jobs(db);
        } catch (const std::exception& error) {
            why = error.what();
            db.reset();
        }
        lock.lock();
        jobs_wanted_ = false;
        if (!why.empty() && why != jobs_error_ && !stop.stop_requested())
            log_.warn("the jobs could not be run", {{"reason", why}});
        jobs_error_ = why;
    }
}

void DatabaseWatch::run_jobs(std::optional<Connection>& db) {
    if (!db || !db->alive()) db.emplace(db_, "baton relay jobs", working_);
    db->exec("call baton.run_due_jobs()");
}

// Take or keep the lead among the relays that are asked for metrics. The lease counts from before the
// question, so it ends here before another relay can have it.
bool DatabaseWatch::take_lead(Connection& db) {
    const auto asked = Clock::now();
    const bool leads = db.value("select baton_internal.take_lead($1, $2::interval, 'metrics')",
                                {owner_, std::to_string(lead_lease.count()) + " s"}) == "t";
    const std::lock_guard lock(mutex_);
    lead_taken_at_ = asked;
    leads_until_ = leads ? asked + lead_lease : Clock::time_point{};
    return leads;
}

// Between two questions for metrics the lead is kept, for as long as such questions come.
void DatabaseWatch::keep_lead(Connection& db) {
    {
        const std::lock_guard lock(mutex_);
        const auto now = Clock::now();
        if (now >= leads_until_ || now < lead_taken_at_ + lead_lease / 3 ||
            now > asked_for_metrics_at_ + asked_interval)
            return;
    }
    take_lead(db);
}

// Let another relay lead at once, and say nothing more about pipelines.
void DatabaseWatch::leave() {
    bool leads = false;
    {
        const std::lock_guard lock(mutex_);
        leads = Clock::now() < leads_until_;
    }
    if (!leads && !notes_.wrote()) return;
    try {
        const auto patience = std::make_shared<Patience>(leave_limit);
        patience->end_by(Clock::now() + leave_limit);
        Connection db(db_, "baton relay", patience);
        if (leads) db.query("select baton_internal.leave_lead($1)", {owner_});
        if (notes_.wrote()) notes_.end(db);
    } catch (const Error&) {  // leases end by themselves
        return;
    }
}

server::DatabaseAnswers DatabaseWatch::ask_for_metrics(Connection& db) {
    {
        const std::lock_guard lock(mutex_);
        asked_for_metrics_at_ = Clock::now();
    }
    bool leads = false;
    try {
        leads = take_lead(db);
    } catch (const SqlError& error) {  // a role without the right, or a server that only reads
        log_.write(LogLevel::debug, "the lead for metrics cannot be taken", {{"reason", error.what()}});
    }
    return reader_.read(db, leads);
}

// Alerts are told once, however many relays hear them: by the leader.
void DatabaseWatch::count_alerts(Connection& db) {
    for (const auto& heard : db.take_notifications()) {
        const auto alert = nlohmann::json::parse(heard.payload, nullptr, false);
        const bool named = alert.is_object() && alert.contains("event") && alert["event"].is_string();
        std::string event = named ? alert["event"].get<std::string>() : "other";
        const std::lock_guard lock(mutex_);
        if (Clock::now() >= leads_until_) continue;
        // Anybody may send on the channel: a bounded number of names is counted one by one.
        const bool known = alerts_.contains(event) || (alerts_.size() < 50 && event.size() <= 100);
        ++alerts_[known ? event : "other"];
    }
}

std::vector<server::GroupLag> DatabaseWatch::groups() {
    const auto outcome = groups_.get(0s);
    if (!outcome.error.empty()) throw Error(outcome.error);
    return *outcome.answer;
}

server::DatabaseView DatabaseWatch::view() {
    const auto outcome = metrics_.get(1s);
    server::DatabaseView view;
    view.up = trouble().empty() && !outcome.failed;
    const std::lock_guard lock(mutex_);
    view.round_trips = round_trips_;
    view.alerts = alerts_;
    view.leads = Clock::now() < leads_until_;
    // What a former leader knew, another relay tells by now.
    const bool ours = outcome.answer && outcome.answer->leads == view.leads;
    if (view.up && ours && outcome.age < oldest_answer) view.answers = *outcome.answer;
    return view;
}

}  // namespace baton::cli
