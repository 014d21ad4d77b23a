// Writes an invoice for every order placed, once, until SIGTERM: group_consumer CONNINFO
//
// Needs: what publisher.cpp needs, and
//        create table invoices (order_id bigint primary key, total bigint);
//        select baton.create_consumer_group('billing', 'order_events', 'earliest');

#include <baton/group_consumer.hpp>

#include "shop.hpp"
#include "until_signal.hpp"

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: group_consumer CONNINFO\n";
        return 2;
    }
    baton::GroupConsumer consumer(
        "billing", {.conninfo = argv[1], .on_incident = log_incident},
        baton::Handlers()
            .on<OrderPlaced>([](baton::Transaction& tx, const OrderPlaced& placed, const baton::Delivery&) {
                if (placed.total < 0) throw baton::Reject("an order cannot cost less than nothing");
                tx.query("insert into invoices values ($1, $2)", {placed.order, placed.total});
            })
            .ignore_others());
    return run_until_signal(consumer);
}
