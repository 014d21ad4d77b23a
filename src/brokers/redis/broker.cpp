#include "brokers/broker.hpp"
#include "brokers/redis/audit_place.hpp"
#include "brokers/redis/form.hpp"
#include "brokers/redis/sink.hpp"
#include "brokers/redis/source.hpp"

namespace baton::brokers {

Broker redis_broker() {
    return {.name = "redis",
            .form = redis_form,
            .make_sink = make_redis_sink,
            .make_source = make_redis_source,
            .make_audit_place = make_redis_place};
}

}  // namespace baton::brokers
