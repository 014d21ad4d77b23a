#include "brokers/broker.hpp"
#include "brokers/postgres/audit_place.hpp"
#include "brokers/postgres/sink.hpp"

namespace baton::brokers {

Broker postgres_broker() {
    return {.name = "postgres",
            .form = {.destination = "inbox", .destination_needed = true},
            .make_sink = make_postgres_sink,
            .make_audit_place = make_postgres_place,
            .has_tables = true,
            .traced_as = "baton"};
}

}  // namespace baton::brokers
