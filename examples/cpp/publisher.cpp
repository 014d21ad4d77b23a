// Places an order and publishes the event, in one transaction: publisher CONNINFO ORDER TOTAL
//
// Needs: create table orders (id bigint primary key, total bigint, paid boolean not null default false);
//        select baton.create_outbox('order_events');

#include <libpq-fe.h>

#include <baton/outbox.hpp>
#include <iostream>
#include <memory>

#include "shop.hpp"

namespace {

using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;

void run(PGconn* db, const char* sql, std::initializer_list<const char*> values = {}) {
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexecParams(db, sql, static_cast<int>(values.size()), nullptr, std::data(values), nullptr, nullptr,
                     0),
        &PQclear);
    if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) throw std::runtime_error(PQerrorMessage(db));
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 4) throw std::runtime_error("usage: publisher CONNINFO ORDER TOTAL");
    const Connection db(PQconnectdb(argv[1]), &PQfinish);
    if (PQstatus(db.get()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(db.get()));

    run(db.get(), "begin");
    run(db.get(), "insert into orders (id, total) values ($1, $2)", {argv[2], argv[3]});
    const auto published = baton::Outbox("order_events")
                               .publish(db.get(), OrderPlaced{std::stol(argv[2]), std::stol(argv[3])},
                                        {.aggregate_type = "order", .aggregate_id = argv[2]});
    run(db.get(), "commit");  // the order and its event: both, or neither
    std::cout << published.event_id.str() << "\n";
} catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
