#include "stream/compiler/subquery.hpp"

#include "stream/compiler/block.hpp"

namespace baton::stream {

namespace {

bool is_selection(const Query& query) {
    return query.setOperations == nullptr && !query.hasWindowFuncs && !query.hasTargetSRFs &&
           query.groupClause == NIL && query.groupingSets == NIL && query.havingQual == nullptr &&
           query.limitCount == nullptr && query.limitOffset == nullptr && !query.hasDistinctOn &&
           !query.hasAggs;
}

List* conditions_of(const Query& query) {
    return pg::call([&] { return make_ands_implicit(reinterpret_cast<Expr*>(query.jointree->quals)); });
}

// Whether nothing looks outside but plain conditions and outputs.
bool is_plain(const Query& query) {
    const auto conditions = pg::elements<Node>(conditions_of(query));
    const auto outputs = pg::elements<TargetEntry>(query.targetList);
    const auto items = pg::elements<RangeTblEntry>(query.rtable);
    const auto looks_outside = [](Node* expression) { return mentions_of(expression).looks_outside(); };
    return is_selection(query) && !looks_outside(reinterpret_cast<Node*>(query.jointree->fromlist)) &&
           std::none_of(items.begin(), items.end(),
                        [](const RangeTblEntry* item) { return mentions_of_item(*item).looks_outside(); }) &&
           std::none_of(
               conditions.begin(), conditions.end(),
               [&](Node* condition) { return has_sublink(condition) && looks_outside(condition); }) &&
           std::none_of(outputs.begin(), outputs.end(), [](const TargetEntry* output) {
               return has_sublink(reinterpret_cast<Node*>(output->expr));
           });
}

std::vector<Alias> inside(const Operator& left, const Operator& right) {
    return {{"a", &left, 1}, {"b", &right, 0}};
}

// A plain selection: its correlated conditions are the join's.
Partner selection(Compiler& compiler, const Operator& left, Query* query) {
    List* local = NIL;
    std::vector<Node*> correlated;
    for (auto* const condition : pg::elements<Node>(conditions_of(*query))) {
        if (mentions_of(condition).looks_outside())
            correlated.push_back(condition);
        else
            local = pg::call([&] { return lappend(local, condition); });
    }
    compiler.levels().push_back(query);
    Partner partner{&from_clause(compiler, query, local, used_columns(query)), {}, NIL};
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

}  // namespace

std::vector<Alias> partner_scope(const Operator& left, const Partner& partner) {
    return {{"a", &left, 0}, {"b", partner.op, -1}};
}

std::optional<Partner> make_partner(Compiler& compiler, const Operator& left, const SubLink& sublink) {
    Query* const query = pg::copy_tree(castNode(Query, sublink.subselect));
    make_plain(query);
    if (is_plain(*query)) return selection(compiler, left, query);
    if (mentions_of_query(query).looks_outside() || !mentions_of_query(query).columns.empty())
        return std::nullopt;
    return whole_block(compiler, query);
}

}  // namespace baton::stream
