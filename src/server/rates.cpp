#include "server/rates.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace baton::server {

namespace {

enum Whole { published, delivered, failed, lag_events, lag_seconds, dead_letters, p50, p99 };

// A relay notes its pipelines at least that often, in seconds; see PipelineNotes.
constexpr double note_interval = 5;
// For so long a relay that noted nothing may come back and go on counting.
constexpr double longest_silence = 600;

// How much a counter grew in a second; unknown when it was set back.
double rate(double before, double now, double time) {
    return now < before || time <= 0 ? unknown : (now - before) / time;
}

// The value below which a part of the values lies, in milliseconds, as fine as the bounds are.
double percentile(const Buckets& counts, double part) {
    const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
    if (all <= 0) return unknown;
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

Rates::Flow& Rates::Flow::operator+=(const Flow& other) {
    delivered += other.delivered;
    failed += other.failed;
    for (std::size_t i = 0; i < latency.size(); ++i) latency[i] += other.latency[i];
    return *this;
}

PipelineValues Rates::Flow::values() const {
    return {delivered, failed, percentile(latency, 0.5), percentile(latency, 0.99)};
}

// A pipeline that has counted less than before began anew: all that it counted is new.
Rates::Flow Rates::flow(Counted before, const Counted& now, double time) {
    if (now.delivered < before.delivered || now.failed < before.failed) before = Counted{};
    Flow flow{(now.delivered - before.delivered) / time, (now.failed - before.failed) / time, {}};
    for (std::size_t i = 0; i < now.latency.size(); ++i)
        flow.latency[i] = std::max(0.0, now.latency[i] - before.latency[i]) / time;
    return flow;
}

void Rates::follow(const Inside& inside, double time) {
    std::map<std::string, Counted> now;
    for (const auto& one : inside.pipelines) {
        const Counted counted{one.delivered, one.failed, one.latency};
        const auto before = inside_.find(one.pipeline);
        if (began_ && time > 0)
            flows_[{inside.relay, one.pipeline}] =
                flow(before == inside_.end() ? Counted{} : before->second, counted, time);
        now[one.pipeline] = counted;
    }
    inside_ = std::move(now);
}

// A rate holds from one note to the next. Who is not in the notes any more has no rate; what it had counted
// is kept for a while, for a relay that was frozen. The relay inside is known better.
void Rates::follow(const Database& database, const std::string& but_for) {
    for (const auto& one : database.noted) {
        if (one.relay == but_for) continue;
        const Key key{one.relay, one.pipeline};
        const Counted counted{one.delivered, one.failed, one.latency};
        const auto found = noted_.find(key);
        if (found == noted_.end()) {
            // Who began before somebody looked has counted what nobody knows the time of.
            const bool is_new = looked_at_ > 0 && one.began > looked_at_ - 2 * note_interval;
            Noted fresh{counted, one.noted_at, {}};
            if (is_new)
                fresh.flow =
                    flow({}, counted, std::max({1.0, one.noted_at - one.began, database.now - looked_at_}));
            noted_.emplace(key, std::move(fresh));
        } else if (auto& known = found->second; one.noted_at > known.noted_at) {
            known = {counted, one.noted_at, flow(known.counted, counted, one.noted_at - known.noted_at)};
        }
        if (const auto& known = noted_[key].flow) flows_[key] = *known;
    }
    std::erase_if(noted_,
                  [&](const auto& entry) { return entry.second.noted_at < database.now - longest_silence; });
    looked_at_ = database.now;
}

void Rates::count_groups(const Database& database, double time, const std::set<std::string>& read_by_relays,
                         Sample& sample) const {
    double behind = 0;
    double oldest = 0;
    double settled = 0;
    bool read_by_others = false;
    for (const auto& [name, group] : database.groups) {
        sample.groups[name] = group.lag_events;
        behind += group.lag_events;
        oldest = std::max(oldest, group.lag_seconds);
        if (!before_ || read_by_relays.contains(name)) continue;
        const auto found = before_->groups.find(name);
        if (found == before_->groups.end()) continue;
        const auto& then = found->second;
        read_by_others = true;
        settled += std::max(0.0, group.published - then.published - (group.lag_events - then.lag_events));
    }
    sample.whole[lag_events] = behind;
    sample.whole[lag_seconds] = oldest;
    sample.whole[dead_letters] = database.dead_letters;
    if (!before_) return;
    sample.whole[published] = rate(before_->published, database.published, time);
    // Where relays run, and how fast is not known yet, a part would look like the whole.
    const bool relays_unknown = flows_.empty() && !database.noted.empty();
    if (!read_by_others || time <= 0 || relays_unknown) return;
    double& all = sample.whole[delivered];
    all = (std::isnan(all) ? 0 : all) + settled / time;
}

void Rates::sum_up(Sample& sample, bool counted) const {
    if (flows_.empty() && !counted) return;
    Flow all;
    std::map<std::string, Flow> pipelines;  // that several relays may run
    for (const auto& [key, one] : flows_) {
        all += one;
        pipelines[key.second] += one;
    }
    for (const auto& [name, one] : pipelines) sample.pipelines[name] = one.values();
    const auto values = all.values();
    sample.whole[delivered] = values[0];
    sample.whole[failed] = values[1];
    sample.whole[p50] = values[2];
    sample.whole[p99] = values[3];
}

Sample Rates::sample(double seconds, const std::optional<Database>& database,
                     const std::optional<Inside>& inside) {
    Sample sample;
    const double time = seconds - at_;
    flows_.clear();
    std::set<std::string> read_by_relays;
    if (database) {
        follow(*database, inside ? inside->relay : "");
        for (const auto& one : database->noted) read_by_relays.insert(one.group);
    }
    if (inside) {
        follow(*inside, time);
        for (const auto& one : inside->pipelines) read_by_relays.insert(one.group);
    }
    sum_up(sample, inside && began_);
    if (database) count_groups(*database, time, read_by_relays, sample);
    at_ = seconds;
    before_ = database;
    began_ = true;
    return sample;
}

}  // namespace baton::server
