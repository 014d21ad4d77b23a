#pragma once
// Reading back what the file and stdout sinks wrote.

#include <filesystem>
#include <vector>

#include "audit/received.hpp"

namespace baton::audit {

// Every line of the file as a message; lines that are no JSON object throw Error, except those which begin
// with something else than a brace, which are passed on to `others`.
std::vector<Received> read_lines(const std::filesystem::path& path,
                                 std::vector<std::string>* others = nullptr);

}  // namespace baton::audit
