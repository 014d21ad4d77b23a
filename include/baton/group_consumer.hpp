#pragma once
// A member of a consumer group: handles the events of an outbox, each with the group's position in one
// transaction.
//
//   baton::GroupConsumer consumer("billing", {.conninfo = "dbname=shop"},
//       [](baton::Transaction& tx, const baton::Delivery& event) {
//           tx.query("insert into invoices (order_id) values (($1::jsonb ->> 'order')::bigint)",
//           {event.payload});
//       });
//   consumer.run(stop_source.get_token());
//
// The handler's tables must be in the database of the outbox: only then one transaction holds both. Where the
// tables are in another database, let a relay carry the events to an inbox there, and use an InboxWorker.
//
// Order: where the group keeps key order (the default), a handler sees the events of one key in order,
// whatever crashes and whoever takes over. An event that failed holds back the later events of its key until
// it succeeds or is dead.

#include "baton/worker.hpp"

namespace baton {

class BATON_API GroupConsumer : public Worker {
  public:
    // The group must exist when run() is called: baton.create_consumer_group().
    GroupConsumer(std::string group, WorkOptions options, Handler handler);
};

}  // namespace baton
