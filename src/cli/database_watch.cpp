#include "cli/database_watch.hpp"
#include "assembly/catalog.hpp"

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
// How long an endpoint waits for a look at the groups.
constexpr auto endpoint_limit = 1s;

}  // namespace

DatabaseWatch::DatabaseWatch(std::string db, std::string owner, const Log& log)
    : db_(std::move(db)),
      owner_(std::move(owner)),
      log_(log),
      looking_(std::make_shared<Patience>(look_limit)),
      checking_(std::make_shared<Patience>(health_limit)),
      working_(std::make_shared<Patience>(Patience::long_work)) {
    threads_.emplace_back([this](const std::stop_token& stop) { look_on(stop); });
    threads_.emplace_back([this](const std::stop_token& stop) { check_health_on(stop); });
    threads_.emplace_back([this](const std::stop_token& stop) { run_jobs_on(stop); });
}

DatabaseWatch::~DatabaseWatch() {
    request_stop();
}

void DatabaseWatch::request_stop() {
    for (const auto& patience : {looking_, checking_, working_}) patience->end_by(Clock::now());
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
            if (stop.stop_requested()) return;
            note_failure(error.what());
            db.reset();
        }
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, stop, look_interval, [] { return false; });
    }
}

void DatabaseWatch::look(std::optional<Connection>& db, std::string& state) {
    if (!db || !db->alive()) db.emplace(db_, "baton relay", looking_);
    const auto seen = db->value(
        "select coalesce(string_agg(name || '/' || revision || '/' || enabled, ',' order by name), '') "
        "from baton.pipelines");
    if (seen != state) {
        auto catalog = assembly::read_catalog(*db);
        state = seen;
        const std::lock_guard lock(mutex_);
        catalog_ = std::move(catalog);
    }
    const bool due = jobs_are_due(*db);
    note_answer();
    if (!due) return;
    const std::lock_guard lock(mutex_);
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

void DatabaseWatch::check_health_on(const std::stop_token& stop) {
    std::optional<Connection> db;
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop,
                         [this] { return health_wanted_ > std::max(health_at_, health_failed_at_); })) {
        const auto asked = Clock::now();
        checking_since_ = asked;
        lock.unlock();
        std::vector<server::GroupHealth> found;
        std::string why;
        try {
            if (!db || !db->alive()) db.emplace(db_, "baton relay health", checking_);
            found = server::read_groups(*db);
        } catch (const std::exception& error) {
            why = error.what();
            db.reset();
        }
        lock.lock();
        checking_since_.reset();
        (why.empty() ? health_at_ : health_failed_at_) = asked;
        if (why.empty()) health_ = std::move(found);
        health_error_ = why;
        changed_.notify_all();
    }
}

std::vector<server::GroupHealth> DatabaseWatch::groups(Clock::duration age) {
    std::unique_lock lock(mutex_);
    const auto now = Clock::now();
    const auto oldest = now - age;
    health_wanted_ = std::max(health_wanted_, oldest);
    changed_.notify_all();
    // A look that is under way for long says enough: nobody waits for another.
    const bool stuck = checking_since_ && now - *checking_since_ > endpoint_limit;
    if (!stuck)
        changed_.wait_for(lock, endpoint_limit,
                          [&] { return health_at_ >= oldest || health_failed_at_ >= oldest; });
    if (health_at_ >= oldest) return health_;
    if (health_failed_at_ >= oldest) throw Error(health_error_);
    throw Error("the database has not answered for " +
                postgres::in_words(Clock::now() - checking_since_.value_or(now)));
}

}  // namespace baton::cli
