#include "relay/lanes.hpp"

#include <algorithm>
#include <utility>

namespace baton::relay {

void Line::pop_front() {
    ++first_;
    if (first_ * 2 < refs_.size() || (first_ < 64 && first_ < refs_.size())) return;
    refs_.erase(refs_.begin(), refs_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
}

void Line::insert(Ref ref) {
    const auto begin = refs_.begin() + static_cast<std::ptrdiff_t>(first_);
    refs_.insert(std::lower_bound(begin, refs_.end(), ref), ref);
}

std::vector<Ref> Line::cut_behind(Ref ref) {
    const auto begin = refs_.begin() + static_cast<std::ptrdiff_t>(first_);
    const auto cut = std::upper_bound(begin, refs_.end(), ref);
    std::vector<Ref> behind(cut, refs_.end());
    refs_.erase(cut, refs_.end());
    return behind;
}

Lane& Lanes::make(std::string_view name) {
    if (const auto found = lanes_.find(name); found != lanes_.end()) return found->second;
    return lanes_.try_emplace(std::string(name)).first->second;
}

Lane* Lanes::find(std::string_view name) {
    const auto found = lanes_.find(name);
    return found == lanes_.end() ? nullptr : &found->second;
}

bool Lanes::can_send(const Lane& lane) const {
    return !lane.failed && (!one_at_a_time_ || lane.flying == 0);
}

void Lanes::offer(std::string_view name, Time now) {
    if (const auto found = lanes_.find(name); found != lanes_.end()) offer(found, now);
}

void Lanes::offer(Map::iterator found, Time now) {
    Lane& lane = found->second;
    if (lane.flying == 0) lane.failed = false;
    if (lane.waiting.empty()) {
        if (lane.flying == 0) lanes_.erase(found);
    } else if (!lane.queued && can_send(lane)) {
        if (now >= lane.not_before) {
            lane.queued = true;
            ready_.push_back(found->first);
        } else {
            timers_.emplace(lane.not_before, found->first);
        }
    }
}

void Lanes::wake(Time now) {
    while (!timers_.empty() && timers_.top().first <= now) {
        const std::string name = timers_.top().second;
        timers_.pop();
        offer(name, now);
    }
}

void Lanes::welcome_back(Time now) {
    for (auto next = lanes_.begin(); next != lanes_.end();) {
        const auto at = next++;
        const auto when = std::exchange(at->second.when_back, std::nullopt);
        if (!when) continue;
        at->second.not_before = *when;
        offer(at, now);
    }
}

bool Lanes::ready_before(Ref end) const {
    return std::any_of(ready_.begin(), ready_.end(), [&](const std::string& name) {
        const auto found = lanes_.find(name);
        return found != lanes_.end() && !found->second.waiting.empty() && found->second.waiting.front() < end;
    });
}

Lane* Lanes::take_ready(std::string& name) {
    name = std::move(ready_.front());
    ready_.pop_front();
    Lane* lane = find(name);
    if (lane != nullptr) lane->queued = false;
    return lane;
}

std::optional<Time> Lanes::next_timer() const {
    return timers_.empty() ? std::nullopt : std::optional(timers_.top().first);
}

bool Lanes::anything_waits() const {
    return std::any_of(lanes_.begin(), lanes_.end(),
                       [](const auto& entry) { return !entry.second.waiting.empty(); });
}

void Lanes::clear() {
    lanes_.clear();
    ready_.clear();
    timers_ = {};
}

}  // namespace baton::relay
