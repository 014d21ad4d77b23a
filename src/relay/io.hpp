#pragma once
// The relay's data path in three interfaces: a Source gives events, a Sink takes messages, a Checkpoint
// remembers what became of them. Everything else in src/relay stands behind these.
//
// Lease.     A source that belongs to one relay for a time says when that time is nearly over (may_send). The
//            sink is dropped then with all it has in flight, so that nothing is sent after a successor began.
// Delivery.  An event is settled only after the sink reported it delivered, or after it was parked. Whatever
//            was read and not settled is read again by the next owner: at least once, never lost.
// Order.     A source gives events in delivery order. Messages with one key are sent in that order, and the
//            next one of a key is sent only when the sink says that a failure of the one before cannot let it
//            overtake (SinkTraits::keeps_order_after_failure), or when the one before is done.
// Pressure.  A pipeline keeps at most `max_in_flight` messages and `max_bytes` of batches; a source is not
//            read while that is full. A sink never queues beyond what it was given.
// Lifetime.  A batch lives until its last event is settled; all views in its events and messages live as
//            long.
// Threads.   A source is read by one thread, a sink is driven by one thread (which may be another); a
//            checkpoint is called from the sink's thread and must not wait for the source's.

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

// What a source read in one go. The subclass owns the bytes. A batch may be empty: it only moves the
// position.
struct Batch {
    virtual ~Batch() = default;
    std::uint64_t number = 0;  // consecutive within one source
    std::vector<Event> events;
    std::size_t bytes = 0;
    bool parked = false;  // these were parked and are due again
    // How many calls of Checkpoint::settle with failures were heeded when these events were read: their keys'
    // later events are not among them, unless they may go.
    std::uint64_t parks_heeded = 0;
};
using BatchPtr = std::shared_ptr<const Batch>;

// A source may not keep what it gave any longer, though the sink has not taken it: the source gives it back.
// The pipeline begins anew when the sink answers.
class HeldTooLong : public Error {
  public:
    using Error::Error;
};

class Source {
  public:
    virtual ~Source() = default;
    // Return the next events, waiting up to `patience` for some; null when there were none.
    // Throws ConnectionError when the server is gone, LeaseLost when another relay owns the source now,
    // HeldTooLong when events were not settled in time: the pipeline then makes a new source, which starts at
    // the last checkpoint.
    virtual BatchPtr read(milliseconds patience) = 0;
    // Do what cannot wait while nothing is read, for up to `patience`: write positions, renew the lease.
    // Throws like read().
    virtual void tend(milliseconds patience) = 0;
    // Give the source back, so that another relay need not wait. The last call.
    virtual void close() {}
    // Make a waiting call return. May be called from any thread.
    virtual void interrupt() = 0;
    // Give up what is not done by then: every call that still waits throws ConnectionError. May be called
    // from any thread.
    virtual void end_by(std::chrono::steady_clock::time_point /*end*/) {}
    // False shortly before the lease may end: the session is over, nothing may be sent or be on its way any
    // more. May be called from any thread.
    virtual bool may_send() const { return true; }
    // Load nothing of events with more bytes than this: the sink would not take them. 0: no limit is known.
    // May be called from any thread.
    virtual void load_at_most(std::size_t /*bytes*/) {}
    // Whether events of one key must keep their order.
    virtual bool ordered() const { return true; }
    // What hinders it right now, while it tries again by itself; empty when all is well. May be called from
    // any thread.
    virtual std::string trouble() const { return {}; }
};

// An event that the sink could not take, or that may not go because an earlier one of its key could not.
struct Failure {
    enum class Kind { retry, dead, blocked };
    const Event* event;
    std::string error;  // in the broker's own words
    Kind kind;
};

class Checkpoint {
  public:
    virtual ~Checkpoint() = default;
    // Everything of `batch` before event number `done` is settled, apart from the failures named, which are
    // parked. Called in order of batches and, within one, of `done`; may return before it is durable.
    virtual void settle(const BatchPtr& batch, std::size_t done, std::vector<Failure> failures) = 0;
    // Wait until everything settled so far is durable.
    virtual void flush() = 0;
};

// A source and the checkpoint of what it reads.
class Feed : public Source, public Checkpoint {};

enum class Verdict {
    delivered,  // acknowledged at the broker's durable level
    retry,      // not taken, may be taken later: unreachable, throttled, no leader
    shut,       // nothing like it is taken until somebody mends that: login or right refused, no such topic
    rejected,   // will never be taken, for its own sake: too large, malformed
};

struct Delivery {
    std::uint64_t ticket;
    Verdict verdict;
    std::string error;                        // empty when delivered
    std::optional<milliseconds> retry_after;  // when the broker said so
};

struct SinkTraits {
    // A message that fails takes every later one of its key and destination with it, so many of one key may
    // be in flight.
    bool keeps_order_after_failure = false;
    // It rejects nothing that comes from a broker: what it cannot take for its content, it keeps as a dead
    // letter, and everything else it tries again.
    bool keeps_poison = false;
    // More than this is rejected before it is sent; 0: no limit known. Some learn it when they connect.
    std::size_t max_message_bytes = 0;
    // Sending in larger groups than this gains nothing.
    std::size_t preferred_batch = 250;
};

class Sink {
  public:
    virtual ~Sink() = default;
    // Send only while this says so. A sink that had to wait in a call, to connect say, asks again before it
    // sends: the source's lease may be over.
    void send_while(std::function<bool()> may_send) { may_send_ = std::move(may_send); }
    virtual SinkTraits traits() const = 0;
    // Connect and verify permissions and destinations as far as possible without sending. Throws Error in
    // plain words.
    virtual void check() = 0;
    // Take messages and start sending them. Connects when needed. Does not throw for what a broker may do:
    // every message's fate comes out of collect(), exactly once.
    virtual void send(std::span<const Message> messages) = 0;
    // Append what has become known; waits up to `patience` for the first when nothing is known yet.
    virtual void collect(std::vector<Delivery>& deliveries, milliseconds patience) = 0;
    // What hinders it right now, in the broker's own words, while it tries again by itself; empty when all is
    // well.
    virtual std::string trouble() { return {}; }

  protected:
    bool may_send() const { return !may_send_ || may_send_(); }

  private:
    std::function<bool()> may_send_;
};

}  // namespace baton::relay
