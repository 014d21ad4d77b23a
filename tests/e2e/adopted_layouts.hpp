#pragma once
// Tables that were there before baton, each with the statements that fill and judge it.

#include <ostream>
#include <string>
#include <vector>

namespace baton::test {

struct Layout {
    std::string label;
    std::string table;
    std::string ddl;
    std::string mapping;  // laid over the preset, if there is one
    std::string insert;   // $1 key, $2 number
    std::string done;     // how many rows are done, in the table's own words
    std::string dead;     // numbers of the dead letters, in the table's own words
    bool ordered = false;

    friend void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.label; }
};

// The presets, plain and partitioned, and a table that none of them describes.
const std::vector<Layout>& layouts();
const Layout& layout(const std::string& label);

}  // namespace baton::test
