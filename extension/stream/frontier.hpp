#pragma once
// The frontier of a stream table: what its last refresh has seen of the changes of its sources.

#include "pg/guard.hpp"

namespace baton::stream {

struct Frontier {
    Datum snapshot;         // 0: a full refresh, which compares with nothing
    bool has_own;           // the refresh ran in a transaction that had changed sources itself,
    FullTransactionId own;  // and had seen these of its changes
    std::int32_t step;
    bool has_time = false;
    TimestampTz time = 0;  // what now() was

    bool is_comparable() const { return snapshot != 0; }

    // Whether a row of a change buffer is known; of a comparable frontier. Only for use inside of pg::call.
    bool has_seen(Datum xid, std::int32_t row_step) const {
        if (has_own && FullTransactionIdEquals(DatumGetFullTransactionId(xid), own)) return row_step <= step;
        return DatumGetBool(DirectFunctionCall2(pg_visible_in_snapshot, xid, snapshot));
    }
};

// Read a frontier, but not its time, from three arguments of an SQL function. The first is not null.
Frontier frontier_from(FunctionCallInfo fcinfo, int first_argument);

// The frontier that is_unseen(xid, step) means: that of the refresh which runs now. A refresh may run within
// another's statement, so the scope puts back what was there before.
class FrontierScope {
  public:
    explicit FrontierScope(const Frontier& frontier) noexcept;
    ~FrontierScope();
    FrontierScope(const FrontierScope&) = delete;
    FrontierScope& operator=(const FrontierScope&) = delete;

  private:
    const Frontier* before_;
};

}  // namespace baton::stream
