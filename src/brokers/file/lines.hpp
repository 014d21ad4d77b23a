#pragma once
// Reads back what the file and stdout sinks wrote.

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "brokers/received.hpp"

namespace baton::brokers {

// Return every line of the file as a message. A line that does not begin with a brace goes to `others`.
// Throws Error for any other line that is no JSON object.
std::vector<Received> read_lines(const std::filesystem::path& path,
                                 std::vector<std::string>* others = nullptr);

// Give the id of each line to `take`, however large the file is. Throws Error for a line that is no JSON
// object with an id.
void read_line_ids(const std::filesystem::path& path, const std::function<void(std::string_view)>& take);

}  // namespace baton::brokers
