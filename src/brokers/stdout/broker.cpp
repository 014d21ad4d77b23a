#include "brokers/broker.hpp"
#include "brokers/stdout/sink.hpp"

namespace baton::brokers {

Broker stdout_broker() {
    return {.name = "stdout", .form = {.envelope = "json"}, .make_sink = make_stdout_sink};
}

}  // namespace baton::brokers
