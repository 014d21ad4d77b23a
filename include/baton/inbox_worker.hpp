#pragma once
// A worker of an inbox: handles its messages, each with its row in one transaction.
//
//   baton::InboxWorker worker("payments", {.conninfo = "dbname=shop"},
//       [](baton::Transaction& tx, const baton::Delivery& message) {
//           tx.query("update orders set paid = true where id = ($1::jsonb ->> 'order')::bigint",
//           {message.payload}); tx.publish(baton::Outbox("order_events"), {.type = "order.paid", .payload =
//           message.payload});
//       });
//   worker.run(stop_source.get_token());
//
// An ordered inbox offers the next message of each aggregate only, and none while it is being handled; a
// plain one offers everything that is due. The worker is the same for both, and for inboxes that were
// adopted.

#include "baton/worker.hpp"

namespace baton {

class BATON_API InboxWorker : public Worker {
  public:
    // The name as SQL writes it; the inbox must exist when it runs: baton.create_inbox().
    InboxWorker(std::string inbox, WorkOptions options, Handler handler);
};

}  // namespace baton
