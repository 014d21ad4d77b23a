#include "brokers/broker.hpp"
#include "brokers/rabbitmq/audit_place.hpp"
#include "brokers/rabbitmq/form.hpp"
#include "brokers/rabbitmq/sink.hpp"
#include "brokers/rabbitmq/source.hpp"

namespace baton::brokers {

const char* flaw_of_routing_key(std::string_view key) {
    return key.size() > 255 ? "is longer than the 255 bytes that a routing key may have" : nullptr;
}

Broker rabbitmq_broker() {
    return {.name = "rabbitmq",
            .form = rabbitmq_form,
            .make_sink = make_rabbitmq_sink,
            .make_source = make_rabbitmq_source,
            .make_audit_place = make_rabbitmq_place};
}

}  // namespace baton::brokers
