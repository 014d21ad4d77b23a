#pragma once
// The standard variables of OpenTelemetry. Traces are on when a variable names a collector, or when
// OTEL_TRACES_EXPORTER says otlp; not when OTEL_SDK_DISABLED says true or OTEL_TRACES_EXPORTER none.
//
// As the specification wants it, a variable that cannot be read is passed over with a warning: no program
// stops because of its traces.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "baton/trace.hpp"
#include "otlp/options.hpp"

namespace baton::otlp {

struct Environment {
    bool enabled = false;
    bool forbidden = false;  // off, whatever else says on
    Options options;
    std::string sampler = "parentbased_always_on";
    double ratio = 1;
    std::vector<std::string> warnings;  // without the values, which may be secrets
};

// Returns a variable; null when it is not set.
using Lookup = std::function<const char*(const char* name)>;

Environment read_environment(const Lookup& lookup);
// The same from the environment of this process.
Environment read_environment();

// A collector's address with the path for traces: as OTEL_EXPORTER_OTLP_ENDPOINT is meant.
std::string traces_url(std::string endpoint);
// Tell whether a text can be an address of a collector.
bool is_http_url(const std::string& url);
// Tell whether a request may have this header.
bool is_header(std::string_view name, std::string_view value);

}  // namespace baton::otlp
