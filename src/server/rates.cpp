#include <algorithm>
#include <cmath>

#include "server/watch.hpp"

namespace baton::server {

namespace {

enum Whole { published, delivered, failed, lag_events, lag_seconds, dead_letters, p50, p99 };

// How much a counter grew in a second; unknown when it was set back.
double rate(double before, double now, double time) {
    return now < before || time <= 0 ? unknown : (now - before) / time;
}

// The value below which a part of the new values lies, in milliseconds, as fine as the bounds are.
double percentile(const relay::Latencies& before, const relay::Latencies& now, double part) {
    std::vector<double> counts;
    double all = 0;
    for (std::size_t i = 0; i < now.counts().size(); ++i) {
        const auto old = before.counts()[i];
        counts.push_back(now.counts()[i] >= old ? static_cast<double>(now.counts()[i] - old) : 0);
        all += counts.back();
    }
    if (all == 0) return unknown;
    double below = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        if (below + counts[i] < part * all) {
            below += counts[i];
            continue;
        }
        const auto& bounds = relay::Latencies::bounds();
        const double low = i == 0 ? 0 : bounds[i - 1];
        const double high = i < bounds.size() ? bounds[i] : bounds.back();
        return 1000 * (low + (high - low) * (part * all - below) / counts[i]);
    }
    return unknown;
}

}  // namespace

// Groups tell how far behind they are. Alone, without a relay inside, they also tell what was delivered: what
// came to the outbox less what the lag grew by.
void Rates::count_groups(const Database& database, double time, bool alone, Sample& sample) const {
    double behind = 0;
    double oldest = 0;
    double settled = 0;
    for (const auto& [name, group] : database.groups) {
        sample.groups[name] = group.lag_events;
        behind += group.lag_events;
        oldest = std::max(oldest, group.lag_seconds);
        if (!before_) continue;
        const auto found = before_->groups.find(name);
        if (found == before_->groups.end()) continue;
        const auto& then = found->second;
        settled += std::max(0.0, group.published - then.published - (group.lag_events - then.lag_events));
    }
    sample.whole[lag_events] = behind;
    sample.whole[lag_seconds] = oldest;
    sample.whole[dead_letters] = database.dead_letters;
    if (!before_) return;
    sample.whole[published] = rate(before_->published, database.published, time);
    if (alone && time > 0) sample.whole[delivered] = settled / time;
}

void Rates::count_pipelines(const std::map<std::string, Counted>& now, double time, Sample& sample) const {
    double all_delivered = 0;
    double all_failed = 0;
    relay::Latencies latency_before, latency_now;
    for (const auto& [name, counted] : now) {
        const auto found = pipelines_.find(name);
        const Counted then = found == pipelines_.end() ? Counted{} : found->second;
        const double came = rate(then.delivered, counted.delivered, time);
        const double fell = rate(then.failed, counted.failed, time);
        sample.pipelines[name] = {came, fell, percentile(then.latency, counted.latency, 0.5),
                                  percentile(then.latency, counted.latency, 0.99)};
        if (!std::isnan(came)) all_delivered += came;
        if (!std::isnan(fell)) all_failed += fell;
        latency_before += then.latency;
        latency_now += counted.latency;
    }
    sample.whole[delivered] = all_delivered;
    sample.whole[failed] = all_failed;
    sample.whole[p50] = percentile(latency_before, latency_now, 0.5);
    sample.whole[p99] = percentile(latency_before, latency_now, 0.99);
}

Sample Rates::sample(double seconds, const std::optional<Database>& database,
                     const std::optional<std::vector<relay::PipelineStatus>>& pipelines) {
    Sample sample;
    const double time = seconds - at_;
    if (database) count_groups(*database, time, !pipelines, sample);
    std::map<std::string, Counted> now;
    if (pipelines)
        for (const auto& status : *pipelines)
            now[status.name] = {
                static_cast<double>(status.counts.delivered),
                static_cast<double>(status.counts.retried + status.counts.parked + status.counts.dead),
                status.counts.latency};
    if (pipelines && began_) count_pipelines(now, time, sample);
    at_ = seconds;
    before_ = database;
    pipelines_ = std::move(now);
    began_ = true;
    return sample;
}

}  // namespace baton::server
