#pragma once
// A request of OTLP as JSON: ExportTraceServiceRequest of opentelemetry-proto, by the rules of OTLP/HTTP: ids
// in hexadecimal digits, whole numbers of 64 bits as texts, enumerations as numbers.

#include <map>
#include <span>
#include <string>

#include "baton/trace.hpp"

namespace baton::otlp {

// Bytes that are no UTF-8 become U+FFFD, and texts are cut after 4096 bytes: no span spoils its batch.
std::string encode(const std::map<std::string, std::string>& resource, std::span<const Span> spans);

// How many spans a collector refused that took the request: partialSuccess.rejectedSpans. 0 when it says
// nothing, or something that cannot be read.
std::size_t rejected_spans(std::string_view answer);

}  // namespace baton::otlp
