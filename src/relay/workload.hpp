#pragma once
// The batches in a dispatcher's hands. Each event waits, is in flight, or is done. Events are begun in order.
// A batch is settled from its beginning, and leaves when all its events are settled.

#include <algorithm>
#include <deque>
#include <memory>

#include "relay/blame.hpp"
#include "relay/io.hpp"
#include "relay/lanes.hpp"
#include "relay/spans.hpp"

namespace baton::relay {

enum class SlotState : std::uint8_t { waiting, flying, done };

struct Refusal {
    std::string error;
    std::optional<milliseconds> retry_after;
};

// What is known about one event.
struct Slot {
    SlotState state = SlotState::waiting;
    std::uint16_t parts = 0;            // messages of the event that are in flight
    std::optional<Fault> fault;         // why a message of the event came back
    std::uint64_t delivered_parts = 0;  // a bit for each message that need not be sent again
    Record record;
    std::string storage;                // of a body that is not the payload itself
    std::unique_ptr<Refusal> refusal;   // what the sink said last
    std::unique_ptr<EventTrace> trace;  // null: nothing is told of the event

    void finish() {
        state = SlotState::done;
        std::string().swap(storage);
    }
};

// A part of a batch that is settled, from its beginning on.
struct Settled {
    BatchPtr batch;
    std::size_t done = 0;
    std::vector<Failure> failures;  // among the newly settled events, in order
    struct Traced {
        const Event* event;
        std::unique_ptr<EventTrace> trace;
    };
    std::vector<Traced> traces;  // likewise
};

class Workload {
  public:
    void add(BatchPtr batch, Span::Time read_at = {});

    bool empty() const { return works_.empty(); }
    std::size_t bytes() const { return bytes_; }
    std::size_t unsettled() const;

    // True when there is an event that was not begun.
    bool has_next() const { return cursor_ < works_.size(); }
    // The next event to be begun. Call this only when has_next().
    Ref next() const { return {works_[cursor_].number, static_cast<std::uint32_t>(cursor_slot_)}; }
    void begin_next() {
        ++cursor_slot_;
        skip_what_is_begun();
    }

    const Batch& batch(Ref ref) const { return *work(ref).batch; }
    const Event& event(Ref ref) const { return work(ref).batch->events[ref.slot]; }
    Span::Time read_at(Ref ref) const { return work(ref).read_at; }
    Slot& slot(Ref ref) { return work(ref).slots[ref.slot]; }

    // Note that the event is done because it failed.
    const Failure& fail(Ref ref, std::string error, Failure::Kind kind);
    // The next part that is settled and was not returned before.
    std::optional<Settled> take_settled();

    // Call `visit(ref, slot)` for each event that is not settled, in order, until `visit` returns false.
    template <class Visit>
    void each_unsettled(Visit&& visit) const;

    // The event of a ticket. The event must not be settled yet.
    Ref of_ticket(std::uint64_t ticket) const;

  private:
    struct Work {
        BatchPtr batch;
        std::uint64_t number = 0;
        Span::Time read_at{};
        std::vector<Slot> slots;
        std::size_t settled = 0;
        std::vector<Failure> failures;  // of the part that is not settled yet, in order
    };
    Work& work(Ref ref) { return works_[ref.work - works_.front().number]; }
    const Work& work(Ref ref) const { return works_[ref.work - works_.front().number]; }
    void skip_what_is_begun() {
        while (cursor_ < works_.size() && cursor_slot_ == works_[cursor_].slots.size()) {
            ++cursor_;
            cursor_slot_ = 0;
        }
    }

    std::deque<Work> works_;
    std::uint64_t next_number_ = 0;  // of the next batch, once there was one
    std::size_t bytes_ = 0;
    std::size_t cursor_ = 0;  // the work from which events are begun next, an index into works_
    std::size_t cursor_slot_ = 0;
};

// A ticket holds the low half of a batch's number, a place in the batch, and a message's number.
inline std::uint64_t ticket_of(Ref ref, std::size_t part) {
    return (ref.work << 32) | (static_cast<std::uint64_t>(ref.slot) << 8) | part;
}
inline std::size_t part_of(std::uint64_t ticket) {
    return ticket & 0xff;
}
constexpr std::size_t max_parts = 255;

template <class Visit>
void Workload::each_unsettled(Visit&& visit) const {
    for (const auto& work : works_)
        for (auto i = static_cast<std::uint32_t>(work.settled); i < work.slots.size(); ++i)
            if (!visit(Ref{work.number, i}, work.slots[i])) return;
}

}  // namespace baton::relay
