// Items of FROM that are computed for each row of the items before them: LATERAL subqueries, and functions
// and VALUES of columns. See per_row.cpp.
//
// Inner joins of such an item with others may be done in any order, so it comes last. With LEFT JOIN a row
// for which the item gives nothing stays, which is a matter of each row as well.

#include "stream/compiler/block.hpp"
#include "stream/compiler/per_row.hpp"

namespace baton::stream {

const Operator& lateral_item(Compiler& compiler, const Operator& left, Query* query, int range,
                             const std::vector<Origin>& used, JoinType type, Node* condition) {
    const RangeTblEntry& entry = *rt_fetch(range, query->rtable);
    PerRow given{entry.rtekind == RTE_SUBQUERY ? "subquery of each row (lateral)" : "function of each row",
                 &left,
                 lateral_template(compiler, left, entry),
                 {},
                 {}};
    given.type = type;
    List* const columns = pg::call([&] {
        List* all = NIL;
        expandRTE(rt_fetch(range, query->rtable), 1, 0, -1, true, nullptr, &all);
        return all;
    });
    // All of the item's columns, as the condition names them: no operator that anybody sees.
    Operator& item = compiler.make("item", {});
    for (auto* const column : pg::elements<Node>(columns)) {
        item.columns.push_back(column_of("f" + std::to_string(++given.width), column));
        item.origins.push_back({range, static_cast<int>(given.width)});
    }
    if (condition != nullptr) {
        given.condition = expression_text(condition, {{"a", &left}, {"l", &item}});
        for (std::size_t i = 0; i < left.origins.size(); ++i)
            if (mentions_of(condition).columns.contains(left.origins[i]))
                given.inside.used.insert(static_cast<int>(i));
    }
    const std::string prefix = "v" + std::to_string(range) + "_";
    for (const auto& origin : used) {
        if (origin.range != range) continue;
        if (origin.attribute <= 0)
            throw NotDifferential("the query takes whole rows of a LATERAL item as a value");
        given.columns.push_back(item.columns.at(static_cast<std::size_t>(origin.attribute) - 1));
        given.columns.back().name = prefix + std::to_string(origin.attribute);
        given.outputs.push_back("l.f" + std::to_string(origin.attribute) + " as " +
                                given.columns.back().name);
        given.origins.push_back(origin);
    }
    if (given.columns.empty()) {
        given.columns.push_back({prefix + "0", BOOLOID, -1, InvalidOid});
        given.outputs.push_back("true as " + given.columns.back().name);
        given.origins.push_back({range, 0});
    }
    return per_row(compiler, given);
}

}  // namespace baton::stream
