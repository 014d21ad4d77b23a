// A query block: FROM and WHERE give rows, the rest of the block works on them.

#include "stream/compiler/block.hpp"

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
        ListCell* cell = nullptr;
        foreach (cell, query->rtable) {
            auto* const entry = lfirst_node(RangeTblEntry, cell);
            if (!entry->lateral) continue;
            if (entry->rtekind == RTE_SUBQUERY) flatten(entry->subquery);
            if (entry->rtekind == RTE_FUNCTION) flatten(entry->functions);
            if (entry->rtekind == RTE_VALUES) flatten(entry->values_lists);
        }
    });
}

// Add an expression to GROUP BY.
void group_by(Query* query, Expr* expression) {
    const bool has_equality = pg::call([&] {
        TargetEntry* target = tlist_member(expression, query->targetList);
        if (target == nullptr) {
            target =
                makeTargetEntry(static_cast<Expr*>(copyObjectImpl(expression)),
                                static_cast<AttrNumber>(list_length(query->targetList) + 1), nullptr, true);
            query->targetList = lappend(query->targetList, target);
        }
        auto* const clause = makeNode(SortGroupClause);
        clause->tleSortGroupRef = assignSortGroupRef(target, query->targetList);
        get_sort_group_operators(exprType(reinterpret_cast<Node*>(expression)), false, false, false,
                                 &clause->sortop, &clause->eqop, nullptr, &clause->hashable);
        query->groupClause = lappend(query->groupClause, clause);
        return static_cast<bool>(OidIsValid(clause->eqop));
    });
    if (!has_equality)
        throw NotDifferential("values cannot be grouped, because their type knows no equality");
}

// Whether a block groups by the whole primary key of an item of FROM.
bool groups_by_key_of(const Query& query, int range, const std::vector<Node*>& grouped) {
    const RangeTblEntry* const entry = rt_fetch(range, query.rtable);
    if (entry->rtekind != RTE_RELATION) return false;
    Oid constraint = InvalidOid;
    const Bitmapset* const key =
        pg::call([&] { return get_primary_key_attnos(entry->relid, false, &constraint); });
    if (key == nullptr) return false;
    for (int member = bms_next_member(key, -1); member >= 0; member = bms_next_member(key, member)) {
        const int attribute = member + FirstLowInvalidHeapAttributeNumber;
        if (std::none_of(grouped.begin(), grouped.end(), [&](const Node* expression) {
                const auto* const var = reinterpret_cast<const Var*>(expression);
                return IsA(expression, Var) && static_cast<int>(var->varno) == range &&
                       var->varattno == attribute;
            }))
            return false;
    }
    return true;
}

// GROUP BY a primary key lets a block name the table's other columns. Its rows will come from a subquery,
// which has no key: so those columns are grouped by, too, which changes nothing.
void group_by_what_a_key_decides(Query* query) {
    if (query->constraintDeps == NIL) return;
    if (query->groupingSets != NIL)
        throw NotDifferential("GROUPING SETS over a primary key, and columns that are not grouped by");
    std::vector<Node*> grouped;
    for (auto* const clause : pg::elements<SortGroupClause>(query->groupClause))
        grouped.push_back(pg::call([&] { return get_sortgroupclause_expr(clause, query->targetList); }));
    List* const named = pg::call([&] {
        constexpr int flags = PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS;
        return list_concat(pull_var_clause(reinterpret_cast<Node*>(query->targetList), flags),
                           pull_var_clause(query->havingQual, flags));
    });
    for (auto* const expression : pg::elements<Node>(named)) {
        if (!IsA(expression, Var)) continue;
        const auto is_this = [&](const Node* other) {
            return pg::call([&] { return static_cast<bool>(equal(expression, other)); });
        };
        if (std::any_of(grouped.begin(), grouped.end(), is_this)) continue;
        if (!groups_by_key_of(*query, static_cast<int>(reinterpret_cast<Var*>(expression)->varno), grouped))
            continue;
        group_by(query, reinterpret_cast<Expr*>(expression));
        grouped.push_back(expression);
    }
}

bool is_projection(const Query& query) {
    return !query.hasAggs && !query.hasWindowFuncs && query.groupClause == NIL && query.groupingSets == NIL &&
           query.havingQual == nullptr && query.distinctClause == NIL && query.limitCount == nullptr &&
           query.limitOffset == nullptr;
}

// Whether a block names a column elsewhere than in arguments, FILTER and ORDER BY of its aggregates.
bool is_named_beside_aggregates(const Query& query, const Origin& origin) {
    const List* const named = pg::call([&] {
        constexpr int flags = PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS;
        return list_concat(pull_var_clause(reinterpret_cast<Node*>(query.targetList), flags),
                           pull_var_clause(query.havingQual, flags));
    });
    const auto expressions = pg::elements<Node>(named);
    return std::any_of(expressions.begin(), expressions.end(), [&](const Node* expression) {
        const auto* const var = reinterpret_cast<const Var*>(expression);
        return IsA(expression, Var) && static_cast<int>(var->varno) == origin.range &&
               var->varattno == origin.attribute;
    });
}

// Whether equal values of the columns by which a block groups look alike, too.
bool groups_by_images(const Query& query) {
    const auto clauses = pg::elements<SortGroupClause>(query.groupClause);
    return std::all_of(clauses.begin(), clauses.end(), [&](const SortGroupClause* clause) {
        return equality_is_image(column_of("k", pg::call([&] {
                                               return get_sortgroupclause_expr(
                                                   const_cast<SortGroupClause*>(clause), query.targetList);
                                           })));
    });
}

// Whether the query itself groups by a subquery's value.
bool is_grouped_by(const Query& query, const Origin& value) {
    const auto clauses = pg::elements<SortGroupClause>(query.groupClause);
    return std::any_of(clauses.begin(), clauses.end(), [&](SortGroupClause* clause) {
        const Node* const key = pg::call([&] { return get_sortgroupclause_expr(clause, query.targetList); });
        return IsA(key, Var) && static_cast<int>(reinterpret_cast<const Var*>(key)->varno) == value.range;
    });
}

// Values of subqueries in the SELECT list and in HAVING become columns of the input. In an aggregate they are
// values like others. Beside the aggregates they are made of the columns that the block groups by and so the
// same for all rows of a group, if those look the same: then grouping by them, too, changes nothing.
const Operator& input_with_values(Compiler& compiler, Query* query, const Operator& core) {
    const Operator* op = &core;
    const std::size_t columns = core.columns.size();
    query->targetList = reinterpret_cast<List*>(
        with_subquery_values(compiler, op, reinterpret_cast<Node*>(query->targetList)));
    query->havingQual = with_subquery_values(compiler, op, query->havingQual);
    if (op->columns.size() == columns || is_projection(*query)) return *op;
    if (!query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL) return *op;
    const bool all_alike = groups_by_images(*query);
    for (std::size_t i = columns; i < op->columns.size(); ++i) {
        if (!is_named_beside_aggregates(*query, op->origins[i])) continue;
        if (query->groupClause == NIL || query->groupingSets != NIL)
            throw NotDifferential("a subquery as a value beside aggregates without GROUP BY");
        if (!all_alike)
            throw NotDifferential(
                "a subquery as a value beside GROUP BY of values that may be equal and look different");
        const Column& column = op->columns[i];
        if (!is_grouped_by(*query, op->origins[i])) compiler.decided_values().insert(op->origins[i].range);
        group_by(query, reinterpret_cast<Expr*>(pg::call([&] {
                     return makeVar(op->origins[i].range, 1, column.type, column.typmod, column.collation, 0);
                 })));
    }
    return *op;
}

// A set operation with LIMIT becomes a plain block over the set operation.
Query* limited_selection(Query* query) {
    return pg::call([&] {
        auto* const inside = static_cast<Query*>(copyObjectImpl(query));
        auto* const outside = makeNode(Query);
        outside->commandType = CMD_SELECT;
        outside->sortClause = query->sortClause;
        outside->limitOffset = query->limitOffset;
        outside->limitCount = query->limitCount;
        outside->limitOption = query->limitOption;
        inside->sortClause = NIL;
        inside->limitOffset = nullptr;
        inside->limitCount = nullptr;
        inside->limitOption = LIMIT_OPTION_COUNT;
        IncrementVarSublevelsUp(reinterpret_cast<Node*>(inside), 1, 1);  // one more block is around it
        List* names = NIL;
        ListCell* cell = nullptr;
        foreach (cell, inside->targetList) {
            auto* const target = lfirst_node(TargetEntry, cell);
            auto* const value = reinterpret_cast<Node*>(target->expr);
            TargetEntry* const output =
                makeTargetEntry(reinterpret_cast<Expr*>(makeVar(1, target->resno, exprType(value),
                                                                exprTypmod(value), exprCollation(value), 0)),
                                target->resno, target->resname, false);
            output->ressortgroupref = target->ressortgroupref;
            target->ressortgroupref = 0;
            outside->targetList = lappend(outside->targetList, output);
            names = lappend(names, makeString(target->resname));
        }
        auto* const entry = makeNode(RangeTblEntry);
        entry->rtekind = RTE_SUBQUERY;
        entry->subquery = inside;
        entry->eref = makeAlias("rows", names);
        entry->inFromCl = true;
        outside->rtable = list_make1(entry);
        auto* const reference = makeNode(RangeTblRef);
        reference->rtindex = 1;
        outside->jointree = makeFromExpr(list_make1(reference), nullptr);
        return outside;
    });
}

}  // namespace

void make_plain(Query* query) {
    dissolve_join_aliases(query);
    group_by_what_a_key_decides(query);
}

const Operator& Compiler::block(Query* given, const Target* target) {
    Query* query = pg::copy_tree(given);
    if (query->setOperations != nullptr && (query->limitCount != nullptr || query->limitOffset != nullptr))
        query = limited_selection(query);
    levels_.push_back(query);
    const Operator* op = nullptr;
    if (query->setOperations != nullptr) {
        op = &set_operation(*this, query, target);
    } else {
        make_plain(query);
        List* const conditions =
            pg::call([&] { return make_ands_implicit(reinterpret_cast<Expr*>(query->jointree->quals)); });
        const Operator& core =
            input_with_values(*this, query, from_clause(*this, query, conditions, used_columns(query)));
        if (query->limitCount == nullptr && query->limitOffset == nullptr && !query->hasDistinctOn)
            query->sortClause = NIL;  // a table has no order
        op = is_projection(*query) ? &projection(*this, query, core)
                                   : &touched_keys(*this, query, core, target);
    }
    levels_.pop_back();
    return *op;
}

}  // namespace baton::stream
