#include "audit/judge.hpp"

#include <algorithm>
#include <set>

namespace baton::audit {

namespace {

// What has come of one key so far.
struct Sequence {
    long last = 0;
    long highest = 0;
    std::set<long> heads{
        0};  // how far each delivery of it has come: the first one, and those from earlier places
};

class Case {
  public:
    explicit Case(const Facts& facts) : facts_(facts), sequences_(facts.keys.size()) {}

    Judgement decide() {
        verdict_.ordered = facts_.ordered;
        verdict_.ghosts_judged = facts_.ghosts_judged;
        verdict_.committed = facts_.count(Fate::committed);
        verdict_.rolled_back = facts_.count(Fate::rolled_back);
        verdict_.taken_back = facts_.count(Fate::taken_back);
        verdict_.arrived = facts_.arrived.count();
        verdict_.unknown = facts_.arrived.strangers;
        look_who_came();
        rank_arrivals();
        std::fill(here_.begin(), here_.end(), false);
        for (const Index index : facts_.arrived.events) judge_arrival(index);
        for (Index index = 0; index < facts_.events.size(); ++index)
            if (facts_.events[index].fate == Fate::committed && !here_[index])
                verdict_.lost.add(place_of(index));
        measure();
        return std::move(verdict_);
    }

  private:
    std::string place_of(Index index) const {
        const Event& event = facts_.events[index];
        return facts_.names.id(index) + " (" + facts_.keys.at(event.key) + " #" +
               std::to_string(event.number) + ")";
    }

    void look_who_came() {
        here_.assign(facts_.events.size(), false);
        for (const Index index : facts_.arrived.events)
            if (index < here_.size()) here_[index] = true;
    }

    // Ranks are places among the numbers of a key that arrived at all, so that a lost event is not counted as
    // disorder too.
    void rank_arrivals() {
        std::vector<Index> came;
        for (Index index = 0; index < facts_.events.size(); ++index)
            if (here_[index] && facts_.events[index].fate == Fate::committed) came.push_back(index);
        std::sort(came.begin(), came.end(), [this](Index one, Index other) {
            const Event& a = facts_.events[one];
            const Event& b = facts_.events[other];
            return a.key != b.key ? a.key < b.key : a.number < b.number;
        });
        ranks_.assign(facts_.events.size(), 0);
        Index rank = 0;
        for (std::size_t i = 0; i < came.size(); ++i) {
            if (i > 0 && facts_.events[came[i]].key != facts_.events[came[i - 1]].key) rank = 0;
            ranks_[came[i]] = ++rank;
        }
    }

    void judge_arrival(Index index) {
        if (index >= facts_.events.size()) return verdict_.unknown.add(facts_.names.id(index));
        const bool first = !here_[index];
        here_[index] = true;
        switch (facts_.events[index].fate) {
            case Fate::committed:
                break;
            case Fate::rolled_back:
                return verdict_.phantom.add(facts_.names.id(index));
            case Fate::taken_back:
                return verdict_.ghosts.add(facts_.names.id(index));
            default:
                return verdict_.unknown.add(facts_.names.id(index));
        }
        if (!first) {
            ++verdict_.copies;
            if (!explained(index)) verdict_.unexplained_copies.add(facts_.names.id(index));
        }
        judge_order(index, first);
    }

    // Look at one arrival's place in its key's sequence.
    void judge_order(Index index, bool first) {
        Sequence& sequence = sequences_.at(facts_.events[index].key);
        const long rank = ranks_[index];
        if (first && rank < sequence.highest) verdict_.out_of_order.add(place_of(index));
        const bool goes_on = sequence.heads.erase(rank - 1) > 0;
        if (rank < sequence.last) ++verdict_.rewinds;
        if (!goes_on && rank > sequence.last + 1) verdict_.leaps.add(place_of(index));
        sequence.heads.insert(rank);
        sequence.last = rank;
        sequence.highest = std::max(sequence.highest, rank);
    }

    bool explained(Index index) const {
        if (facts_.deduplicates) return false;
        const auto committed = facts_.events[index].committed;
        const auto seen = facts_.seen_at(index);
        return std::any_of(facts_.faults.begin(), facts_.faults.end(), [&](const FaultTime& fault) {
            const bool was_there = committed == never || committed <= fault.ended + facts_.recovery;
            const bool was_settled = seen != never && seen + facts_.unsettled < fault.began;
            return was_there && !was_settled;
        });
    }

    void measure() {
        std::vector<float> all;
        std::vector<float> calm;
        for (Index index = 0; index < facts_.events.size(); ++index) {
            const Event& event = facts_.events[index];
            const auto seen = facts_.seen_at(index);
            if (event.fate != Fate::committed || event.committed == never || seen == never) continue;
            // The reader may have it before the writer's own thread has woken up to note its commit.
            const float time =
                std::max(std::chrono::duration<float, std::milli>(seen - event.committed).count(), 0.0F);
            all.push_back(time);
            if (std::none_of(facts_.faults.begin(), facts_.faults.end(), [&](const FaultTime& fault) {
                    return event.committed <= fault.ended + facts_.recovery && seen >= fault.began;
                }))
                calm.push_back(time);
        }
        verdict_.all = summarize(all);
        verdict_.calm = summarize(calm);
    }

    static Latency summarize(std::vector<float>& times) {
        if (times.empty()) return {};
        std::sort(times.begin(), times.end());
        const auto at = [&times](double share) {
            return times[std::min(times.size() - 1,
                                  static_cast<std::size_t>(share * static_cast<double>(times.size())))];
        };
        return {static_cast<long>(times.size()), at(0.5), at(0.99), at(0.999), times.back()};
    }

    const Facts& facts_;
    std::vector<Sequence> sequences_;  // by key
    std::vector<bool> here_;           // by event: whether the event has come
    std::vector<Index> ranks_;         // by event
    Judgement verdict_;
};

}  // namespace

long Facts::count(Fate fate) const {
    return std::count_if(events.begin(), events.end(),
                         [fate](const Event& event) { return event.fate == fate; });
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
    return Case(facts).decide();
}

}  // namespace baton::audit
