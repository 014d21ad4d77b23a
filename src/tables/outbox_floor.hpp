#pragma once
// A floor (sql/floors.sql): what is known of the ids that are to come. It bounds the search for the next
// window.

#include <cstdint>
#include <optional>
#include <string>

#include "postgres/connection.hpp"

namespace baton::tables {

// The floor of the relay's position, and when to ask the server for another one.
class OutboxFloor {
  public:
    void take(std::int64_t id, std::string xid) { known_ = Known{id, std::move(xid)}; }
    void forget() { known_.reset(); }

    // Add the floor's id and transaction to the parameters of a statement that opens a window, or two nulls
    // when the floor is so far behind that it is of no use.
    void add_to(postgres::Params& params, std::int64_t after_id) const {
        if (known_ && after_id - known_->id <= useless_after) {
            params.push_back(known_->id);
            params.push_back(known_->xid);
        } else {
            params.insert(params.end(), 2, std::nullopt);
        }
    }

    // Say whether the floor is so old that another one is worth the question. A tenant's group that finds
    // nothing of its own cannot tell how far others have come, so empty reads count too.
    bool wants_another(std::int64_t after_id, bool found_events) {
        empty_reads_ = found_events ? 0 : empty_reads_ + 1;
        const bool is_old =
            !known_ || after_id - known_->id >= old_after || empty_reads_ >= old_after_empty_reads;
        return !asking_ && is_old;
    }
    void asked() {
        asking_ = true;
        empty_reads_ = 0;
    }
    void answered() { asking_ = false; }

  private:
    static constexpr std::int64_t old_after = 256;  // ids behind what was read
    static constexpr int old_after_empty_reads = 8;
    static constexpr std::int64_t useless_after = 10'000;

    struct Known {
        std::int64_t id;
        std::string xid;
    };
    std::optional<Known> known_;
    bool asking_ = false;
    int empty_reads_ = 0;
};

}  // namespace baton::tables
