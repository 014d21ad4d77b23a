#include "relay/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace baton::relay {

using namespace std::chrono_literals;

namespace {

constexpr unsigned max_parts = 255;

std::uint64_t ticket_of(std::uint64_t work, std::uint32_t slot, std::size_t part) {
    return (work << 32) | (static_cast<std::uint64_t>(slot) << 8) | part;
}

}  // namespace

void Dispatcher::Line::pop_front() {
    ++first_;
    if (first_ * 2 < refs_.size() || (first_ < 64 && first_ < refs_.size())) return;
    refs_.erase(refs_.begin(), refs_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
}

void Dispatcher::Line::insert(Ref ref) {
    const auto begin = refs_.begin() + static_cast<std::ptrdiff_t>(first_);
    refs_.insert(std::lower_bound(begin, refs_.end(), ref), ref);
}

std::vector<Dispatcher::Ref> Dispatcher::Line::cut_behind(Ref ref) {
    const auto begin = refs_.begin() + static_cast<std::ptrdiff_t>(first_);
    const auto cut = std::upper_bound(begin, refs_.end(), ref);
    std::vector<Ref> behind(cut, refs_.end());
    refs_.erase(cut, refs_.end());
    return behind;
}

Dispatcher::Dispatcher(Sink& sink, Checkpoint& checkpoint, Transformer transformer, Policy policy,
                       bool ordered)
    : sink_(sink),
      checkpoint_(checkpoint),
      transformer_(std::move(transformer)),
      policy_(policy),
      ordered_(ordered),
      // A poison message must stop those behind it, so they may not be under way with it.
      one_per_key_(ordered && (!sink.traits().keeps_order_after_failure ||
                               (policy.on_poison == OnPoison::retry ? !sink.traits().keeps_poison
                                                                    : policy.on_poison != OnPoison::park))),
      max_message_bytes_(sink.traits().max_message_bytes),
      preferred_batch_(sink.traits().preferred_batch),
      tracking_(one_per_key_) {}

void Dispatcher::add(BatchPtr batch) {
    Work work;
    work.slots.resize(batch->events.size());
    work.sequence = next_work_++;
    bytes_ += batch->bytes;
    work.batch = std::move(batch);
    works_.push_back(std::move(work));
}

void Dispatcher::step(Time now, milliseconds patience) {
    wake(now);
    fill(now);
    send();
    deliveries_.clear();
    if (in_flight_ > 0) sink_.collect(deliveries_, patience);
    for (const auto& delivery : deliveries_) take(delivery, now);
    settle();
    if (tracking_ && !one_per_key_ && now > tracked_since_ + 100ms) stop_tracking(now);
}

std::size_t Dispatcher::waiting() const {
    std::size_t count = 0;
    for (const auto& work : works_) count += work.slots.size() - work.settled;
    return count;
}

std::optional<Dispatcher::Time> Dispatcher::next_timer() const {
    std::optional<Time> next;
    const auto consider = [&next](Time time) {
        if (!next || time < *next) next = time;
    };
    if (!sending_) return next;
    if (open_until_) {
        consider(*open_until_);
    } else {
        if (policy_.rate == 0 && !ready_.empty() && in_flight_ < policy_.max_in_flight) consider(Time{});
        if (!timers_.empty()) consider(timers_.top().first);
        if (policy_.rate > 0 && (cursor_ < works_.size() || !ready_.empty()))
            consider(tokens_at_ + std::chrono::microseconds(static_cast<std::int64_t>(1e6 / policy_.rate)));
    }
    return next;
}

std::string_view Dispatcher::lane_of(Ref ref, std::string& room) {
    if (keyed(ref)) return event(ref).key();
    room.assign(1, '\0');  // as no key begins
    room += std::to_string(ref.work) + ":" + std::to_string(ref.slot);
    return room;
}

Dispatcher::Lane& Dispatcher::lane(std::string_view name) {
    if (const auto found = lanes_.find(name); found != lanes_.end()) return found->second;
    return lanes_.try_emplace(std::string(name)).first->second;
}

// Whether an earlier event of its key is parked, so that it must be parked too.
bool Dispatcher::held(Ref ref) {
    if (held_.empty() || !keyed(ref)) return false;
    const auto found = held_.find(event(ref).key());
    if (found == held_.end()) return false;
    // A parked event that is due again is the one that the others wait for, unless it waits for one of its
    // own batch.
    return !work(ref.work).batch->parked || found->second.work == ref.work;
}

// Whether one more may be sent now.
bool Dispatcher::room(Time now) {
    if (!sending_ || in_flight_ >= policy_.max_in_flight) return false;
    if (open_until_ && (now < *open_until_ || probing_ || in_flight_ > 0)) return false;
    if (policy_.rate > 0) {
        const double passed = std::chrono::duration<double>(now - tokens_at_).count();
        tokens_ = std::min(tokens_ + passed * policy_.rate, std::max(1.0, policy_.rate / 10));
        tokens_at_ = now;
        if (tokens_ < 1) return false;
    }
    return true;
}

void Dispatcher::fill(Time now) {
    // A probe is taken from both in turn, so that one event that cannot go does not keep the circuit open.
    if (open_until_ && openings_ % 2 == 0) fill_from_batches(now);
    fill_from_lanes(now);
    fill_from_batches(now);
}

void Dispatcher::fill_from_lanes(Time now) {
    for (std::size_t rounds = ready_.size(); rounds > 0 && room(now); --rounds) {
        const std::string name = std::move(ready_.front());
        ready_.pop_front();
        const auto found = lanes_.find(name);
        if (found == lanes_.end()) continue;
        Lane& lane = found->second;
        lane.queued = false;
        while (!lane.failed && !lane.waiting.empty() && room(now) && (!one_per_key_ || lane.flying == 0)) {
            const Ref ref = lane.waiting.front();
            lane.waiting.pop_front();
            launch(ref, &lane);
        }
        offer(found, now);
        if (outgoing_.size() >= preferred_batch_) send();
    }
}

void Dispatcher::fill_from_batches(Time now) {
    while (cursor_ < works_.size()) {
        Work& at = works_[cursor_];
        if (cursor_slot_ == at.slots.size()) {
            ++cursor_;
            cursor_slot_ = 0;
            continue;
        }
        if (!room(now)) return;
        if (cursor_slot_ == 0) enter_batch(*at.batch);
        route({at.sequence, static_cast<std::uint32_t>(cursor_slot_++)}, now);
        if (outgoing_.size() >= preferred_batch_) send();
    }
}

// Forget the keys that the source knows to be parked by now: what it gives of them may go.
void Dispatcher::enter_batch(const Batch& batch) {
    std::erase_if(held_, [&batch](const auto& entry) {
        return entry.second.unsettled == 0 && entry.second.park <= batch.parks_heeded;
    });
}

// Send an event, or let it wait in its lane.
void Dispatcher::route(Ref ref, Time now) {
    if (transformer_.wants && !transformer_.wants(event(ref))) {
        slot(ref).state = State::done;
        ++counts_.filtered;
    } else if (held(ref)) {
        fail(ref, {}, Failure::Kind::blocked);
    } else if (tracking_ && keyed(ref)) {
        const std::string_view name = event(ref).key();
        Lane& its = lane(name);
        const bool busy =
            !its.waiting.empty() || its.failed || now < its.not_before || (one_per_key_ && its.flying > 0);
        if (busy) {
            its.waiting.push_back(ref);
        } else {
            launch(ref, &its);
            if (its.flying == 0) offer(name, now);
        }
    } else {
        launch(ref, nullptr);
    }
}

void Dispatcher::launch(Ref ref, Lane* lane) {
    if (held(ref)) return fail(ref, {}, Failure::Kind::blocked);
    Slot& it = slot(ref);
    if (it.tries++ == 0) it.progress = progress_;
    if (!render(ref)) return;
    if (policy_.rate > 0) tokens_ -= 1;
    if (open_until_) probing_ = true;
    it.state = State::flying;
    if (lane != nullptr) ++lane->flying;
}

// Make the event's messages, apart from those that were delivered before; false when there is nothing to
// send.
bool Dispatcher::render(Ref ref) {
    Slot& it = slot(ref);
    const std::size_t first = outgoing_.size();
    std::string error;
    try {
        transformer_.render(event(ref), outgoing_, it.storage);
        if (outgoing_.size() - first > max_parts) error = "more than 255 destinations";
    } catch (const Error& refused) {
        error = refused.what();
    }
    std::size_t kept = first;
    for (std::size_t i = first; i < outgoing_.size() && error.empty(); ++i) {
        const std::size_t part = i - first;
        if (part < 64 && (it.delivered_parts >> part & 1) != 0) continue;
        if (max_message_bytes_ > 0 && outgoing_[i].body.size() > max_message_bytes_)
            error = "the message has " + std::to_string(outgoing_[i].body.size()) +
                    " bytes, the sink takes at most " + std::to_string(max_message_bytes_);
        outgoing_[i].ticket = ticket_of(ref.work, ref.slot, part);
        outgoing_[i].event = &event(ref);
        if (kept != i) std::swap(outgoing_[kept], outgoing_[i]);
        ++kept;
    }
    outgoing_.shorten(error.empty() ? kept : first);
    if (!error.empty()) {
        fail(ref, error, Failure::Kind::dead);
        return false;
    }
    it.parts = static_cast<std::uint16_t>(kept - first);
    in_flight_ += it.parts;
    if (it.parts == 0) it.state = State::done;
    return it.parts > 0;
}

void Dispatcher::send() {
    if (outgoing_.empty()) return;
    sink_.send({outgoing_.data(), outgoing_.size()});
    outgoing_.clear();
}

void Dispatcher::take(const Delivery& delivery, Time now) {
    const Ref ref{delivery.ticket >> 32, static_cast<std::uint32_t>(delivery.ticket >> 8 & 0xffffff)};
    const std::size_t part = delivery.ticket & 0xff;
    Slot& it = slot(ref);
    --in_flight_;
    --it.parts;
    if (delivery.verdict == Verdict::delivered) {
        ++progress_;
        failures_in_a_row_ = 0;
        openings_ = 0;
        open_until_.reset();
        probing_ = false;
        if (was_down_) welcome_back(now);
        if (!trouble_.empty()) trouble_.clear();
        if (part < 64) it.delivered_parts |= 1ULL << part;
    } else {
        it.failed = true;
        it.refusal = std::make_unique<Refusal>(Refusal{delivery.error, {}});
        if (delivery.verdict == Verdict::rejected) {
            it.rejected = policy_.on_poison != OnPoison::retry;
            if (!it.rejected) trouble_ = delivery.error;
            if (probing_) {  // it answers, so it is up
                open_until_.reset();
                probing_ = false;
            }
        } else {
            it.refusal->retry_after = delivery.retry_after;
            trouble_ = delivery.error;
            if (++failures_in_a_row_ >= policy_.breaker_threshold || probing_) open_circuit(now);
        }
    }
    if (it.parts == 0) landed(ref, now);
}

void Dispatcher::open_circuit(Time now) {
    if (open_until_ && !probing_) return;
    probing_ = false;
    was_down_ = true;
    open_until_ = now + policy_.breaker.delay(++openings_, random_);
}

// Let the lanes go on that waited for the sink.
void Dispatcher::welcome_back(Time now) {
    was_down_ = false;
    for (auto next = lanes_.begin(); next != lanes_.end();) {
        const auto at = next++;
        const auto when = std::exchange(at->second.when_back, std::nullopt);
        if (!when) continue;
        at->second.not_before = *when;
        offer(at, now);
    }
}

// All messages of an event have come back.
void Dispatcher::landed(Ref ref, Time now) {
    Slot& it = slot(ref);
    if (it.failed && !it.rejected && !tracking_) start_tracking();
    std::string room;
    const std::string_view name = tracking_ || it.failed ? lane_of(ref, room) : std::string_view();
    if (tracking_) {
        const auto found = lanes_.find(name);
        if (found != lanes_.end() && found->second.flying > 0) --found->second.flying;
    }
    if (!it.failed) {
        it.state = State::done;
        std::string().swap(it.storage);
        ++counts_.delivered;
        if (on_delivered_) on_delivered_(event(ref));
    } else if (it.rejected) {
        fail(ref, it.refusal->error, Failure::Kind::dead);
    } else if (held(ref)) {
        fail(ref, {}, Failure::Kind::blocked);
    } else {
        retry(ref, name, now);
    }
    if (tracking_) offer(name, now);
}

// Let it go first in its lane again, after a while; or give up for now.
void Dispatcher::retry(Ref ref, std::string_view name, Time now) {
    Slot& it = slot(ref);
    it.state = State::waiting;
    it.failed = false;
    ++counts_.retried;
    Lane& its = lane(name);
    // Those behind a failed one fail with it: that is not their fault either.
    const bool to_count = progress_ != it.progress && (its.waiting.empty() || ref < its.waiting.front());
    if (to_count) ++it.attempts;
    its.when_back = to_count ? std::nullopt : std::optional(now + it.refusal->retry_after.value_or(0ms));
    it.progress = progress_;
    const auto to_blame = [&] {
        return it.attempts >= policy_.attempts ||
               (it.tries >= policy_.attempts && alone(ref, name) && sink_answers());
    };
    if (policy_.on_poison != OnPoison::retry && to_blame())
        return fail(ref, it.refusal->error, Failure::Kind::retry);
    its.waiting.insert(ref);
    its.failed = its.flying > 0;
    its.not_before = std::max(its.not_before, now + std::max(policy_.backoff.delay(it.tries, random_),
                                                             it.refusal->retry_after.value_or(0ms)));
}

// Whether only this event, and those that wait behind it, are there to be sent.
bool Dispatcher::alone(Ref ref, std::string_view name) {
    std::string room;
    for (const auto& it : works_)
        for (std::uint32_t i = static_cast<std::uint32_t>(it.settled); i < it.slots.size(); ++i) {
            const Ref other{it.sequence, i};
            if (it.slots[i].state == State::done || other == ref) continue;
            if (other < ref || lane_of(other, room) != name) return false;
        }
    return true;
}

// Ask the sink whether it is up. This may wait for its server: call it only when there is nothing else to do.
bool Dispatcher::sink_answers() {
    if (!sink_.trouble().empty()) return false;
    try {
        sink_.check();
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

// Give an event up: it will be parked.
void Dispatcher::fail(Ref ref, std::string error, Failure::Kind kind) {
    const Event& failed = event(ref);
    if (kind == Failure::Kind::dead && policy_.on_poison == OnPoison::halt)
        throw Halted("event " + std::string(failed.source_id) + " cannot be delivered: " + error,
                     "mend it or its destination, or set on_poison to park or block_key");
    // It could not even be made into a message. Only other settings help, and they make a new pipeline.
    if (policy_.on_poison == OnPoison::retry)
        throw Halted("message " + std::string(failed.source_id) + " cannot be sent: " + error,
                     "mend the sink's settings");
    Slot& it = slot(ref);
    it.state = State::done;
    std::string().swap(it.storage);
    auto& failures = work(ref.work).failures;
    const auto place =
        std::upper_bound(failures.begin(), failures.end(), &failed,
                         [](const Event* event, const Failure& other) { return event < other.event; });
    const Failure& noted = *failures.insert(place, {&failed, std::move(error), kind});
    ++(kind == Failure::Kind::dead    ? counts_.dead
       : kind == Failure::Kind::retry ? counts_.parked
                                      : counts_.blocked);
    if (on_failure_ && kind != Failure::Kind::blocked) on_failure_(noted);
    const bool holds = kind != Failure::Kind::dead || policy_.on_poison == OnPoison::block_key;
    if (keyed(ref) && holds) hold_back(ref);
}

// Let no later event of the key overtake one that is parked.
void Dispatcher::hold_back(Ref ref) {
    const std::string name(event(ref).key());
    Hold& hold = held_[name];
    hold.work = ref.work;
    ++hold.unsettled;
    const auto found = lanes_.find(name);
    if (found == lanes_.end()) return;
    for (const Ref other : found->second.waiting.cut_behind(ref)) {
        if (work(other.work).batch->parked && other.work != ref.work) {
            found->second.waiting.push_back(
                other);  // it was leased after this one was parked: it is its turn
        } else {
            fail(other, {}, Failure::Kind::blocked);
        }
    }
}

// From the first failure on it must be known what flies of each key.
void Dispatcher::start_tracking() {
    tracking_ = true;
    tracked_since_ = Clock::now();
    for (auto& it : works_)
        for (std::uint32_t i = 0; i < it.slots.size(); ++i) {
            const Ref ref{it.sequence, i};
            if (it.slots[i].state == State::flying && keyed(ref)) ++lane(event(ref).key()).flying;
        }
}

// Once nothing waits any more, messages go as they come again.
void Dispatcher::stop_tracking(Time now) {
    tracked_since_ = now;
    if (std::any_of(lanes_.begin(), lanes_.end(),
                    [](const auto& entry) { return !entry.second.waiting.empty(); }))
        return;
    lanes_.clear();
    ready_.clear();
    timers_ = {};
    tracking_ = false;
}

// Put a lane where it belongs: among those that may send, on the clock, or away.
void Dispatcher::offer(std::string_view name, Time now) {
    if (const auto found = lanes_.find(name); found != lanes_.end()) offer(found, now);
}

void Dispatcher::offer(Lanes::iterator found, Time now) {
    Lane& lane = found->second;
    if (lane.flying == 0) lane.failed = false;
    if (lane.waiting.empty()) {
        if (lane.flying == 0) lanes_.erase(found);
    } else if (!lane.failed && !lane.queued && (!one_per_key_ || lane.flying == 0)) {
        if (now >= lane.not_before) {
            lane.queued = true;
            ready_.push_back(found->first);
        } else {
            timers_.emplace(lane.not_before, found->first);
        }
    }
}

void Dispatcher::wake(Time now) {
    while (!timers_.empty() && timers_.top().first <= now) {
        const std::string name = timers_.top().second;
        timers_.pop();
        offer(name, now);
    }
}

// Settle what is done from the beginning on.
void Dispatcher::settle() {
    while (!works_.empty()) {
        Work& first = works_.front();
        settle_work(first);
        if (first.settled < first.slots.size()) return;
        bytes_ -= first.batch->bytes;
        works_.pop_front();
        if (cursor_ > 0) {
            --cursor_;
        } else {
            cursor_slot_ = 0;
        }
    }
}

void Dispatcher::settle_work(Work& it) {
    const std::size_t before = it.settled;
    while (it.settled < it.slots.size() && it.slots[it.settled].state == State::done) ++it.settled;
    if (it.settled == before && !it.slots.empty()) return;
    const Event* end = it.batch->events.data() + it.settled;
    auto split = std::find_if(it.failures.begin(), it.failures.end(),
                              [end](const Failure& f) { return f.event >= end; });
    std::vector<Failure> failures(std::make_move_iterator(it.failures.begin()),
                                  std::make_move_iterator(split));
    it.failures.erase(it.failures.begin(), split);
    if (!failures.empty()) {
        ++parks_;
        for (const auto& failure : failures) {
            const Ref ref{it.sequence, static_cast<std::uint32_t>(failure.event - it.batch->events.data())};
            const auto found = keyed(ref) ? held_.find(failure.event->key()) : held_.end();
            const bool holds =
                failure.kind != Failure::Kind::dead || policy_.on_poison == OnPoison::block_key;
            if (found == held_.end() || !holds) continue;
            --found->second.unsettled;
            found->second.park = parks_;
        }
    }
    checkpoint_.settle(it.batch, it.settled, std::move(failures));
}

}  // namespace baton::relay
