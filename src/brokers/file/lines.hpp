#pragma once
// Reads back what the file and stdout sinks wrote.

#include <filesystem>
#include <vector>

#include "brokers/received.hpp"

namespace baton::brokers {

// Return every line of the file as a message. A line that does not begin with a brace goes to `others`.
// Throws Error for any other line that is no JSON object.
std::vector<Received> read_lines(const std::filesystem::path& path,
                                 std::vector<std::string>* others = nullptr);

}  // namespace baton::brokers
