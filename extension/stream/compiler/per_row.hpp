#pragma once
// What is computed for each row of an operator: see per_row.cpp.

#include "stream/compiler/template.hpp"

namespace baton::stream {

struct PerRow {
    std::string label;
    const Operator* left;
    Template inside;
    // What is added to a row.
    std::vector<Column> columns;
    std::vector<Origin> origins;
    // For rows, which are joined to the row: their columns, named f1, f2, .. under the name l, and how they
    // are joined. A value has none of this.
    std::vector<std::string> outputs = {};
    std::size_t width = 0;
    JoinType type = JOIN_INNER;
    std::string condition = {};

    bool is_value() const { return width == 0; }
};

const Operator& per_row(Compiler& compiler, const PerRow& given);

}  // namespace baton::stream
