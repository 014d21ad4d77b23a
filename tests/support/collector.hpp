#pragma once
// A small collector of spans that reads requests with OpenTelemetry's own message definitions: see
// otlp_collector.

#include <map>
#include <string>
#include <vector>

#include "support/broker.hpp"

namespace baton::test {

// A span as the collector read it.
struct CollectedSpan {
    std::string trace, id, parent, name, state, error, authorization;
    int kind = 0;
    std::int64_t start = 0, end = 0;
    std::vector<std::string> links;  // trace ids
    std::map<std::string, std::string> attributes, resource;
};

class Collector final : public Broker {
  public:
    // Throws Unavailable when the message definitions cannot be had.
    Collector();

    // How it answers from now on: take, hang, busy, garbage.
    void answer(const std::string& mode) const;
    std::vector<CollectedSpan> spans() const;
    // Requests that are no OTLP, with the reasons; empty when all is well.
    std::string refused() const;
    std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port()); }

  protected:
    Command command() override;
    bool ready() override;
};

}  // namespace baton::test
