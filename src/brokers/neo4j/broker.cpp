#include "brokers/broker.hpp"
#include "brokers/neo4j/audit_place.hpp"
#include "brokers/neo4j/sink.hpp"

namespace baton::brokers {

// There is no destination: the statement says what becomes of an event.
Broker neo4j_broker() {
    return {.name = "neo4j", .make_sink = make_neo4j_sink, .make_audit_place = make_neo4j_place};
}

}  // namespace baton::brokers
