#include "brokers/broker.hpp"
#include "brokers/sqs/audit_place.hpp"
#include "brokers/sqs/form.hpp"
#include "brokers/sqs/sink.hpp"
#include "brokers/sqs/source.hpp"

namespace baton::brokers {

Broker sqs_broker() {
    return {.name = "sqs",
            .form = sqs_form,
            .make_sink = make_sqs_sink,
            .make_source = make_sqs_source,
            .make_audit_place = make_sqs_place,
            .traced_as = "aws_sqs"};
}

}  // namespace baton::brokers
