#pragma once
// Reading back what the file and stdout sinks wrote.

#include <filesystem>
#include <vector>

#include "brokers/received.hpp"

namespace baton::brokers {

// Every line of the file as a message; lines that are no JSON object throw Error, except those which begin
// with something else than a brace, which are passed on to `others`.
std::vector<Received> read_lines(const std::filesystem::path& path,
                                 std::vector<std::string>* others = nullptr);

}  // namespace baton::brokers
