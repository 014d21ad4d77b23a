#pragma once
// The relay's data path in three interfaces: a Source gives events, a Sink takes messages, a Checkpoint
// remembers what became of the events. All other code in src/relay uses these interfaces.
//
// Lease.     A source may belong to one relay for a limited time. may_send() says when this time is nearly
// over.
//            Then the sink is dropped with everything in flight, so nothing is sent after a successor began.
// Delivery.  An event is settled only after the sink reported its delivery, or after the event was parked.
// The
//            next owner reads again what was read and not settled: at least once, never lost.
// Order.     A source gives events in delivery order, and messages of one key are sent in this order. The
// next
//            message of a key is sent when the message before it is done. A sink in which a later message
//            cannot overtake a failed one (SinkTraits::keeps_order_after_failure) may have several in flight.
// Pressure.  A pipeline keeps at most `max_in_flight` messages and `max_bytes` of batches, and reads no
// source
//            beyond that. A sink queues only the messages that it was given.
// Lifetime.  A batch lives until its last event is settled, and so do all views in its events and messages.
// Threads.   One thread reads a source. One thread, maybe another, drives a sink. The sink's thread calls the
//            checkpoint, which must not wait for the source's thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "event/event.hpp"

namespace baton::relay {

using std::chrono::milliseconds;

// Events that a source read in one go. The subclass owns the bytes. An empty batch only moves the position.
struct Batch {
    virtual ~Batch() = default;
    std::uint64_t number = 0;  // consecutive within one source
    std::vector<Event> events;
    std::size_t bytes = 0;
    bool parked = false;  // these events were parked and are due again
    // How many calls of Checkpoint::settle with failures the source knew of when it read these events. Later
    // events of the failed keys are not among them, unless they may go.
    std::uint64_t parks_heeded = 0;
};
using BatchPtr = std::shared_ptr<const Batch>;

// A source may not keep its events any longer, although the sink has not taken them: the source gives them
// back. The pipeline begins anew when the sink answers.
class HeldTooLong : public Error {
  public:
    using Error::Error;
};

class Source {
  public:
    virtual ~Source() = default;
    // Return the next events. Waits up to `patience` for them; null when there are none. Throws
    // ConnectionError when the server is gone, LeaseLost when another relay owns the source now, HeldTooLong
    // when events were not settled in time. Then the pipeline makes a new source, which starts at the last
    // checkpoint.
    virtual BatchPtr read(milliseconds patience) = 0;
    // Do for up to `patience` what cannot wait while nothing is read: write positions, renew the lease.
    // Throws like read().
    virtual void tend(milliseconds patience) = 0;
    // Give the source back, so that another relay need not wait. The last call.
    virtual void close() {}
    // Make a waiting call return. May be called from any thread.
    virtual void interrupt() = 0;
    // From `end` on every call that waits throws ConnectionError. May be called from any thread.
    virtual void end_by(std::chrono::steady_clock::time_point /*end*/) {}
    // False shortly before the lease may end. Then the session is over, and nothing more may be sent. May be
    // called from any thread.
    virtual bool may_send() const { return true; }
    // Load no payload of events with more bytes than this: the sink would not take them. 0: no limit is
    // known. May be called from any thread.
    virtual void load_at_most(std::size_t /*bytes*/) {}
    // Whether events of one key must keep their order.
    virtual bool ordered() const { return true; }
    // What hinders the source right now, while it tries again by itself. Empty when all is well. May be
    // called from any thread.
    virtual std::string trouble() const { return {}; }
};

// An event that the sink could not take, or that may not go because an earlier event of its key could not.
struct Failure {
    enum class Kind { retry, dead, blocked };
    const Event* event;
    std::string error;  // in the broker's own words
    Kind kind;
};

class Checkpoint {
  public:
    virtual ~Checkpoint() = default;
    // All events of `batch` before number `done` are settled; `failures` among them are parked. Called in the
    // order of batches and, within a batch, in the order of `done`. May return before the note is durable.
    virtual void settle(const BatchPtr& batch, std::size_t done, std::vector<Failure> failures) = 0;
    // Wait until everything settled so far is durable.
    virtual void flush() = 0;
};

// A source and the checkpoint of what it reads.
class Feed : public Source, public Checkpoint {};

enum class Verdict {
    delivered,  // acknowledged at the broker's durable level
    retry,      // not taken now, maybe later: unreachable, throttled, no leader
    shut,       // not taken until somebody mends the cause: login or right refused, no such topic
    rejected,   // never taken, because of the message: too large, malformed
};

struct Delivery {
    std::uint64_t ticket;
    Verdict verdict;
    std::string error;                        // empty when delivered
    std::optional<milliseconds> retry_after;  // when the broker said so
};

struct SinkTraits {
    // When a message fails, all later messages of its key and destination fail with it. So many messages of
    // one key may be in flight.
    bool keeps_order_after_failure = false;
    // The sink rejects no event that came from a broker. It keeps an event whose content it cannot take as a
    // dead letter, and tries everything else again.
    bool keeps_poison = false;
    // A larger message is rejected before it is sent. 0: no limit is known. Some sinks learn the limit when
    // they connect.
    std::size_t max_message_bytes = 0;
    // Larger groups of messages than this gain nothing.
    std::size_t preferred_batch = 250;
};

class Sink {
  public:
    virtual ~Sink() = default;
    // Send only while `may_send` returns true. A sink that had to wait in a call, to connect for example,
    // asks again before it sends: the source's lease may be over.
    void send_while(std::function<bool()> may_send) { may_send_ = std::move(may_send); }
    virtual SinkTraits traits() const = 0;
    // Connect and verify permissions and destinations as far as possible without sending. Throws Error in
    // plain words.
    virtual void check() = 0;
    // Take messages and start to send them. Connects when needed. Throws nothing that a broker may cause:
    // collect() tells what became of every message, exactly once.
    virtual void send(std::span<const Message> messages) = 0;
    // Append what is known about messages. When nothing is known yet, wait up to `patience` for the first.
    virtual void collect(std::vector<Delivery>& deliveries, milliseconds patience) = 0;
    // What hinders the sink right now, in the broker's own words, while it tries again by itself. Empty when
    // all is well.
    virtual std::string trouble() { return {}; }

  protected:
    bool may_send() const { return !may_send_ || may_send_(); }

  private:
    std::function<bool()> may_send_;
};

}  // namespace baton::relay
