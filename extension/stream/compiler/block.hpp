#pragma once
// What is done to a query block before its rule looks at it, and which columns its expressions name.

#include <set>

#include "stream/compiler/operators.hpp"

namespace baton::stream {

// Columns of JOIN .. USING become those of the tables behind them, and what a primary key decides is grouped
// by.
void make_plain(Query* query);

// What an expression names, seen from the block that it belongs to.
struct Mentions {
    std::set<Origin> columns;  // of the block itself
    std::set<int> levels;      // of blocks around it: 1, 2, ...
    bool is_recursive;         // a WITH query that is being defined

    bool looks_outside() const { return !levels.empty() || is_recursive; }
};
Mentions mentions_of(Node* expression);
// The same for a query in FROM or in an expression, seen from the block that holds it.
Mentions mentions_of_query(Query* query);
// The same for an item of FROM: a subquery, a function, VALUES, or a WITH query.
Mentions mentions_of_item(const RangeTblEntry& entry);

bool has_sublink(Node* expression);
// Whether a function or VALUES in FROM is of subqueries.
bool holds_subquery(const RangeTblEntry& entry);

}  // namespace baton::stream
