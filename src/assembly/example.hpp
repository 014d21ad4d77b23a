#pragma once
// A file with a pipeline to begin with. What most people leave alone stands in remarks.

#include <string>

namespace baton::assembly {

// Throws UsageError when there is no such type of sink.
std::string example_file(const std::string& sink, const std::string& outbox, const std::string& name);

}  // namespace baton::assembly
