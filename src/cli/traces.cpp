#include "cli/traces.hpp"

#include "baton/version.hpp"
#include "otlp/environment.hpp"
#include "otlp/resource.hpp"

namespace baton::cli {

using relay::Settings;

namespace {

// The collector's address, with the path.
void read_address(const Settings& file, otlp::Environment& made) {
    const std::string endpoint = file.text("endpoint", "");
    const std::string url = file.text("url", "");
    if (!endpoint.empty() && !url.empty())
        file.refuse("url", "stands beside endpoint",
                    "write one of them: /v1/traces is added to endpoint only");
    if (endpoint.empty() && url.empty()) return;
    made.options.url = endpoint.empty() ? url : otlp::traces_url(endpoint);
    made.enabled = true;
    if (!otlp::is_http_url(made.options.url))
        file.refuse(endpoint.empty() ? "url" : "endpoint", "is no address of a collector",
                    "write http://HOST:4318 or https://...");
}

void read_resource(const Settings& file, otlp::Options& options) {
    for (const auto& [name, value] : file.table("attributes")) options.resource[name] = value;
    if (const std::string service = file.text("service_name", ""); !service.empty())
        options.resource["service.name"] = service;
}

void read_headers(const Settings& file, otlp::Options& options) {
    for (const auto& [name, value] : file.table("headers")) {
        if (!otlp::is_header(name, value))
            file.refuse("headers." + name, "is no header that a request may have");
        options.headers[name] = value;
    }
}

void read_pace(const Settings& file, otlp::Options& options) {
    const std::string compression = file.text("compression", options.gzip ? "gzip" : "none");
    if (compression != "gzip" && compression != "none")
        file.refuse("compression", "is \"" + compression + "\"", "write gzip or none");
    options.gzip = compression == "gzip";
    options.timeout = file.span("timeout", options.timeout);
    options.interval = file.span("interval", options.interval);
    options.flush_limit = file.duration("flush", options.flush_limit);
    options.queue = file.count("queue", options.queue, 1'000'000);
    options.batch = std::min(file.count("batch", options.batch, 10'000), options.queue);
    options.ca = file.text("tls_ca", options.ca);
    options.certificate = file.text("tls_cert", options.certificate);
    options.key = file.text("tls_key", options.key);
}

Sampler read_sampler(const Settings& file, const otlp::Environment& environment) {
    const std::string name = file.text("sampler", environment.sampler);
    const double ratio = file.real("ratio", environment.ratio);
    try {
        return Sampler::named(name, ratio);
    } catch (const UsageError& error) {
        file.refuse(file.has("sampler") ? "sampler" : "ratio", error.what(), error.hint());
    }
}

}  // namespace

TraceSettings read_traces(const relay::Config& config, const std::string& owner) {
    const Settings& file = config.traces;
    otlp::Environment environment = otlp::read_environment();
    read_address(file, environment);
    read_headers(file, environment.options);
    read_resource(file, environment.options);
    read_pace(file, environment.options);
    const Sampler sampler = read_sampler(file, environment);
    const bool enabled = file.boolean("enabled", environment.enabled);
    file.refuse_unknown();
    if (enabled && environment.options.url.empty())
        file.refuse("enabled", "is true, and no collector is named",
                    "write endpoint = \"http://127.0.0.1:4318\"");
    otlp::describe(environment.options.resource, "baton-relay", owner);
    environment.options.resource.try_emplace("service.version", version());
    return {enabled && !environment.forbidden, std::move(environment.options), sampler,
            std::move(environment.warnings)};
}

RelayTraces::RelayTraces(TraceSettings settings, const Log& log) {
    for (const auto& words : settings.warnings) log.warn("a variable is passed over", {{"reason", words}});
    if (!settings.enabled) return;
    exporter =
        std::make_shared<otlp::Exporter>(std::move(settings.options), [&log](const std::string& reason) {
            if (reason.empty())
                log.info("the collector takes spans again");
            else
                log.warn("the collector takes no spans", {{"reason", reason}});
        });
    traces = std::make_shared<relay::Traces>(std::make_shared<const Tracer>(settings.sampler, exporter));
}

}  // namespace baton::cli
