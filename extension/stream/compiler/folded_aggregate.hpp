#pragma once
// Aggregates at the root that are carried on instead of computed again.

#include "stream/compiler/text.hpp"

namespace baton::stream {

// One of the root's columns.
struct FoldedColumn {
    int key = 0;  // the number of the key that it is; or an aggregate:
    enum class Kind { count, sum } kind = Kind::count;
    std::string argument;  // empty: count(*)
    std::string cast;      // of the argument, before it is weighed
    int nonnull = 0;       // of a sum: the column that counts the values in it
};

struct Fold {
    std::vector<FoldedColumn> columns;
    int rows = 0;  // the column that counts the rows of a group
};

// How the block's aggregates can be carried on; nothing where they cannot. `keys` are the block's, each of
// them a column.
std::optional<Fold> find_fold(const Query& query, const Operator& core, const std::vector<Node*>& keys);

// What the rows of a change contribute to each group: baton_row, k1 .., d1 ..
std::string contributions(const Fold& fold, const std::string& change, const std::vector<std::string>& keys,
                          std::size_t key_count);

// The groups as they are now: baton_row, k1 .., the columns, is_there, and is_sure unless the group must be
// computed again. `old` has the groups' rows of the stream table by baton_row.
std::string folded_rows(const Fold& fold, const std::vector<Column>& columns, const Operator& sums,
                        const std::string& old);

}  // namespace baton::stream
