#include "brokers/broker.hpp"
#include "brokers/mqtt/audit_place.hpp"
#include "brokers/mqtt/form.hpp"
#include "brokers/mqtt/sink.hpp"
#include "brokers/mqtt/source.hpp"

namespace baton::brokers {

Broker mqtt_broker() {
    return {.name = "mqtt",
            .form = mqtt_form,
            .make_sink = make_mqtt_sink,
            .make_source = make_mqtt_source,
            .make_audit_place = make_mqtt_place};
}

}  // namespace baton::brokers
