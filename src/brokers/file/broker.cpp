#include "brokers/broker.hpp"
#include "brokers/file/audit_place.hpp"
#include "brokers/file/sink.hpp"

namespace baton::brokers {

Broker file_broker() {
    return {.name = "file",
            .form = {.envelope = "json"},
            .make_sink = make_file_sink,
            .make_audit_place = make_file_place};
}

}  // namespace baton::brokers
