#pragma once
// Spans for an OpenTelemetry collector, by OTLP/HTTP as JSON. Needs libbaton_otlp, which needs libcurl and
// zlib: find_package(baton COMPONENTS otlp), baton::otlp.
//
//   int main() {
//       const baton::OtlpTracing tracing;    // as the OTEL_... variables say; without them nothing happens
//       ...
//   }
//
// The object makes its tracer the one of the process (use_tracer), and takes it away when it is destroyed;
// then it sends what is left, for five seconds at most. A collector that is away, slow or full never keeps a
// publish or a handler waiting: spans wait in a bounded queue, and are dropped where it is full.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "baton/export.hpp"

namespace baton {

class BATON_API OtlpTracing {
  public:
    // `service` is the service.name where the variables give none; empty: unknown_service and the program's
    // name.
    explicit OtlpTracing(const std::string& service = {});
    ~OtlpTracing();
    OtlpTracing(const OtlpTracing&) = delete;
    OtlpTracing& operator=(const OtlpTracing&) = delete;

    // False when the variables do not ask for traces.
    bool enabled() const noexcept;
    // What is wrong with the variables; such a variable is passed over.
    const std::vector<std::string>& warnings() const noexcept;
    std::uint64_t exported() const noexcept;
    std::uint64_t dropped() const noexcept;

  private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace baton
