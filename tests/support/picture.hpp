#pragma once
// Pictures of a terminal for the docs.

#include <filesystem>
#include <string>

namespace baton::test {

// What a terminal shows, with its colours, as a page of HTML.
std::string page_of_terminal(const std::string& coloured);
// Have Chromium paint what a terminal of that many columns shows into a PNG file.
void take_picture(const std::string& coloured, int columns, const std::filesystem::path& file);

}  // namespace baton::test
