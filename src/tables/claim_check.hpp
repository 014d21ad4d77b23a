#pragma once
// Sends the rows of a claim check: an event of a stream table's outbox whose delta was too large, so that its
// rows wait in a table beside the outbox (sql/stream_claim_check.sql).
//
// The rows are read page by page. A page becomes a part: an event with the fields of the claim check, rows as
// its payload, and the id "<event_id>#<first row>-<last row>".
//
// One.       One part is under way at a time. The next page is read when the part before it is settled. So
//            memory holds one page, and no part overtakes another at any sink.
// Position.  The group moves past the event with its last part, and says in the same transaction that it has
//            the rows. A relay that dies before begins again with the first part.
// Failure.   A part that is given up parks the whole event, and no further part is read. An event that is due
//            again begins with its first part.
// Copies.    An id names the rows of a part. A relay with another limit makes other parts, and nobody takes
//            such a part for a copy.
//
// Only the thread that reads calls this class, apart from settled().

#include <atomic>

#include "postgres/pipe.hpp"
#include "tables/outbox_batch.hpp"

namespace baton::tables {

class ClaimCheck {
  public:
    using Take = std::function<void(std::shared_ptr<OutboxBatch>)>;

    // `rows` is how many rows a part may have; 0: claim checks go as they are.
    ClaimCheck(postgres::Pipe& pipe, std::string relation, int rows)
        : pipe_(pipe), relation_(std::move(relation)), rows_(rows) {}

    // Leave a claim check alone in its batch: drop all events from the first one on, or behind it when it is
    // the first. Returns the ids of what was dropped.
    std::vector<long long> set_apart(OutboxBatch& batch) const;

    // Begin with the only event of a batch.
    void begin(std::shared_ptr<OutboxBatch> whole);
    // True from begin() until the last part is settled.
    bool active() const { return state_ != State::done; }
    // True when the next part may be read.
    bool due() const { return state_ == State::due; }
    // Ask for the next part, of at most `bytes` or a single row. A row of more than `load_limit` bytes is not
    // loaded. `take` gets the part; or the event as it is, when its rows are gone.
    void read(std::int64_t bytes, std::int64_t load_limit, Take take);
    // A batch was settled. Any thread may call this. True when that was a part.
    bool settled(const OutboxBatch& batch, bool failed);

  private:
    enum class State { done, due, under_way };

    std::shared_ptr<OutboxBatch> part_of(postgres::Result page);

    postgres::Pipe& pipe_;
    const std::string relation_;
    const int rows_;
    std::atomic<State> state_{State::done};
    std::shared_ptr<OutboxBatch> whole_;
    int number_ = 0;  // of the part at hand
    int upto_ = 0;    // its last row
};

}  // namespace baton::tables
