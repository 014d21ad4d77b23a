#include <cctype>

#include "brokers/broker.hpp"
#include "brokers/kafka/audit_place.hpp"
#include "brokers/kafka/form.hpp"
#include "brokers/kafka/sink.hpp"
#include "brokers/kafka/source.hpp"

namespace baton::brokers {

const char* flaw_of_topic(std::string_view topic) {
    if (topic.size() > 249) return "is longer than the 249 characters that a topic may have";
    if (topic == "." || topic == "..") return "is no name for a topic";
    for (const char c : topic)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-')
            return "has characters other than letters, digits, dots, dashes and underscores";
    return nullptr;
}

Broker kafka_broker() {
    return {.name = "kafka",
            .form = kafka_form,
            .make_sink = make_kafka_sink,
            .make_source = make_kafka_source,
            .make_audit_place = make_kafka_place};
}

}  // namespace baton::brokers
