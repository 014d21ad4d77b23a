#pragma once
// A worker of an inbox: one transaction handles a message and marks its row as done.
//
//   baton::InboxWorker worker("payments", {.conninfo = "dbname=shop"},
//       [](baton::Transaction& tx, const baton::Delivery& message) {
//           tx.query("update orders set paid = true where id = ($1::jsonb ->> 'order')::bigint",
//           {message.payload}); tx.publish(baton::Outbox("order_events"), {.type = "order.paid", .payload =
//           message.payload});
//       });
//   worker.run(stop_source.get_token());
//
// An ordered inbox offers only the next message of each aggregate, and nothing of an aggregate whose message
// is being handled. A plain inbox offers everything that is due. The worker is the same for both, and for
// adopted inboxes.

#include "baton/worker.hpp"

namespace baton {

class BATON_API InboxWorker : public Worker {
  public:
    // `inbox` is the name as SQL writes it. The inbox must exist when run() is called: baton.create_inbox().
    InboxWorker(std::string inbox, WorkOptions options, Handler handler);
};

}  // namespace baton
