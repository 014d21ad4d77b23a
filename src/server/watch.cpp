#include "server/watch.hpp"

#include <algorithm>
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

constexpr const char* noted_sql = R"sql(
    select p.relay, p.pipeline, coalesce(p.group_name, ''), p.state, coalesce(p.detail, ''), coalesce(p.trouble, ''), p.delivered, p.failed, p.buffered,
           array_to_json(p.latency), extract(epoch from p.began)::float8, extract(epoch from p.noted_at)::float8
      from baton.relay_pipelines p order by 1, 2 limit 1000)sql";

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

// Buckets of another size are of a relay of another version: then its percentiles are not known.
Buckets buckets_of(const std::string& counts) {
    Buckets buckets{};
    const auto all = operations::Json::parse(counts);
    const auto counts_something = [](const auto& count) { return count.is_number_unsigned(); };
    if (all.size() == buckets.size() && std::ranges::all_of(all, counts_something))
        std::ranges::copy(all, buckets.begin());
    return buckets;
}

std::vector<NotedPipeline> read_noted(Connection& db) {
    std::vector<NotedPipeline> all;
    const auto rows = db.query(noted_sql);
    for (int row = 0; row < rows.rows(); ++row)
        all.push_back({rows.text(row, 0), rows.text(row, 1), rows.text(row, 2), rows.text(row, 3),
                       rows.text(row, 4), rows.text(row, 5), rows.number<double>(row, 6),
                       rows.number<double>(row, 7), rows.number<double>(row, 8),
                       buckets_of(rows.text(row, 9)), rows.number<double>(row, 10),
                       rows.number<double>(row, 11)});
    return all;
}

// The pipelines of the relay inside, in the form of those that others noted.
std::vector<NotedPipeline> as_noted(const RelayNow& relay) {
    std::vector<NotedPipeline> all;
    for (const auto& status : relay.pipelines) {
        NotedPipeline one;
        one.relay = relay.name;
        one.pipeline = status.name;
        one.group = status.group;
        one.state = relay::name_of(status.state);
        one.detail = status.detail;
        one.trouble = status.trouble;
        one.delivered = static_cast<double>(status.counts.delivered);
        one.failed = static_cast<double>(status.counts.retried + status.counts.parked + status.counts.dead);
        one.buffered = static_cast<double>(status.buffered);
        std::ranges::copy(status.counts.latency.counts(), one.latency.begin());
        all.push_back(std::move(one));
    }
    return all;
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
            note(std::nullopt);
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
    note(numbers);
    const std::lock_guard lock(mutex_);
    took_ = Clock::now() - began;
}

Rates::Database Watch::read_numbers(Connection& db) const {
    postgres::Transaction reading(db, std::string("begin read only; set local statement_timeout = '") +
                                          question_limit +
                                          "'; set local lock_timeout = '1s'; set local jit = off");
    const auto rows = db.query(numbers_sql);
    Rates::Database numbers;
    numbers.noted = read_noted(db);
    numbers.now = db.query("select extract(epoch from clock_timestamp())::float8").number<double>(0, 0);
    reading.commit();
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

void Watch::note(const std::optional<Rates::Database>& numbers) {
    const auto relay = listeners_.relay();
    const auto inside = relay ? std::optional(Rates::Inside{relay->name, as_noted(*relay)}) : std::nullopt;
    Sample sample = rates_.sample(seconds_of(Clock::now()), numbers, inside);
    history_.add(epoch_now(), sample);
    const std::lock_guard lock(mutex_);
    last_ = std::move(sample);
    flows_ = rates_.flows();
    noted_ = numbers ? numbers->noted : std::vector<NotedPipeline>{};
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

std::vector<Watch::Json> Watch::with_rates(const std::vector<NotedPipeline>& pipelines) const {
    std::vector<Json> all;
    const std::lock_guard lock(mutex_);
    for (const auto& one : pipelines) {
        const auto flow = flows_.find({one.relay, one.pipeline});
        PipelineValues values{unknown, unknown, unknown, unknown};
        if (flow != flows_.end()) values = flow->second.values();
        all.push_back({{"pipeline", one.pipeline},
                       {"group", one.group.empty() ? Json(nullptr) : Json(one.group)},
                       {"state", one.state},
                       {"detail", one.detail},
                       {"trouble", one.trouble},
                       {"delivered", static_cast<std::uint64_t>(one.delivered)},
                       {"failed", static_cast<std::uint64_t>(one.failed)},
                       {"buffered", static_cast<std::uint64_t>(one.buffered)},
                       {"p50_ms", number(values[2])},
                       {"p99_ms", number(values[3])}});
    }
    return all;
}

Watch::Json Watch::relay() const {
    const auto now = listeners_.relay();
    if (!now)
        return {{"name", nullptr},
                {"pipelines", Json::array()},
                {"ready", true},
                {"reasons", Json::array()},
                {"started_at", nullptr}};
    return {{"name", now->name},
            {"pipelines", with_rates(as_noted(*now))},
            {"ready", now->reasons.empty()},
            {"reasons", now->reasons},
            {"started_at", now->started_at}};
}

Watch::Json Watch::relays() const {
    const auto inside = listeners_.relay();
    auto pipelines = inside ? as_noted(*inside) : std::vector<NotedPipeline>{};
    {
        const std::lock_guard lock(mutex_);
        for (const auto& one : noted_)
            if (!inside || one.relay != inside->name) pipelines.push_back(one);
    }
    Json items = Json::array();
    const auto shown = with_rates(pipelines);
    for (std::size_t i = 0; i < pipelines.size(); ++i) {
        items.push_back({{"relay", pipelines[i].relay}});
        items.back().update(shown[i]);
    }
    return {{"items", std::move(items)}};
}

Watch::Json Watch::alerts() const {
    const std::lock_guard lock(mutex_);
    Json items = Json::array();
    for (const auto& alert : alerts_) items.push_back(alert);
    return {{"items", std::move(items)}};
}

std::string Watch::tick() const {
    const std::string inside = dumped(relay());
    const std::string all_pipelines = dumped(relays()["items"]);
    const std::lock_guard lock(mutex_);
    const Json database{{"answers", trouble_.empty()}, {"trouble", trouble_}};
    return "{\"at\": " + std::to_string(epoch_now()) + ", \"database\": " + dumped(database) +
           ", \"overview\": " + overview_ + ", \"relay\": " + inside + ", \"pipelines\": " + all_pipelines +
           ", \"sample\": " + dumped(as_json(last_.whole)) + "}";
}

}  // namespace baton::server
