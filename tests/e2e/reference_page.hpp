#pragma once
// Pages of docs/ whose words, in part or as a whole, are made from the sources.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.hpp"

namespace baton::test {

// Compare a page with what the sources say now, or write the page when BATON_WRITE_DOCS is set.
inline void compare_page(const std::string& name, const std::string& text) {
    const auto file = std::filesystem::path(BATON_SOURCE) / "docs" / name;
    if (std::getenv("BATON_WRITE_DOCS") != nullptr) return write_text(file, text);
    EXPECT_EQ(read_text(file), text) << "run this test with BATON_WRITE_DOCS=1 to write " << name
                                     << ", and look at what changed";
}

}  // namespace baton::test
