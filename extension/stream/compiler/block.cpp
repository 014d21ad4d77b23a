// A query block: FROM and WHERE give rows, the rest of the block works on them.

#include "stream/compiler/text.hpp"

namespace baton::stream {

namespace {

// Columns of JOIN .. USING and the like become those of the tables behind them.
void dissolve_join_aliases(Query* query) {
    pg::call([&] {
        const auto flatten = [&](auto& part) {
            part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(
                flatten_join_alias_vars(query, reinterpret_cast<Node*>(part)));
        };
        flatten(query->targetList);
        flatten(query->jointree);
        flatten(query->havingQual);
        flatten(query->windowClause);
        flatten(query->limitOffset);
        flatten(query->limitCount);
    });
}

// Whether the block names columns that only a table's primary key decides: GROUP BY that key lets it. Its
// rows will come from a subquery, which has no key.
void refuse_dependent_columns(const Query& query) {
    if (query.constraintDeps != NIL)
        throw NotDifferential("GROUP BY a primary key, and columns that are not grouped by");
}

bool is_projection(const Query& query) {
    return !query.hasAggs && !query.hasWindowFuncs && query.groupClause == NIL && query.groupingSets == NIL &&
           query.havingQual == nullptr && query.distinctClause == NIL && query.limitCount == nullptr &&
           query.limitOffset == nullptr;
}

bool holds_sublink(const Query& query) {
    return pg::call([&] {
        return checkExprHasSubLink(reinterpret_cast<Node*>(query.targetList)) ||
               checkExprHasSubLink(query.havingQual) || checkExprHasSubLink(query.limitCount) ||
               checkExprHasSubLink(query.limitOffset);
    });
}

}  // namespace

const Operator& Compiler::block(Query* given, const Target* target) {
    Query* const query = pg::copy_tree(given);
    if (query->hasRecursive) throw NotDifferential("WITH RECURSIVE");
    levels_.push_back(query);
    const Operator* op = nullptr;
    if (query->setOperations != nullptr) {
        if (query->limitCount != nullptr || query->limitOffset != nullptr)
            throw NotDifferential("LIMIT over a set operation");
        op = &set_operation(*this, query, target);
    } else {
        dissolve_join_aliases(query);
        refuse_dependent_columns(*query);
        if (holds_sublink(*query)) throw NotDifferential("a subquery as a value");
        List* const conditions =
            pg::call([&] { return make_ands_implicit(reinterpret_cast<Expr*>(query->jointree->quals)); });
        const Operator& core = from_clause(*this, query, conditions);
        if (query->limitCount == nullptr && query->limitOffset == nullptr && !query->hasDistinctOn)
            query->sortClause = NIL;  // a table has no order
        op = is_projection(*query) ? &projection(*this, query, core)
                                   : &touched_keys(*this, query, core, target);
    }
    levels_.pop_back();
    return *op;
}

}  // namespace baton::stream
