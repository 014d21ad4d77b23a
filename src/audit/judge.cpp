#include "audit/judge.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace baton::audit {

namespace {

constexpr std::size_t most_examples = 10;

// What has come of one key so far. Ranks are places among the numbers of the key that arrived at all, so that
// a lost event is not counted as disorder too.
struct Sequence {
    std::map<long, long> rank;
    long last = 0;
    long highest = 0;
    std::set<long> heads{
        0};  // how far each delivery of it has come: the first one, and those from earlier places
};

using Sequences = std::unordered_map<std::string, Sequence>;

Sequences rank_arrivals(const Facts& facts) {
    std::unordered_map<std::string, std::set<long>> numbers;
    for (const auto& id : facts.arrived)
        if (const auto found = facts.committed.find(id); found != facts.committed.end())
            numbers[found->second.key].insert(found->second.number);
    Sequences sequences;
    for (const auto& [key, all] : numbers) {
        long rank = 0;
        for (const long number : all) sequences[key].rank[number] = ++rank;
    }
    return sequences;
}

// Look at one arrival's place in its key's sequence.
void judge_order(Sequence& sequence, const std::string& id, const Written& event, bool first,
                 Judgement& judgement) {
    const long rank = sequence.rank.at(event.number);
    const std::string place = id + " (" + event.key + " #" + std::to_string(event.number) + ")";
    if (first && rank < sequence.highest) judgement.out_of_order.add(place);
    const bool goes_on = sequence.heads.erase(rank - 1) > 0;
    if (rank < sequence.last) ++judgement.rewinds;
    if (!goes_on && rank > sequence.last + 1) judgement.leaps.add(place);
    sequence.heads.insert(rank);
    sequence.last = rank;
    sequence.highest = std::max(sequence.highest, rank);
}

bool explained(const Facts& facts, const std::string& id, const Written& event) {
    if (facts.deduplicates) return false;
    const auto seen = facts.seen.find(id);
    return std::any_of(facts.faults.begin(), facts.faults.end(), [&](const FaultTime& fault) {
        const bool was_there = !event.committed || *event.committed <= fault.ended + facts.recovery;
        const bool was_settled = seen != facts.seen.end() && seen->second + facts.unsettled < fault.began;
        return was_there && !was_settled;
    });
}

Latency summarize(std::vector<double> times) {
    Latency latency;
    if (times.empty()) return latency;
    std::sort(times.begin(), times.end());
    const auto at = [&times](double share) {
        return times[std::min(times.size() - 1,
                              static_cast<std::size_t>(share * static_cast<double>(times.size())))];
    };
    return {static_cast<long>(times.size()), at(0.5), at(0.99), at(0.999), times.back()};
}

void measure(const Facts& facts, Judgement& judgement) {
    std::vector<double> all;
    std::vector<double> calm;
    for (const auto& [id, event] : facts.committed) {
        const auto seen = facts.seen.find(id);
        if (seen == facts.seen.end() || !event.committed) continue;
        const auto committed = *event.committed;
        // The reader may have it before the writer's own thread has woken up to note its commit.
        const double time =
            std::max(std::chrono::duration<double, std::milli>(seen->second - committed).count(), 0.0);
        all.push_back(time);
        if (std::none_of(facts.faults.begin(), facts.faults.end(), [&](const FaultTime& fault) {
                return committed <= fault.ended + facts.recovery && seen->second >= fault.began;
            }))
            calm.push_back(time);
    }
    judgement.all = summarize(std::move(all));
    judgement.calm = summarize(std::move(calm));
}

}  // namespace

void Finding::add(const std::string& example) {
    ++count;
    if (examples.size() < most_examples) examples.push_back(example);
}

bool Judgement::good() const {
    return committed > 0 && lost.count == 0 && phantom.count == 0 && unknown.count == 0 &&
           (!ghosts_judged || ghosts.count == 0) && unexplained_copies.count == 0 &&
           (!ordered || (out_of_order.count == 0 && leaps.count == 0));
}

double Judgement::copy_rate() const {
    return arrived == 0 ? 0 : static_cast<double>(copies) / static_cast<double>(arrived);
}

Judgement judge(const Facts& facts) {
    Judgement judgement;
    judgement.ordered = facts.ordered;
    judgement.ghosts_judged = facts.ghosts_judged;
    judgement.committed = static_cast<long>(facts.committed.size());
    judgement.rolled_back = static_cast<long>(facts.rolled_back.size());
    judgement.taken_back = static_cast<long>(facts.taken_back.size());
    judgement.arrived = static_cast<long>(facts.arrived.size());
    Sequences sequences = rank_arrivals(facts);
    std::unordered_set<std::string> here;
    for (const auto& id : facts.arrived) {
        const auto found = facts.committed.find(id);
        const bool first = here.insert(id).second;
        if (found == facts.committed.end()) {
            (facts.taken_back.contains(id)    ? judgement.ghosts
             : facts.rolled_back.contains(id) ? judgement.phantom
                                              : judgement.unknown)
                .add(id);
            continue;
        }
        const Written& event = found->second;
        if (!first) {
            ++judgement.copies;
            if (!explained(facts, id, event)) judgement.unexplained_copies.add(id);
        }
        judge_order(sequences.at(event.key), id, event, first, judgement);
    }
    for (const auto& [id, event] : facts.committed)
        if (!here.contains(id))
            judgement.lost.add(id + " (" + event.key + " #" + std::to_string(event.number) + ")");
    measure(facts, judgement);
    return judgement;
}

}  // namespace baton::audit
