#pragma once
// Reading back what the file and stdout sinks wrote.

#include <filesystem>
#include <vector>

#include "conformance/sink_fixture.hpp"

namespace baton::test {

// Every line of the file as a message; lines that are no JSON object fail the test, except those which begin
// with something else than a brace, which are passed on to `others`.
std::vector<Received> read_lines(const std::filesystem::path& path,
                                 std::vector<std::string>* others = nullptr);

std::string decode_base64(const std::string& text);

}  // namespace baton::test
