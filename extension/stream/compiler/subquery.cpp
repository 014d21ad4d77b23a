#include "stream/compiler/subquery.hpp"

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

bool is_selection(const Query& query, bool may_aggregate) {
    return query.setOperations == nullptr && !query.hasWindowFuncs && !query.hasTargetSRFs &&
           query.groupClause == NIL && query.groupingSets == NIL && query.havingQual == nullptr &&
           query.limitCount == nullptr && query.limitOffset == nullptr && !query.hasDistinctOn &&
           (may_aggregate ? query.distinctClause == NIL : !query.hasAggs);
}

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
        if (pg::call([&] { return contain_aggs_of_level(reinterpret_cast<Node*>(target->expr), 1); }))
            throw NotDifferential("a subquery that uses an aggregate of the block around it");
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

Query* prepared(const SubLink& sublink) {
    auto* const given = castNode(Query, sublink.subselect);
    return pg::call([&] {
        auto* const query = static_cast<Query*>(copyObjectImpl(given));
        const auto flatten = [&](auto& part) {
            part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(
                flatten_join_alias_vars(query, reinterpret_cast<Node*>(part)));
        };
        flatten(query->targetList);
        flatten(query->jointree);
        return query;
    });
}

}  // namespace

std::vector<Alias> partner_scope(const Operator& left, const Partner& partner) {
    return {{"a", &left, 0}, {"b", partner.op, -1}};
}

Partner make_partner(Compiler& compiler, const Operator& left, const SubLink& sublink, bool may_aggregate) {
    Query* const query = prepared(sublink);
    if (is_selection(*query, may_aggregate)) return selection(compiler, left, query);
    if (query_looks_outside(query)) throw NotDifferential("a correlated subquery that is no plain selection");
    return whole_block(compiler, query);
}

}  // namespace baton::stream
