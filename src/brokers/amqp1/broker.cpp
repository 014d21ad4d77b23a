#include "brokers/broker.hpp"
#include "base/text.hpp"
#include "brokers/amqp1/audit_place.hpp"
#include "brokers/amqp1/form.hpp"
#include "brokers/amqp1/sink.hpp"
#include "brokers/amqp1/source.hpp"

namespace baton::brokers {

const char* flaw_of_amqp1_address(std::string_view address) {
    if (address.empty()) return "is empty";
    return is_text(address) ? nullptr : "is not UTF-8, or has a zero in it";
}

Broker amqp1_broker() {
    return {.name = "amqp1",
            .form = amqp1_form,
            .make_sink = make_amqp1_sink,
            .make_source = make_amqp1_source,
            .make_audit_place = make_amqp1_place,
            .traced_as = "amqp"};
}

}  // namespace baton::brokers
