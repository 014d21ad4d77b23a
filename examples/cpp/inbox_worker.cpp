// Books payments that came in, once each, and tells that the order is paid, until SIGTERM: inbox_worker
// CONNINFO
//
// Needs: what publisher.cpp needs, and select baton.create_inbox('payments');

#include <baton/inbox_worker.hpp>

#include "shop.hpp"
#include "until_signal.hpp"

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: inbox_worker CONNINFO\n";
        return 2;
    }
    const baton::Outbox events("order_events");
    baton::InboxWorker worker(
        "payments", {.conninfo = argv[1], .on_incident = log_incident},
        baton::Handlers().on<PaymentReceived>([&](baton::Transaction& tx, const PaymentReceived& payment,
                                                  const baton::Delivery& message) {
            const auto order =
                tx.query("update orders set paid = true where id = $1 and total <= $2 returning id",
                         {payment.order, payment.amount});
            // The order may still be on its way to us: the message comes again.
            if (order.empty()) throw baton::Retry("no such order, or not enough");
            tx.publish(events, baton::caused_by(message, {.type = "order.paid",
                                                          .payload = message.payload,
                                                          .aggregate_type = "order",
                                                          .aggregate_id = std::to_string(payment.order)}));
        }));
    return run_until_signal(worker);
}
