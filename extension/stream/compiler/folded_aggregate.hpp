#pragma once
// Aggregates at the root that are carried on instead of computed again.

#include "stream/compiler/text.hpp"

namespace baton::stream {

// One of the root's columns.
struct FoldedColumn {
    enum class Kind { count, sum, average, least, greatest, bits };

    int key = 0;  // the number of the key that it is; or an aggregate:
    Kind kind = Kind::count;
    Node* argument = nullptr;  // null: count(*)
    Node* filter = nullptr;
    std::string function = {};     // that gathers values of a change
    std::string combination = {};  // of bits
    std::string cast = {};         // of the argument of a sum, before it is weighed
    int nonnull = 0;               // of a sum or average: the column that counts the values in it, 0: none
    int sum = 0;                   // of an average
};

struct Fold {
    std::vector<FoldedColumn> columns;
    int rows = 0;  // the column that counts the rows of a group, 0: none
};

// How the block's aggregates can be carried on; nothing where they cannot. `keys` are the block's, each of
// them a column.
std::optional<Fold> find_fold(const Query& query, const std::vector<Node*>& keys);

// What the rows of a change contribute to each group: baton_row, k1 .., rows, and for the column N dN, nN,
// inN and outN, as its kind needs them.
std::string contributions(const Fold& fold, const Operator& core, const std::vector<std::string>& key_texts,
                          const std::vector<Column>& keys);

// The groups as they are now: baton_row, k1 .., the columns, is_there, and is_sure unless the group must be
// computed again. `old` has the groups' rows of the stream table by baton_row.
std::string folded_rows(const Fold& fold, const std::vector<Column>& columns, const Operator& sums,
                        const std::string& old);

}  // namespace baton::stream
