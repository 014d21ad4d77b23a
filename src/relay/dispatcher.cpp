#include "relay/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace baton::relay {

using namespace std::chrono_literals;

Counts& Counts::operator+=(const Counts& other) {
    delivered += other.delivered;
    filtered += other.filtered;
    retried += other.retried;
    parked += other.parked;
    dead += other.dead;
    blocked += other.blocked;
    for (std::size_t i = 0; i < came_back.size(); ++i) came_back[i] += other.came_back[i];
    latency += other.latency;
    return *this;
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
      preferred_batch_(sink.traits().preferred_batch),
      tracking_(one_per_key_),
      lanes_(one_per_key_),
      breaker_(policy.breaker_threshold, policy.breaker),
      rate_(policy.rate),
      blame_({policy.attempts, policy.give_up_limit, policy.on_poison == OnPoison::retry}) {}

void Dispatcher::step(Time now, milliseconds patience) {
    now_ = now;
    if (in_flight_ == 0) heard_at_ = now;
    lanes_.wake(now);
    fill(now);
    send();
    deliveries_.clear();
    if (in_flight_ > 0) sink_.collect(deliveries_, patience);
    if (!deliveries_.empty()) {
        heard_at_ = now;
        told_at_ = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
    }
    for (const auto& delivery : deliveries_) take(delivery, now);
    settle();
    if (tracking_ && !one_per_key_ && now > tracked_since_ + 100ms) stop_tracking(now);
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
        if (workload_.has_next() || lanes_.ready() > 0) return breaker_.until();
        const auto timer = lanes_.next_timer();  // there may be nothing to probe with before
        return timer ? std::optional(std::max(*timer, *breaker_.until())) : timer;
    }
    if (!rate_.limited() && lanes_.ready() > 0 && in_flight_ < policy_.max_in_flight) return Time{};
    auto next = lanes_.next_timer();
    if (rate_.limited() && (workload_.has_next() || lanes_.ready() > 0))
        next = std::min(next.value_or(Time::max()), rate_.next());
    return next;
}

std::string_view Dispatcher::lane_of(Ref ref, std::string& room) const {
    if (keyed(ref)) return event(ref).key();
    room.assign(1, '\0');  // as no key begins
    room += std::to_string(ref.work) + ":" + std::to_string(ref.slot);
    return room;
}

// Whether an earlier event of the key is parked, so that this one must be parked too.
bool Dispatcher::behind_parked(Ref ref) const {
    return !parked_keys_.empty() && keyed(ref) &&
           parked_keys_.hold_back(event(ref).key(), ref.work, workload_.batch(ref).parked);
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
    while (sending_ && workload_.has_next() && room(now)) {
        const Ref ref = workload_.next();
        if (ref.slot == 0) parked_keys_.heeded(workload_.batch(ref).parks_heeded);
        workload_.begin_next();
        route(ref, now);
        if (outgoing_.size() >= preferred_batch_) send();
    }
}

// Send an event, or let it wait in its lane.
void Dispatcher::route(Ref ref, Time now) {
    if (transformer_.wants && !transformer_.wants(event(ref))) {
        workload_.slot(ref).finish();
        ++counts_.filtered;
    } else if (behind_parked(ref)) {
        fail(ref, {}, Failure::Kind::blocked);
    } else if (tracking_ && keyed(ref)) {
        const std::string_view name = event(ref).key();
        Lane& lane = lanes_.make(name);
        if (!lane.waiting.empty() || now < lane.not_before || !lanes_.can_send(lane)) {
            lane.waiting.push_back(ref);
        } else {
            launch(ref, &lane, now);
            if (lane.flying == 0) lanes_.offer(name, now);
        }
    } else {
        launch(ref, nullptr, now);
    }
}

void Dispatcher::launch(Ref ref, Lane* lane, Time now) {
    if (behind_parked(ref)) return fail(ref, {}, Failure::Kind::blocked);
    Slot& slot = workload_.slot(ref);
    blame_.sent(slot.record);
    if (const std::string error = render(ref); !error.empty()) {
        refuse(ref, error, now);
        std::string room;
        if (lane == nullptr && tracking_) lanes_.offer(lane_of(ref, room), now);
        return;
    }
    if (slot.state == SlotState::done) return;
    rate_.sent();
    breaker_.sent();
    last_sent_ = std::max(last_sent_, ref);
    slot.state = SlotState::flying;
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
    Slot& slot = workload_.slot(ref);
    const std::size_t first = outgoing_.size();
    std::string error;
    if (const std::size_t bytes = event(ref).too_large; bytes > 0) return words_for_too_large(bytes);
    const std::size_t most = sink_takes();
    try {
        make_messages(ref);
        if (outgoing_.size() - first > max_parts) error = "more than 255 destinations";
    } catch (const Error& refused) {
        error = refused.what();
    }
    std::size_t kept = first;
    for (std::size_t i = first; i < outgoing_.size() && error.empty(); ++i) {
        const std::size_t part = i - first;
        if (part < 64 && (slot.delivered_parts >> part & 1) != 0) continue;
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
    slot.parts = static_cast<std::uint16_t>(kept - first);
    in_flight_ += slot.parts;
    if (slot.parts == 0) slot.state = SlotState::done;
    if (slot.trace) spans_->sent(*slot.trace, {outgoing_.data() + first, slot.parts});
    return {};
}

// Let the event's messages carry its trace, where there is one to tell of.
void Dispatcher::make_messages(Ref ref) {
    Slot& slot = workload_.slot(ref);
    const Event& given = event(ref);
    if (spans_ && !slot.trace) {
        const bool again = given.attempt > 1 || workload_.batch(ref).parked || slot.record.tries > 1;
        slot.trace = spans_->begin(given, again, workload_.read_at(ref));
    }
    if (!slot.trace) return transformer_.render(given, outgoing_, slot.storage);
    spans_->prepare(*slot.trace);
    Event traced = given;
    traced.traceparent = slot.trace->traceparent;
    transformer_.render(traced, outgoing_, slot.storage);
}

// Judge an event that cannot be made into messages.
void Dispatcher::refuse(Ref ref, const std::string& error, Time now) {
    // Only other settings help, and they make a new pipeline.
    if (policy_.on_poison == OnPoison::retry)
        throw Halted("message " + std::string(event(ref).source_id) + " cannot be sent: " + error,
                     "mend the sink's settings");
    Slot& slot = workload_.slot(ref);
    slot.fault = Fault::event;
    slot.refusal = std::make_unique<Refusal>(Refusal{error, {}});
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
    const Ref ref = workload_.of_ticket(delivery.ticket);
    const std::size_t part = part_of(delivery.ticket);
    Slot& slot = workload_.slot(ref);
    --in_flight_;
    --slot.parts;
    if (delivery.verdict == Verdict::delivered) {
        blame_.delivered();
        if (breaker_.delivered()) {
            blame_.outage_is_over();
            lanes_.welcome_back(now);
        }
        if (!trouble_.empty()) trouble_ = {};
        if (part < 64) slot.delivered_parts |= 1ULL << part;
    } else {
        note_failure(slot, delivery, now);
    }
    if (slot.parts == 0) landed(ref, now);
}

void Dispatcher::note_failure(Slot& slot, const Delivery& delivery, Time now) {
    const bool rejected = delivery.verdict == Verdict::rejected;
    const Fault fault = delivery.verdict == Verdict::shut                  ? Fault::destination
                        : rejected && policy_.on_poison != OnPoison::retry ? Fault::event
                                                                           : Fault::moment;
    if (!slot.fault || *slot.fault <= fault) {
        slot.fault = fault;
        slot.refusal = std::make_unique<Refusal>(Refusal{delivery.error, delivery.retry_after});
    }
    ++counts_.came_back[static_cast<std::size_t>(fault)];
    if (fault != Fault::event) trouble_ = {delivery.error, fault};
    if (rejected && !blame_.streak().full())
        breaker_.rejected();
    else
        breaker_.failed(now, random_);
}

// All messages of an event have come back.
void Dispatcher::landed(Ref ref, Time now) {
    Slot& slot = workload_.slot(ref);
    if (slot.trace)
        spans_->came_back(*slot.trace, slot.fault, slot.fault ? slot.refusal->error : std::string());
    const bool may_wait = slot.fault && (*slot.fault != Fault::event || blame_.streak().full());
    if (may_wait && !tracking_) start_tracking();
    std::string room;
    const std::string_view name = tracking_ ? lane_of(ref, room) : std::string_view();
    if (tracking_) {
        Lane* lane = lanes_.find(name);
        if (lane != nullptr && lane->flying > 0) --lane->flying;
    }
    if (slot.fault) {
        judge(ref, now);
    } else {
        slot.finish();
        ++counts_.delivered;
        note_latency(event(ref));
        if (on_delivered_) on_delivered_(event(ref));
    }
    if (tracking_) lanes_.offer(name, now);
}

void Dispatcher::note_latency(const Event& delivered) {
    if (delivered.occurred_at == Timestamp{}) return;
    const std::chrono::duration<double> latency = told_at_ - delivered.occurred_at;
    counts_.latency.add(std::max(latency.count(), 0.0));  // the clocks of two machines may differ
}

// Decide what becomes of an event that did not get through.
void Dispatcher::judge(Ref ref, Time now) {
    Slot& slot = workload_.slot(ref);
    const Fault fault = *std::exchange(slot.fault, std::nullopt);
    std::string room;
    const std::string_view name = lane_of(ref, room);
    const Lane* lane = lanes_.find(name);
    const bool first = lane == nullptr || lane->waiting.empty() || ref < lane->waiting.front();
    Ruling ruling = blame_.judge(slot.record, fault, first);
    if (ruling == Ruling::bury) return fail(ref, slot.refusal->error, Failure::Kind::dead);
    if (behind_parked(ref)) return fail(ref, {}, Failure::Kind::blocked);
    if (ruling == Ruling::ask_sink)
        ruling = alone(ref, name) && sink_answers() ? blame_.sink_is_up() : Ruling::await_sink;
    if (ruling == Ruling::park) return fail(ref, slot.refusal->error, Failure::Kind::retry);
    await_turn(ref, name, now, ruling);
}

// Let it go first in its lane again, after a while.
void Dispatcher::await_turn(Ref ref, std::string_view name, Time now, Ruling ruling) {
    Slot& slot = workload_.slot(ref);
    slot.state = SlotState::waiting;
    ++counts_.retried;
    Lane& lane = lanes_.make(name);
    const auto at_least = slot.refusal->retry_after.value_or(0ms);
    lane.when_back = ruling == Ruling::wait ? std::nullopt : std::optional(now + at_least);
    lane.waiting.insert(ref);
    lane.failed = true;
    const auto pause = policy_.backoff.delay(slot.record.tries, random_);
    lane.not_before = std::max(lane.not_before, now + std::max(pause, at_least));
}

// Whether only this event, and those that wait behind it, are there to be sent.
bool Dispatcher::alone(Ref ref, std::string_view name) {
    bool others = false;
    std::string room;
    workload_.each_unsettled([&](Ref other, const Slot& slot) {
        if (slot.state == SlotState::done || other == ref) return true;
        others = other < ref || lane_of(other, room) != name;
        return !others;
    });
    return !others;
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
    const Failure& noted = workload_.fail(ref, std::move(error), kind);
    ++(kind == Failure::Kind::dead    ? counts_.dead
       : kind == Failure::Kind::retry ? counts_.parked
                                      : counts_.blocked);
    if (kind != Failure::Kind::blocked) {
        blame_.gave_up(noted.error);
        if (on_failure_) on_failure_(noted);
    }
    if (holds_key(noted)) hold_back(ref);
}

// Whether the later events of the key wait for this one.
bool Dispatcher::holds_key(const Failure& failure) const {
    return ordered_ && !failure.event->key().empty() &&
           (failure.kind != Failure::Kind::dead || policy_.on_poison == OnPoison::block_key);
}

// Let no later event of the key overtake one that is parked.
void Dispatcher::hold_back(Ref ref) {
    const std::string name(event(ref).key());
    parked_keys_.gave_up(name, ref.work);
    Lane* lane = lanes_.find(name);
    if (lane == nullptr) return;
    for (const Ref other : lane->waiting.cut_behind(ref)) {
        if (workload_.batch(other).parked && other.work != ref.work) {
            lane->waiting.push_back(other);  // it was leased after this one was parked: it is its turn
        } else {
            fail(other, {}, Failure::Kind::blocked);
        }
    }
}

// From the first failure on it must be known what flies of each key.
void Dispatcher::start_tracking() {
    tracking_ = true;
    tracked_since_ = Clock::now();
    workload_.each_unsettled([this](Ref ref, const Slot& slot) {
        if (slot.state == SlotState::flying && keyed(ref)) ++lanes_.make(event(ref).key()).flying;
        return true;
    });
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
    while (auto part = workload_.take_settled()) {
        if (!part->traces.empty()) tell_settled(*part);
        if (!part->failures.empty()) ++parks_;
        for (const auto& failure : part->failures)
            if (holds_key(failure)) parked_keys_.settled(failure.event->key(), parks_);
        checkpoint_.settle(part->batch, part->done, std::move(part->failures));
    }
}

void Dispatcher::tell_settled(const Settled& part) const {
    for (const auto& [settled, trace] : part.traces) {
        const auto failure = std::find_if(part.failures.begin(), part.failures.end(),
                                          [&](const Failure& failed) { return failed.event == settled; });
        spans_->settled(*trace, *settled, failure == part.failures.end() ? nullptr : &*failure);
    }
}

}  // namespace baton::relay
