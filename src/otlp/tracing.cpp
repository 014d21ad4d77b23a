#include "baton/otlp.hpp"
#include "baton/trace.hpp"
#include "baton/version.hpp"
#include "otlp/environment.hpp"
#include "otlp/exporter.hpp"
#include "otlp/resource.hpp"

namespace baton {

struct OtlpTracing::Parts {
    std::vector<std::string> warnings;
    std::shared_ptr<otlp::Exporter> exporter;
};

OtlpTracing::OtlpTracing(const std::string& service) : parts_(std::make_unique<Parts>()) {
    otlp::Environment environment = otlp::read_environment();
    parts_->warnings = std::move(environment.warnings);
    if (!environment.enabled || environment.forbidden) return;
    const std::string name = service.empty() ? otlp::unknown_service() : service;
    otlp::describe(environment.options.resource, name, otlp::make_instance_id());
    parts_->exporter = std::make_shared<otlp::Exporter>(std::move(environment.options));
    use_tracer(std::make_shared<const Tracer>(Sampler::named(environment.sampler, environment.ratio),
                                              parts_->exporter));
}

OtlpTracing::~OtlpTracing() {
    if (!parts_->exporter) return;
    use_tracer(nullptr);
    parts_->exporter->close();
}

bool OtlpTracing::enabled() const noexcept {
    return parts_->exporter != nullptr;
}

const std::vector<std::string>& OtlpTracing::warnings() const noexcept {
    return parts_->warnings;
}

std::uint64_t OtlpTracing::exported() const noexcept {
    return parts_->exporter ? parts_->exporter->exported() : 0;
}

std::uint64_t OtlpTracing::dropped() const noexcept {
    return parts_->exporter ? parts_->exporter->dropped() : 0;
}

}  // namespace baton
