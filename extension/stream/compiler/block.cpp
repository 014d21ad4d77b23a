// A query block: FROM and WHERE give rows, the rest of the block works on them.

#include "stream/compiler/subquery.hpp"

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

// Values of subqueries in the SELECT list and in HAVING become columns of the input. They are the same for
// all rows of a group, so that grouping by them, too, changes nothing.
const Operator& input_with_values(Compiler& compiler, Query* query, const Operator& core) {
    const Operator* op = &core;
    const std::size_t columns = core.columns.size();
    query->targetList = reinterpret_cast<List*>(
        with_subquery_values(compiler, op, reinterpret_cast<Node*>(query->targetList)));
    query->havingQual = with_subquery_values(compiler, op, query->havingQual);
    if (op->columns.size() == columns || is_projection(*query)) return *op;
    if (query->groupClause == NIL || query->groupingSets != NIL)
        throw NotDifferential("a subquery as a value beside aggregates or DISTINCT without GROUP BY");
    for (std::size_t i = columns; i < op->columns.size(); ++i) {
        pg::call([&] {
            const Column& column = op->columns[i];
            auto* const value =
                makeVar(op->origins[i].range, 1, column.type, column.typmod, column.collation, 0);
            auto* const target =
                makeTargetEntry(reinterpret_cast<Expr*>(value),
                                static_cast<AttrNumber>(list_length(query->targetList) + 1), nullptr, true);
            query->targetList = lappend(query->targetList, target);
            auto* const clause = makeNode(SortGroupClause);
            clause->tleSortGroupRef = assignSortGroupRef(target, query->targetList);
            get_sort_group_operators(column.type, false, true, false, &clause->sortop, &clause->eqop, nullptr,
                                     &clause->hashable);
            query->groupClause = lappend(query->groupClause, clause);
        });
    }
    return *op;
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
        List* const conditions =
            pg::call([&] { return make_ands_implicit(reinterpret_cast<Expr*>(query->jointree->quals)); });
        const Operator& core = input_with_values(*this, query, from_clause(*this, query, conditions));
        if (query->limitCount == nullptr && query->limitOffset == nullptr && !query->hasDistinctOn)
            query->sortClause = NIL;  // a table has no order
        op = is_projection(*query) ? &projection(*this, query, core)
                                   : &touched_keys(*this, query, core, target);
    }
    levels_.pop_back();
    return *op;
}

}  // namespace baton::stream
