#include "brokers/broker.hpp"
#include "brokers/null/sink.hpp"

namespace baton::brokers {

Broker null_broker() {
    return {.name = "null", .make_sink = make_null_sink};
}

}  // namespace baton::brokers
