#pragma once
// Plays a scenario in a browser.

#include <filesystem>
#include <functional>
#include <string>

namespace baton::test {

// What a scenario may ask for while it plays.
using AnswerTo = std::function<std::string(const std::string& what, const std::string& words)>;

// Play scenarios/NAME.mjs on the page at `url`; questions and answers go through `folder`. Returns what the
// scenario said; empty when all went well.
std::string play(const std::string& scenario, const std::string& url, const std::filesystem::path& folder,
                 const AnswerTo& answer);

}  // namespace baton::test
