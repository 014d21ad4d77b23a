#pragma once
// A query as text that is computed over the rows of other operators: what a query in FROM or in an expression
// gives for a row around it, or what a recursive query gives.
//
// What does not look outside of the query becomes an operator, a leaf. The rest stays text, in which the row
// around goes by the name a. Filled with the leaves' present rows it gives the present result, filled with
// their rows before the change the one before.

#include <functional>
#include <set>

#include "stream/compiler/text.hpp"

namespace baton::stream {

// Rows of the FROM clause of some block within the query.
struct Leaf {
    const Operator* op;
    std::string name;
    // What the block asks of the leaf's rows, under the name b, and of the row around: rows for which this
    // does not hold count for nothing.
    std::vector<std::string> conditions;
    bool has_equality;  // one of the conditions compares both with =, so that a join may hash or merge
};

struct Template {
    std::string text;  // in parentheses
    std::vector<Leaf> leaves;
    std::set<int> used;  // which columns of the row around it names, from 0

    bool is_constant() const;
    // The text over rows: an item of FROM for each leaf.
    std::string filled(const std::function<std::string(const Leaf&)>& rows) const;
};

// A subquery in an expression over `around`; in its place stands its value.
Template subquery_template(Compiler& compiler, const Operator& around, const SubLink& sublink);
// A query or function in FROM that names columns of `around`.
Template lateral_template(Compiler& compiler, const Operator& around, const RangeTblEntry& entry);
// A recursive query of WITH. Its home is the last of the compiler's levels.
Template recursive_template(Compiler& compiler, const CommonTableExpr& with);

// The rows of a leaf as an item of FROM, now and before the change.
std::string leaf_now(const Leaf& leaf);
std::string leaf_before(Compiler& compiler, const Leaf& leaf);

}  // namespace baton::stream
