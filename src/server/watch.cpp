#include "server/watch.hpp"

#include <cmath>

#include "operations/catalog.hpp"
#include "postgres/doorbell.hpp"

namespace baton::server {

using namespace std::chrono_literals;
using postgres::Connection;
using postgres::Patience;

namespace {

constexpr auto watched_interval = 2s;
constexpr auto history_interval = 10s;
// The server ends a question that takes long. A server that says nothing at all for longer hangs.
constexpr const char* question_limit = "4s";
constexpr auto silence_limit = 8s;
constexpr auto connect_limit = 3s;
constexpr std::size_t most_alerts = 200;

constexpr const char* numbers_sql = R"sql(
    select (select coalesce(sum(t.events_published), 0) from baton.throughput t),
           (select coalesce(sum(d.dead_letters), 0) from baton.dead_letter_depth d),
           l.group_name, coalesce(l.lag_rows, 0), coalesce(l.lag_seconds, 0)::float8, coalesce(t.events_published, 0)
      from (select 1) one
      left join (baton.group_lag l
                 join baton.consumer_groups g using (group_name)
                 join baton.outboxes o using (outbox_id)
                 left join baton.throughput t on t.outbox = o.relation::text) on true
     order by 3)sql";

double seconds_of(const std::chrono::steady_clock::time_point& time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
}

long long epoch_now() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string dumped(const operations::Json& json) {
    return json.dump(-1, ' ', false, operations::Json::error_handler_t::replace);
}

operations::Json number(double value) {
    if (!std::isfinite(value)) return nullptr;
    return std::round(value * 1000) / 1000;
}

// Anybody may send on the channel: what is no alert is shown as words.
operations::Json alert_of(const std::string& payload) {
    auto detail = operations::Json::parse(payload, nullptr, false);
    operations::Json alert{{"at", nullptr}, {"event", "other"}, {"object", nullptr}};
    if (!detail.is_object()) {
        alert["detail"] = {{"text", payload}};
        return alert;
    }
    for (const char* name : {"at", "event", "object"}) {
        const auto found = detail.find(name);
        if (found == detail.end()) continue;
        if (found->is_string()) alert[name] = *found;
        detail.erase(found);
    }
    alert["detail"] = std::move(detail);
    return alert;
}

}  // namespace

Watch::Watch(std::string db, Listeners listeners)
    : db_(std::move(db)),
      listeners_(std::move(listeners)),
      patience_(std::make_shared<Patience>(silence_limit)),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

Watch::~Watch() {
    patience_->end_by(Clock::now());
    thread_.request_stop();
}

void Watch::work(const std::stop_token& stop) {
    std::optional<Connection> db;
    while (!stop.stop_requested()) {
        const auto began = Clock::now();
        try {
            look(db);
            set_trouble({});
        } catch (const std::exception& error) {
            if (stop.stop_requested()) break;
            db.reset();
            set_trouble(error.what());
            const auto relay = listeners_.relay();
            note(rates_.sample(seconds_of(Clock::now()), std::nullopt,
                               relay ? std::optional(relay->pipelines) : std::nullopt));
        }
        // Between two looks only alerts are of interest; a page that opens ends the rest.
        const bool watched = listeners_.somebody_watches();
        const auto until = began + interval();
        while (!stop.stop_requested() && Clock::now() < until && listeners_.somebody_watches() == watched) {
            if (!db) {
                std::unique_lock lock(mutex_);
                changed_.wait_for(lock, stop, 200ms, [] { return false; });
                continue;
            }
            try {
                if (db->wait_readable(200ms)) hear(*db);
            } catch (const std::exception&) {
                db.reset();
                break;
            }
        }
    }
}

// A database that takes long is asked less often.
Watch::Clock::duration Watch::interval() const {
    const Clock::duration usual = listeners_.somebody_watches() ? watched_interval : history_interval;
    const std::lock_guard lock(mutex_);
    if (!trouble_.empty()) return watched_interval;
    return std::max(usual, std::min<Clock::duration>(10 * took_, 30s));
}

void Watch::look(std::optional<Connection>& db) {
    if (!db || !db->alive()) {
        patience_->lasts_until(Clock::now() + connect_limit);
        db.emplace(db_, "baton api watch", patience_);
        patience_->lasts_until(Clock::time_point::max());
        if (!postgres::is_pooled(*db) && db->value("select pg_is_in_recovery()") == "f")
            db->exec("listen baton_alert");
    }
    const auto began = Clock::now();
    std::optional<Rates::Database> numbers;
    try {
        numbers = read_numbers(*db);
        if (listeners_.somebody_watches()) read_overview(*db);
    } catch (const SqlError&) {  // it answers, though not to this: no right, too slow, or no baton yet
        db->query("select 1");
    }
    hear(*db);
    const auto relay = listeners_.relay();
    note(rates_.sample(seconds_of(Clock::now()), numbers,
                       relay ? std::optional(relay->pipelines) : std::nullopt));
    const std::lock_guard lock(mutex_);
    took_ = Clock::now() - began;
}

Rates::Database Watch::read_numbers(Connection& db) const {
    postgres::Transaction reading(db, std::string("begin read only; set local statement_timeout = '") +
                                          question_limit +
                                          "'; set local lock_timeout = '1s'; set local jit = off");
    const auto rows = db.query(numbers_sql);
    reading.commit();
    Rates::Database numbers;
    for (int row = 0; row < rows.rows(); ++row) {
        numbers.published = rows.number<double>(row, 0);
        numbers.dead_letters = rows.number<double>(row, 1);
        if (rows.is_null(row, 2)) continue;
        numbers.groups[rows.text(row, 2)] = {rows.number<double>(row, 3), rows.number<double>(row, 4),
                                             rows.number<double>(row, 5)};
    }
    return numbers;
}

void Watch::read_overview(Connection& db) {
    static const auto overview = [] {
        auto operation = operations::find("overview");
        operation.limit = 4s;
        return operation;
    }();
    std::string answer = operations::run(overview, db, Json::object(), "the dashboard");
    const std::lock_guard lock(mutex_);
    overview_ = std::move(answer);
}

void Watch::note(const Sample& sample) {
    history_.add(epoch_now(), sample);
    const std::lock_guard lock(mutex_);
    last_ = sample;
}

void Watch::hear(Connection& db) {
    for (const auto& heard : db.take_notifications()) {
        Json alert = alert_of(heard.payload);
        if (alert["at"].is_null()) alert["at"] = Json::parse(db.value("select to_json(clock_timestamp())"));
        listeners_.on_alert(dumped(alert));
        const std::lock_guard lock(mutex_);
        alerts_.push_front(std::move(alert));
        if (alerts_.size() > most_alerts) alerts_.pop_back();
    }
}

void Watch::set_trouble(const std::string& why) {
    {
        const std::lock_guard lock(mutex_);
        trouble_ = why;
        if (!why.empty()) overview_ = "null";
    }
    listeners_.on_trouble(why);
}

Watch::Json Watch::relay() const {
    const auto now = listeners_.relay();
    if (!now)
        return {{"name", nullptr},
                {"pipelines", Json::array()},
                {"ready", true},
                {"reasons", Json::array()},
                {"started_at", nullptr}};
    Json pipelines = Json::array();
    const std::lock_guard lock(mutex_);
    for (const auto& status : now->pipelines) {
        const auto known = last_.pipelines.find(status.name);
        const bool found = known != last_.pipelines.end();
        pipelines.push_back({{"pipeline", status.name},
                             {"group", status.group.empty() ? Json(nullptr) : Json(status.group)},
                             {"state", relay::name_of(status.state)},
                             {"detail", status.detail},
                             {"trouble", status.trouble},
                             {"delivered", status.counts.delivered},
                             {"failed", status.counts.retried + status.counts.parked + status.counts.dead},
                             {"buffered", status.buffered},
                             {"p50_ms", number(found ? known->second[2] : unknown)},
                             {"p99_ms", number(found ? known->second[3] : unknown)}});
    }
    return {{"name", now->name},
            {"pipelines", std::move(pipelines)},
            {"ready", now->reasons.empty()},
            {"reasons", now->reasons},
            {"started_at", now->started_at}};
}

Watch::Json Watch::alerts() const {
    const std::lock_guard lock(mutex_);
    Json items = Json::array();
    for (const auto& alert : alerts_) items.push_back(alert);
    return {{"items", std::move(items)}};
}

std::string Watch::tick() const {
    const std::string inside = dumped(relay());
    const std::lock_guard lock(mutex_);
    const Json database{{"answers", trouble_.empty()}, {"trouble", trouble_}};
    return "{\"at\": " + std::to_string(epoch_now()) + ", \"database\": " + dumped(database) +
           ", \"overview\": " + overview_ + ", \"relay\": " + inside +
           ", \"sample\": " + dumped(as_json(last_.whole)) + "}";
}

}  // namespace baton::server
