#include "relay/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace baton::relay {

using namespace std::chrono_literals;

namespace {

constexpr unsigned max_parts = 255;

// A ticket has room for the low half of a batch's number, a place in it, and a message's number.
std::uint64_t ticket_of(Ref ref, std::size_t part) {
    return (ref.work << 32) | (static_cast<std::uint64_t>(ref.slot) << 8) | part;
}

// The event of a ticket. The upper half of its batch's number is that which makes it no older than `oldest`.
Ref ref_of(std::uint64_t ticket, std::uint64_t oldest) {
    const auto later = static_cast<std::uint32_t>((ticket >> 32) - oldest);
    return {oldest + later, static_cast<std::uint32_t>(ticket >> 8 & 0xffffff)};
}

}  // namespace

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
      preferred_batch_(sink.traits().preferred_batch),
      tracking_(one_per_key_),
      lanes_(one_per_key_),
      breaker_(policy.breaker_threshold, policy.breaker),
      rate_(policy.rate),
      blame_({policy.attempts, policy.give_up_limit, policy.on_poison == OnPoison::retry}) {}

void Dispatcher::add(BatchPtr batch) {
    Work work;
    work.slots.resize(batch->events.size());
    if (next_work_ == 0) next_work_ = batch->number;  // they count on from there
    work.sequence = next_work_++;
    bytes_ += batch->bytes;
    work.batch = std::move(batch);
    works_.push_back(std::move(work));
}

void Dispatcher::step(Time now, milliseconds patience) {
    now_ = now;
    if (in_flight_ == 0) heard_at_ = now;
    lanes_.wake(now);
    fill(now);
    send();
    deliveries_.clear();
    if (in_flight_ > 0) sink_.collect(deliveries_, patience);
    if (!deliveries_.empty()) heard_at_ = now;
    for (const auto& delivery : deliveries_) take(delivery, now);
    settle();
    if (tracking_ && !one_per_key_ && now > tracked_since_ + 100ms) stop_tracking(now);
}

std::size_t Dispatcher::waiting() const {
    std::size_t count = 0;
    for (const auto& work : works_) count += work.slots.size() - work.settled;
    return count;
}

bool Dispatcher::drained() const {
    return in_flight_ == 0 && (breaker_.open() || !lanes_.ready_before(last_sent_));
}

Trouble Dispatcher::trouble() const {
    if (blame_.streak().full()) return {blame_.streak().words(), Fault::event};
    const auto silence = now_ - heard_at_;
    if (!trouble_.empty() || silence < 1s) return trouble_;
    std::string words = sink_.trouble();
    if (words.empty() && silence >= 10s) words = "the sink has not answered for more than 10 s";
    return {std::move(words), Fault::moment};
}

std::optional<Time> Dispatcher::next_timer() const {
    if (!sending_) return {};
    if (breaker_.open()) {
        if (cursor_ < works_.size() || lanes_.ready() > 0) return breaker_.until();
        const auto timer = lanes_.next_timer();  // there may be nothing to probe with before
        return timer ? std::optional(std::max(*timer, *breaker_.until())) : timer;
    }
    if (!rate_.limited() && lanes_.ready() > 0 && in_flight_ < policy_.max_in_flight) return Time{};
    auto next = lanes_.next_timer();
    if (rate_.limited() && (cursor_ < works_.size() || lanes_.ready() > 0))
        next = std::min(next.value_or(Time::max()), rate_.next());
    return next;
}

std::string_view Dispatcher::lane_of(Ref ref, std::string& room) {
    if (keyed(ref)) return event(ref).key();
    room.assign(1, '\0');  // as no key begins
    room += std::to_string(ref.work) + ":" + std::to_string(ref.slot);
    return room;
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
    return in_flight_ < policy_.max_in_flight && breaker_.allows(now, in_flight_) && rate_.allows(now);
}

void Dispatcher::fill(Time now) {
    // A probe is taken from both in turn, so that one event that cannot go does not keep the circuit open.
    if (breaker_.open() && breaker_.pauses() % 2 == 0) fill_from_batches(now);
    fill_from_lanes(now);
    fill_from_batches(now);
}

void Dispatcher::fill_from_lanes(Time now) {
    std::string name;
    for (std::size_t rounds = lanes_.ready(); rounds > 0 && room(now); --rounds) {
        Lane* lane = lanes_.take_ready(name);
        if (lane == nullptr) continue;
        while (lanes_.can_send(*lane) && !lane->waiting.empty() && room(now)) {
            const Ref ref = lane->waiting.front();
            if (!may_go(ref)) break;
            lane->waiting.pop_front();
            launch(ref, lane, now);
        }
        lanes_.offer(name, now);
        if (outgoing_.size() >= preferred_batch_) send();
    }
}

void Dispatcher::fill_from_batches(Time now) {
    while (sending_ && cursor_ < works_.size()) {
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
        Lane& its = lanes_.make(name);
        if (!its.waiting.empty() || now < its.not_before || !lanes_.can_send(its)) {
            its.waiting.push_back(ref);
        } else {
            launch(ref, &its, now);
            if (its.flying == 0) lanes_.offer(name, now);
        }
    } else {
        launch(ref, nullptr, now);
    }
}

void Dispatcher::launch(Ref ref, Lane* lane, Time now) {
    if (held(ref)) return fail(ref, {}, Failure::Kind::blocked);
    Slot& it = slot(ref);
    blame_.sent(it.record);
    if (const std::string error = render(ref); !error.empty()) {
        refuse(ref, error, now);
        std::string room;
        if (lane == nullptr && tracking_) lanes_.offer(lane_of(ref, room), now);
        return;
    }
    if (it.state == State::done) return;
    rate_.sent();
    breaker_.sent();
    last_sent_ = std::max(last_sent_, ref);
    it.state = State::flying;
    if (lane != nullptr) ++lane->flying;
}

// Say which limit kept the source from loading an event.
std::string Dispatcher::words_for_too_large(std::size_t bytes) const {
    const std::string words = "the event has " + std::to_string(bytes) + " bytes, ";
    if (bytes > policy_.max_event_bytes)
        return words + "more than max_event_bytes (" + std::to_string(policy_.max_event_bytes) + ")";
    return words + "the sink takes at most " + std::to_string(sink_takes());
}

// Make the event's messages, apart from those that were delivered before. Returns why it cannot be sent, or
// nothing; it is done when there is nothing to send.
std::string Dispatcher::render(Ref ref) {
    Slot& it = slot(ref);
    const std::size_t first = outgoing_.size();
    std::string error;
    if (const std::size_t bytes = event(ref).too_large; bytes > 0) return words_for_too_large(bytes);
    const std::size_t most = sink_takes();
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
        if (most > 0 && outgoing_[i].body.size() > most)
            error = "the message has " + std::to_string(outgoing_[i].body.size()) +
                    " bytes, the sink takes at most " + std::to_string(most);
        outgoing_[i].ticket = ticket_of(ref, part);
        outgoing_[i].event = &event(ref);
        if (kept != i) std::swap(outgoing_[kept], outgoing_[i]);
        ++kept;
    }
    outgoing_.shorten(error.empty() ? kept : first);
    if (!error.empty()) return error;
    it.parts = static_cast<std::uint16_t>(kept - first);
    in_flight_ += it.parts;
    if (it.parts == 0) it.state = State::done;
    return {};
}

// Judge an event that cannot be made into messages.
void Dispatcher::refuse(Ref ref, const std::string& error, Time now) {
    // Only other settings help, and they make a new pipeline.
    if (policy_.on_poison == OnPoison::retry)
        throw Halted("message " + std::string(event(ref).source_id) + " cannot be sent: " + error,
                     "mend the sink's settings");
    Slot& it = slot(ref);
    it.fault = Fault::event;
    it.refusal = std::make_unique<Refusal>(Refusal{error, {}});
    if (blame_.streak().full()) {
        breaker_.sent();
        breaker_.failed(now, random_);
        if (!tracking_) start_tracking();
    }
    judge(ref, now);
}

void Dispatcher::send() {
    if (outgoing_.empty()) return;
    sink_.send({outgoing_.data(), outgoing_.size()});
    outgoing_.clear();
}

void Dispatcher::take(const Delivery& delivery, Time now) {
    const Ref ref = ref_of(delivery.ticket, works_.front().sequence);
    const std::size_t part = delivery.ticket & 0xff;
    Slot& it = slot(ref);
    --in_flight_;
    --it.parts;
    if (delivery.verdict == Verdict::delivered) {
        blame_.delivered();
        if (breaker_.delivered()) {
            blame_.outage_is_over();
            lanes_.welcome_back(now);
        }
        if (!trouble_.empty()) trouble_ = {};
        if (part < 64) it.delivered_parts |= 1ULL << part;
    } else {
        note_failure(it, delivery, now);
    }
    if (it.parts == 0) landed(ref, now);
}

void Dispatcher::note_failure(Slot& it, const Delivery& delivery, Time now) {
    const bool rejected = delivery.verdict == Verdict::rejected;
    const Fault fault = delivery.verdict == Verdict::shut                  ? Fault::destination
                        : rejected && policy_.on_poison != OnPoison::retry ? Fault::event
                                                                           : Fault::moment;
    if (!it.fault || *it.fault <= fault) {
        it.fault = fault;
        it.refusal = std::make_unique<Refusal>(Refusal{delivery.error, delivery.retry_after});
    }
    if (fault != Fault::event) trouble_ = {delivery.error, fault};
    if (rejected && !blame_.streak().full())
        breaker_.rejected();
    else
        breaker_.failed(now, random_);
}

// All messages of an event have come back.
void Dispatcher::landed(Ref ref, Time now) {
    Slot& it = slot(ref);
    const bool may_wait = it.fault && (*it.fault != Fault::event || blame_.streak().full());
    if (may_wait && !tracking_) start_tracking();
    std::string room;
    const std::string_view name = tracking_ ? lane_of(ref, room) : std::string_view();
    if (tracking_) {
        Lane* its = lanes_.find(name);
        if (its != nullptr && its->flying > 0) --its->flying;
    }
    if (it.fault) {
        judge(ref, now);
    } else {
        it.state = State::done;
        std::string().swap(it.storage);
        ++counts_.delivered;
        if (on_delivered_) on_delivered_(event(ref));
    }
    if (tracking_) lanes_.offer(name, now);
}

// Decide what becomes of an event that did not get through.
void Dispatcher::judge(Ref ref, Time now) {
    Slot& it = slot(ref);
    const Fault fault = *std::exchange(it.fault, std::nullopt);
    std::string room;
    const std::string_view name = lane_of(ref, room);
    const Lane* its = lanes_.find(name);
    const bool first = its == nullptr || its->waiting.empty() || ref < its->waiting.front();
    Ruling ruling = blame_.judge(it.record, fault, first);
    if (ruling == Ruling::bury) return fail(ref, it.refusal->error, Failure::Kind::dead);
    if (held(ref)) return fail(ref, {}, Failure::Kind::blocked);
    if (ruling == Ruling::ask_sink)
        ruling = alone(ref, name) && sink_answers() ? blame_.sink_is_up() : Ruling::await_sink;
    if (ruling == Ruling::park) return fail(ref, it.refusal->error, Failure::Kind::retry);
    await_turn(ref, name, now, ruling);
}

// Let it go first in its lane again, after a while.
void Dispatcher::await_turn(Ref ref, std::string_view name, Time now, Ruling ruling) {
    Slot& it = slot(ref);
    it.state = State::waiting;
    ++counts_.retried;
    Lane& its = lanes_.make(name);
    const auto at_least = it.refusal->retry_after.value_or(0ms);
    its.when_back = ruling == Ruling::wait ? std::nullopt : std::optional(now + at_least);
    its.waiting.insert(ref);
    its.failed = true;
    const auto pause = policy_.backoff.delay(it.record.tries, random_);
    its.not_before = std::max(its.not_before, now + std::max(pause, at_least));
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
    if (kind != Failure::Kind::blocked) {
        blame_.gave_up(noted.error);
        if (on_failure_) on_failure_(noted);
    }
    const bool holds = kind != Failure::Kind::dead || policy_.on_poison == OnPoison::block_key;
    if (keyed(ref) && holds) hold_back(ref);
}

// Let no later event of the key overtake one that is parked.
void Dispatcher::hold_back(Ref ref) {
    const std::string name(event(ref).key());
    Hold& hold = held_[name];
    hold.work = ref.work;
    ++hold.unsettled;
    Lane* its = lanes_.find(name);
    if (its == nullptr) return;
    for (const Ref other : its->waiting.cut_behind(ref)) {
        if (work(other.work).batch->parked && other.work != ref.work) {
            its->waiting.push_back(other);  // it was leased after this one was parked: it is its turn
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
            if (it.slots[i].state == State::flying && keyed(ref)) ++lanes_.make(event(ref).key()).flying;
        }
}

// Once nothing waits any more, messages go as they come again.
void Dispatcher::stop_tracking(Time now) {
    tracked_since_ = now;
    if (lanes_.anything_waits()) return;
    lanes_.clear();
    tracking_ = false;
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
