#pragma once
// Publishing: an event is one insert in your own transaction.
//
//   PGconn* db = ...;
//   PQexec(db, "begin");
//   ...                                                   // your change
//   baton::Outbox("order_events").publish(db, {.type = "order.placed", .payload = R"({"order": 7})"});
//   PQexec(db, "commit");                                 // both, or neither
//
// Nothing here begins, commits or rolls back. What the server refuses is thrown as SqlError, and then the
// transaction has failed, as after any statement. An Outbox is a name and no more: make it once or every
// time, copy it, share it between threads; a connection is used by one thread at a time, as always.
//
// For a round trip less, see statement() and enqueue(). With libpqxx, see baton/pqxx.hpp.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "baton/codec.hpp"
#include "baton/event.hpp"
#include "baton/export.hpp"

// libpq's own names, so that its header is only needed where you call it.
typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;

namespace baton {

// What became of an event. A duplicate was not published again: `id` is the first one's place in the log, and
// `event_id` the one that was made in vain.
struct Published {
    std::int64_t id = 0;
    EventId event_id{""};
    bool duplicate = false;
};

// A statement that publishes, for whoever sends it himself: through a driver of his own, or as a part of a
// statement of his own. Parameters are in text format, empty ones are NULL.
struct Statement {
    std::string sql;  // insert into ... returning id: one row per event, in order; none for a duplicate
    std::vector<std::optional<std::string>> parameters;
    std::vector<EventId> event_ids;
};

class BATON_API Outbox {
  public:
    // The name as SQL writes it: order_events, shop.order_events, "Odd Name". Throws UsageError when it is
    // none.
    explicit Outbox(std::string_view name);

    // Publish in the transaction that is open on `db`. Throws UsageError when none is: then the event and
    // what it tells of would not be one.
    Published publish(PGconn* db, const NewEvent& event) const;

    // Publish many, in this order, with as few statements as possible: one, up to thousands of events, unless
    // some have idempotency keys.
    std::vector<Published> publish(PGconn* db, std::span<const NewEvent> events) const;

    // Publish a value of a type that has a Codec.
    template <Typed T>
    Published publish(PGconn* db, const T& value, NewEvent event = {}) const {
        return publish(db, as_event(value, std::move(event)));
    }

    // Send without waiting, on a connection in libpq's pipeline mode: no round trip of its own. The answer
    // comes among your others, as rows of one column; a duplicate gives no row. `event.id` is what you get
    // back.
    EventId enqueue(PGconn* db, const NewEvent& event) const;

    // Write the statement, its parameters numbered from `first_parameter`. As a part of yours it costs
    // nothing beyond it:
    //
    //   auto event = outbox.statement({&placed, 1}, 3);
    //   "with placed as (insert into orders values ($1, $2)) " + event.sql
    Statement statement(std::span<const NewEvent> events, int first_parameter = 1) const;

    // The name, quoted.
    const std::string& table() const noexcept { return table_; }

  private:
    std::string table_;
};

}  // namespace baton
