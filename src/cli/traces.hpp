#pragma once
// The traces of a relay: from the standard variables (OTEL_...) and the table [traces] of the relay's file,
// which goes first where both say something.
//
//   [traces]
//   enabled = true                          false: off, whatever the variables say
//   endpoint = "http://127.0.0.1:4318"      the collector; /v1/traces is added
//   url = "https://.../v1/traces"           ... or the whole address
//   sampler = "parentbased_traceidratio", ratio = 0.01
//   service_name, attributes.NAME           of the resource
//   headers.NAME                            of requests: ${env:...} and ${file:...} are for secrets
//   compression = "gzip" | "none", timeout, interval, flush, queue, batch
//   tls_ca, tls_cert, tls_key               files

#include <memory>

#include "base/log.hpp"
#include "otlp/exporter.hpp"
#include "relay/config.hpp"
#include "relay/spans.hpp"

namespace baton::cli {

struct TraceSettings {
    bool enabled = false;
    otlp::Options options;
    Sampler sampler = Sampler::named("parentbased_always_on");
    std::vector<std::string> warnings;
};

// Throws SettingsError about the file. `owner` is this relay's name.
TraceSettings read_traces(const relay::Config& config, const std::string& owner);

// The exporter of a relay, and what its pipelines need. Both are null when traces are off.
struct RelayTraces {
    RelayTraces(TraceSettings settings, const Log& log);

    std::shared_ptr<otlp::Exporter> exporter;
    std::shared_ptr<relay::Traces> traces;
};

}  // namespace baton::cli
