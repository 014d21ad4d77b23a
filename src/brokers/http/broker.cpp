#include "brokers/broker.hpp"
#include "brokers/http/audit_place.hpp"
#include "brokers/http/form.hpp"
#include "brokers/http/sink.hpp"
#include "brokers/http/source.hpp"

namespace baton::brokers {

Broker http_broker() {
    return {.name = "http",
            .form = http_form,
            .make_sink = make_http_sink,
            .make_source = make_http_source,
            .make_audit_place = make_http_place};
}

}  // namespace baton::brokers
