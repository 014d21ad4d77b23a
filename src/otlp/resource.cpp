#include "otlp/resource.hpp"

#include <errno.h>

#include "baton/trace.hpp"
#include "baton/version.hpp"

namespace baton::otlp {

void describe(std::map<std::string, std::string>& resource, const std::string& service,
              const std::string& instance) {
    resource.try_emplace("service.name", service);
    resource.try_emplace("service.instance.id", instance);
    resource["telemetry.sdk.name"] = "baton";
    resource["telemetry.sdk.language"] = "cpp";
    resource["telemetry.sdk.version"] = version();
}

std::string unknown_service() {
    return std::string("unknown_service:") + program_invocation_short_name;
}

std::string make_instance_id() {
    return to_text(TraceId{Tracer::make_span_id().value, Tracer::make_span_id().value});
}

}  // namespace baton::otlp
