#pragma once
// Publishing: an event is one insert in your own transaction.
//
//   PGconn* db = ...;
//   PQexec(db, "begin");
//   ...                                                   // your change
//   baton::Outbox("order_events").publish(db, {.type = "order.placed", .payload = R"({"order": 7})"});
//   PQexec(db, "commit");                                 // both, or neither
//
// Nothing here begins, commits or rolls back. An error of the server is thrown as SqlError, and then the
// transaction has failed, as after any statement. An Outbox is only a name: make it once or every time, copy
// it, share it between threads. As always, one thread at a time uses a connection.
//
// To save a round trip, see statement() and enqueue(). With libpqxx, see baton/pqxx.hpp.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "baton/codec.hpp"
#include "baton/event.hpp"
#include "baton/export.hpp"

// libpq's own names, so that you need libpq's header only where you call libpq.
typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;

namespace baton {

// What became of an event. A duplicate is not published again: `id` is the place of the first event in the
// log, and `event_id` is an id that nobody uses.
struct Published {
    std::int64_t id = 0;
    EventId event_id{""};
    bool duplicate = false;
};

// A statement that publishes, for a program that sends the statement itself: through another driver, or as a
// part of its own statement. Parameters are in text format; an empty parameter is NULL.
struct Statement {
    std::string sql;  // insert into ... returning id: one row per event, in order; none for a duplicate
    std::vector<std::optional<std::string>> parameters;
    std::vector<EventId> event_ids;
};

class BATON_API Outbox {
  public:
    // `name` is written as in SQL: order_events, shop.order_events, "Odd Name". Throws UsageError when it is
    // no name.
    explicit Outbox(std::string_view name);

    // Publish in the transaction that is open on `db`. Throws UsageError when no transaction is open: then
    // the event and your change would not be committed together.
    Published publish(PGconn* db, const NewEvent& event) const;

    // Publish many events, in this order, with as few statements as possible. One statement is enough for
    // thousands of events, unless some of them have idempotency keys.
    std::vector<Published> publish(PGconn* db, std::span<const NewEvent> events) const;

    // Publish a value of a type that has a Codec.
    template <Typed T>
    Published publish(PGconn* db, const T& value, NewEvent event = {}) const {
        return publish(db, as_event(value, std::move(event)));
    }

    // Send the event without waiting, on a connection in libpq's pipeline mode: this costs no round trip. The
    // answer comes among the answers to your statements, as rows of one column; a duplicate gives no row.
    // Returns `event.id`, or a new id.
    EventId enqueue(PGconn* db, const NewEvent& event) const;

    // Write the statement. Its parameters are numbered from `first_parameter` on. As a part of your own
    // statement it costs no round trip:
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
