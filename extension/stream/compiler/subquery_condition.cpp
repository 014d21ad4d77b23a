// Conditions that hold a subquery become joins with it (semi_join.cpp). With x as the tested value:
//     EXISTS (q)           some row of q
//     x op ANY (q), x IN   some row b of q for which x op b is true
//     NOT (x op ANY (q))   no row b for which x op b is true or unknown
//     x op ALL (q)         no row b for which x op b is false or unknown
//     NOT (x op ALL (q))   some row b for which x op b is false
// In WHERE a condition that is unknown counts as one that does not hold, so these are exact.
//
// What a correlated subquery asks of the row around it becomes the join's condition, if the subquery is a
// plain selection. Others must not look outside.

#include "stream/compiler/text.hpp"

namespace baton::stream {

namespace {

struct Levels {
    int depth;
    bool found;
};

bool note_outer(Node* node, void* context) {
    auto& levels = *static_cast<Levels*>(context);
    if (node == nullptr) return false;
    if (IsA(node, Var)) {
        levels.found |= static_cast<int>(reinterpret_cast<Var*>(node)->varlevelsup) > levels.depth;
        return levels.found;
    }
    if (IsA(node, Query)) {
        ++levels.depth;
        pg::walk_query(reinterpret_cast<Query*>(node), note_outer, context, QTW_IGNORE_JOINALIASES);
        --levels.depth;
        return levels.found;
    }
    return pg::walk_expression(node, note_outer, context);
}

// Whether an expression of a block names a column of a block around it.
bool looks_outside(Node* expression) {
    Levels levels{0, false};
    pg::call([&] { note_outer(expression, &levels); });
    return levels.found;
}

bool query_looks_outside(Query* query) {
    Levels levels{0, false};
    pg::call([&] { pg::walk_query(query, note_outer, &levels, QTW_IGNORE_JOINALIASES); });
    return levels.found;
}

bool is_plain_selection(const Query& query) {
    return query.setOperations == nullptr && !query.hasAggs && !query.hasWindowFuncs &&
           !query.hasTargetSRFs && query.groupClause == NIL && query.groupingSets == NIL &&
           query.havingQual == nullptr && query.limitCount == nullptr && query.limitOffset == nullptr &&
           !query.hasDistinctOn;
}

struct Partner {
    const Operator* op;
    std::vector<std::string> conditions;  // over a, the row around, and b
    List* outputs;                        // bound
};

std::vector<Alias> inside(const Operator& left, const Operator& right) {
    return {{"a", &left, 1}, {"b", &right, 0}};
}

// A plain selection: its correlated conditions are the join's.
Partner selection(Compiler& compiler, const Operator& left, Query* query) {
    List* local = NIL;
    std::vector<Node*> correlated;
    List* const all =
        pg::call([&] { return make_ands_implicit(reinterpret_cast<Expr*>(query->jointree->quals)); });
    for (auto* const condition : pg::elements<Node>(all)) {
        if (looks_outside(condition))
            correlated.push_back(condition);
        else
            local = pg::call([&] { return lappend(local, condition); });
    }
    compiler.levels().push_back(query);
    Partner partner{&from_clause(compiler, query, local), {}, NIL};
    compiler.levels().pop_back();
    for (auto* const condition : correlated)
        partner.conditions.push_back(expression_text(condition, inside(left, *partner.op)));
    for (auto* const target : pg::elements<TargetEntry>(query->targetList)) {
        if (target->resjunk) continue;
        Node* const value = bound(reinterpret_cast<Node*>(target->expr), inside(left, *partner.op));
        partner.outputs = pg::call([&] { return lappend(partner.outputs, value); });
    }
    return partner;
}

Partner whole_block(Compiler& compiler, Query* query) {
    Partner partner{&compiler.block(query), {}, NIL};
    const auto& columns = partner.op->columns;
    partner.outputs = pg::call([&] {
        List* outputs = NIL;
        for (std::size_t i = 0; i < columns.size(); ++i)
            outputs = lappend(outputs, makeVar(2, static_cast<AttrNumber>(i + 1), columns[i].type,
                                               columns[i].typmod, columns[i].collation, 0));
        return outputs;
    });
    return partner;
}

Query* prepared(Query* query) {
    return pg::call([&] {
        auto* const own = static_cast<Query*>(copyObjectImpl(query));
        own->targetList =
            reinterpret_cast<List*>(flatten_join_alias_vars(own, reinterpret_cast<Node*>(own->targetList)));
        own->jointree =
            reinterpret_cast<FromExpr*>(flatten_join_alias_vars(own, reinterpret_cast<Node*>(own->jointree)));
        return own;
    });
}

}  // namespace

const Operator& subquery_condition(Compiler& compiler, const Operator& left, Node* condition) {
    bool negated = false;
    while (IsA(condition, BoolExpr) && reinterpret_cast<BoolExpr*>(condition)->boolop == NOT_EXPR) {
        condition = static_cast<Node*>(linitial(reinterpret_cast<BoolExpr*>(condition)->args));
        negated = !negated;
    }
    if (!IsA(condition, SubLink)) throw NotDifferential("a subquery within a larger condition");
    const auto* const sublink = reinterpret_cast<SubLink*>(condition);
    const bool is_all = sublink->subLinkType == ALL_SUBLINK;
    if (sublink->subLinkType != EXISTS_SUBLINK && sublink->subLinkType != ANY_SUBLINK && !is_all)
        throw NotDifferential("a subquery as a value within a condition");

    Query* const query = prepared(castNode(Query, sublink->subselect));
    if (!is_plain_selection(*query) && query_looks_outside(query))
        throw NotDifferential("a correlated subquery that is no plain selection");
    Partner partner =
        is_plain_selection(*query) ? selection(compiler, left, query) : whole_block(compiler, query);
    if (sublink->testexpr != nullptr) {
        const std::vector<Alias> outside{{"a", &left, 0}, {"b", partner.op, -1}};
        const std::string test = bound_text(bound(sublink->testexpr, outside, partner.outputs), outside);
        const char* const expectation =
            is_all ? (negated ? " is false" : " is not true") : (negated ? " is not false" : "");
        partner.conditions.push_back("(" + test + expectation + ")");
    }
    const bool wants_none = is_all != negated;
    return semi_join(compiler, left, *partner.op, all_of(partner.conditions), wants_none,
                     wants_none ? "rows without a partner (anti join)" : "rows with a partner (semi join)");
}

}  // namespace baton::stream
