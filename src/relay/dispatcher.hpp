#pragma once
// Carries batches through a sink: sends the messages of a key in order, keeps a bounded number in flight,
// tries again what failed for now, and settles each batch from its beginning.
//
// Keys.      While nothing fails and the sink keeps order by itself, messages are sent as they come.
//            Otherwise the messages of one key wait in a lane. One of them is in flight at a time, or
//            several, where a failure at the sink takes the later ones with it. A failed message goes first
//            again.
// Blame.     relay/blame.hpp decides what becomes of an event whose messages came back, by whose fault that
// is.
//            An event that is given up is parked. In an ordered group the later events of its key are parked
//            too.
// Breaker.   After several failures in a row nothing is sent for a while, then one message as a probe. Once a
//            message is delivered again, keys that waited only for the sink go on at once: more waiting would
//            hold the position still while others go ahead.
//
// One thread. The time is an argument, so that tests need not wait.

#include <random>

#include "baton/error.hpp"
#include "relay/breaker.hpp"
#include "relay/histogram.hpp"
#include "relay/lanes.hpp"
#include "relay/parked_keys.hpp"
#include "relay/workload.hpp"

namespace baton::relay {

// What becomes of an event that the sink rejects. `retry` is for sources that cannot keep a rejected event:
// the event is tried for ever.
enum class OnPoison { park, block_key, halt, retry };

struct Policy {
    std::size_t max_in_flight = 10000;
    unsigned attempts = 8;            // tries in a row before an event is parked
    unsigned give_up_limit = 20;      // events given up in a row before no more are given up; 0: no limit
    Backoff backoff;                  // between tries
    unsigned breaker_threshold = 10;  // failures in a row that open the circuit
    Backoff breaker{milliseconds(500), milliseconds(30000)};
    OnPoison on_poison = OnPoison::park;
    double rate = 0;                         // events per second; 0: no limit
    std::size_t max_event_bytes = 16 << 20;  // the source does not load a larger event
};

// A poison message has halted the pipeline, because its policy says so.
class Halted : public Error {
  public:
    using Error::Error;
};

// Turns an event into messages.
struct Transformer {
    std::function<bool(const Event&)> wants;
    // Append the event's messages. Bodies may lie in the text. Throws Error when the event can never be sent.
    std::function<void(const Event&, Messages&, std::string&)> render;
};

struct Counts {
    std::uint64_t delivered = 0;  // events
    std::uint64_t filtered = 0;
    std::uint64_t retried = 0;  // messages that were sent again
    std::uint64_t parked = 0;
    std::uint64_t dead = 0;
    std::uint64_t blocked = 0;
    std::array<std::uint64_t, 3> came_back{};  // messages, by Fault
    Latencies latency;                         // from when an event occurred to its delivery

    Counts& operator+=(const Counts& other);
};

// What hinders a pipeline: the sink's words about messages that came back, or about itself while it keeps
// messages. With Fault::event the pipeline is stopped: so many events were rejected in a row that the events
// cannot be the cause.
struct Trouble {
    std::string words;
    Fault fault = Fault::moment;
    bool empty() const { return words.empty(); }
};

class Dispatcher {
  public:
    using Clock = std::chrono::steady_clock;
    // Called for each event that the sink could not take, before the event is settled.
    using OnFailure = std::function<void(const Failure&)>;
    using OnDelivered = std::function<void(const Event&)>;

    Dispatcher(Sink& sink, Checkpoint& checkpoint, Transformer transformer, Policy policy, bool ordered);

    // `read_at` matters only where the dispatcher tells of its events.
    void add(BatchPtr batch, Span::Time read_at = {}) { workload_.add(std::move(batch), read_at); }
    // Send what may go, take what has become known (waiting up to `patience` when something is in flight),
    // settle. Throws Halted.
    void step(Time now, milliseconds patience);
    // Begin no new event. step() still takes answers, and sends events that lie before an event that was
    // sent: a batch is settled from its beginning, so an event behind a gap would be sent a second time.
    void stop_sending() { sending_ = false; }
    // True when nothing is in flight and no gap can be filled now.
    bool drained() const;

    bool has_room() const { return !workload_.has_next() && in_flight_ < policy_.max_in_flight; }
    bool idle() const { return workload_.empty(); }
    std::size_t in_flight() const { return in_flight_; }
    std::size_t bytes() const { return workload_.bytes(); }
    std::size_t unsettled() const { return workload_.unsettled(); }  // events
    // How many bytes a message may have, as far as the sink knows; 0: no limit known.
    std::size_t sink_takes() const { return sink_.traits().max_message_bytes; }
    // When step() has something to do next, if nothing comes from outside.
    std::optional<Time> next_timer() const;
    const Counts& counts() const { return counts_; }
    // Why nothing gets through now, and whose fault that is. Empty when all is well.
    Trouble trouble() const;
    // Events that were given up in a row, also in the session before.
    const Streak& streak() const { return blame_.streak(); }
    void resume(const Streak& streak) { blame_.resume(streak); }
    bool circuit_open() const { return breaker_.open(); }

    void on_failure(OnFailure handler) { on_failure_ = std::move(handler); }
    void on_delivered(OnDelivered handler) { on_delivered_ = std::move(handler); }
    // Tell of events from now on.
    void trace(EventSpans spans) { spans_.emplace(std::move(spans)); }

  private:
    const Event& event(Ref ref) const { return workload_.event(ref); }
    // The name of an event's lane: the event's key where order matters. An event without a key has a lane of
    // its own, whose name is written into `room`.
    std::string_view lane_of(Ref ref, std::string& room) const;
    bool keyed(Ref ref) const { return ordered_ && !event(ref).key().empty(); }
    bool behind_parked(Ref ref) const;

    bool room(Time now);
    bool may_go(Ref ref) const { return sending_ || ref < last_sent_; }
    void fill(Time now);
    void fill_from_lanes(Time now);
    void fill_from_batches(Time now);
    void route(Ref ref, Time now);
    void launch(Ref ref, Lane* lane, Time now);
    std::string render(Ref ref);
    void make_messages(Ref ref);
    std::string words_for_too_large(std::size_t bytes) const;
    void send();

    void take(const Delivery& delivery, Time now);
    void note_failure(Slot& slot, const Delivery& delivery, Time now);
    void landed(Ref ref, Time now);
    void note_latency(const Event& delivered);
    void judge(Ref ref, Time now);
    void await_turn(Ref ref, std::string_view name, Time now, Ruling ruling);
    void refuse(Ref ref, const std::string& error, Time now);
    bool alone(Ref ref, std::string_view name);
    bool sink_answers();
    void fail(Ref ref, std::string error, Failure::Kind kind);
    bool holds_key(const Failure& failure) const;
    void hold_back(Ref ref);

    void start_tracking();
    void stop_tracking(Time now);
    void settle();
    void tell_settled(const Settled& part) const;

    Sink& sink_;
    Checkpoint& checkpoint_;
    Transformer transformer_;
    Policy policy_;
    const bool ordered_;
    const bool one_per_key_;
    const std::size_t preferred_batch_;
    bool tracking_;  // lanes know what flies
    Time tracked_since_{};
    bool sending_ = true;
    Ref last_sent_{0, 0};  // the latest event that was sent

    Workload workload_;
    Lanes lanes_;
    ParkedKeys parked_keys_;
    std::uint64_t parks_ = 0;  // calls of settle() that had failures
    Messages outgoing_;
    std::vector<Delivery> deliveries_;
    std::size_t in_flight_ = 0;  // messages
    Time now_{};                 // of the last step
    Time heard_at_{};            // when nothing was in flight, or something came back
    Timestamp told_at_{};        // when the sink's last words became known

    Breaker breaker_;
    RateLimit rate_;
    Blame blame_;
    Trouble trouble_;
    Counts counts_;
    OnFailure on_failure_;
    OnDelivered on_delivered_;
    std::optional<EventSpans> spans_;
    std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace baton::relay
