#include "brokers/broker.hpp"
#include "brokers/nats/audit_place.hpp"
#include "brokers/nats/form.hpp"
#include "brokers/nats/sink.hpp"
#include "brokers/nats/source.hpp"

namespace baton::brokers {

const char* flaw_of_subject(std::string_view subject) {
    if (subject.front() == '.' || subject.back() == '.' || subject.find("..") != std::string_view::npos)
        return "has an empty token";
    if (subject.find_first_of("*> \t\r\n") != std::string_view::npos) return "has white space or a wildcard";
    return nullptr;
}

Broker nats_broker() {
    return {.name = "nats",
            .form = nats_form,
            .make_sink = make_nats_sink,
            .make_source = make_nats_source,
            .make_audit_place = make_nats_place};
}

}  // namespace baton::brokers
