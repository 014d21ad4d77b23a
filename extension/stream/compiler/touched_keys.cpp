// GROUP BY, aggregates, HAVING, window functions, DISTINCT, DISTINCT ON and LIMIT, by recomputing touched
// keys.
//
// Take expressions of the input by which the block works apart: rows of the result that come from one value
// of the key depend only on rows of the input with that value. Then nothing changes for values that do not
// occur in the input's change, and for the others the change is what the block makes of their rows now, minus
// what it made of them before. Expressions that every clause of the block names are such a key: those of
// GROUP BY (of every grouping set), of PARTITION BY of every window, of DISTINCT. LIMIT leaves none. The
// empty key is always right, too: then everything is recomputed when anything has changed.
//
// What the rows of touched keys were before: those of now, minus the change. At the root, what the block made
// of them stands in the stream table, if the key is among its columns: then that is taken, which is exact
// even where computing it again is not (sums of floats, a DISTINCT among values that are equal and look
// different).

#include "stream/compiler/text.hpp"

namespace baton::stream {

namespace {

struct Key {
    Node* expression;
    Oid equality;
    int output;  // which column of the result it is, 0: none
};

// The expressions of a clause.
std::vector<Key> keys_of(const Query& query, const List* clauses) {
    std::vector<Key> keys;
    for (auto* const clause : pg::elements<SortGroupClause>(clauses))
        keys.push_back({pg::call([&] {
                            return get_sortgroupclause_expr(const_cast<SortGroupClause*>(clause),
                                                            query.targetList);
                        }),
                        clause->eqop, 0});
    return keys;
}

void keep_common(std::optional<std::vector<Key>>& keys, const std::vector<Key>& others) {
    if (!keys) {
        keys = others;
        return;
    }
    std::erase_if(*keys, [&](const Key& key) {
        return std::none_of(others.begin(), others.end(), [&](const Key& other) {
            return pg::call([&] { return static_cast<bool>(equal(key.expression, other.expression)); });
        });
    });
}

// What every grouping set groups by.
void keep_common_of_sets(std::optional<std::vector<Key>>& keys, const Query& query) {
    List* const sets =
        pg::call([&] { return expand_grouping_sets(query.groupingSets, query.groupDistinct, -1); });
    for (auto* const set : pg::elements<List>(sets)) {
        std::vector<Key> members;
        for (int i = 0; i < list_length(set); ++i)
            for (auto* const clause : pg::elements<SortGroupClause>(query.groupClause))
                if (clause->tleSortGroupRef == static_cast<Index>(list_nth_int(set, i)))
                    members.push_back(
                        {pg::call([&] { return get_sortgroupclause_expr(clause, query.targetList); }),
                         clause->eqop, 0});
        keep_common(keys, members);
    }
}

int output_of(const Query& query, const Node* expression) {
    int number = 0;
    for (const auto* const target : pg::elements<TargetEntry>(query.targetList)) {
        if (target->resjunk) continue;
        ++number;
        if (pg::call([&] { return static_cast<bool>(equal(target->expr, expression)); })) return number;
    }
    return 0;
}

bool is_of_single_rows(Node* expression) {
    return pg::call([&] {
        return !contain_agg_clause(expression) && !contain_window_function(expression) &&
               !expression_returns_set(expression);
    });
}

std::vector<Key> find_keys(const Query& query) {
    std::optional<std::vector<Key>> keys;
    if (query.limitCount != nullptr || query.limitOffset != nullptr) return {};
    if (query.groupingSets != NIL)
        keep_common_of_sets(keys, query);
    else if (query.groupClause != NIL || query.hasAggs)
        keep_common(keys, keys_of(query, query.groupClause));
    if (query.hasWindowFuncs)
        for (auto* const window : pg::elements<WindowClause>(query.windowClause))
            keep_common(keys, keys_of(query, window->partitionClause));
    if (query.distinctClause != NIL) keep_common(keys, keys_of(query, query.distinctClause));
    if (!keys) return {};
    std::erase_if(*keys, [](const Key& key) { return !is_of_single_rows(key.expression); });
    for (auto& key : *keys) key.output = output_of(query, key.expression);
    return *keys;
}

const char* label_of(const Query& query) {
    if (query.limitCount != nullptr || query.limitOffset != nullptr) return "limit";
    if (query.hasWindowFuncs) return "window functions";
    if (query.hasAggs || query.groupClause != NIL || query.groupingSets != NIL) return "aggregate";
    return query.hasDistinctOn ? "distinct on" : "distinct";
}

}  // namespace

const Operator& touched_keys(Compiler& compiler, Query* query, const Operator& core, const Target* target) {
    const std::vector<Key> keys = find_keys(*query);
    Operator& op =
        compiler.make(std::string(label_of(*query)) +
                          (keys.empty() ? " (of all rows, when any has changed)" : " (of touched keys)"),
                      {&core});
    op.columns = output_columns(query->targetList);
    compiler.script().add_view(op.now, block_text(query, core, core.now));
    if (core.is_constant()) {
        op.change.clear();
        return op;
    }
    Operator& touched =
        compiler.make("touched keys", {});  // no operator that anybody sees, but rows with columns
    touched.now = Compiler::name("touched", op);
    std::vector<std::string> key_texts;
    std::vector<Node*> key_values;
    std::vector<Oid> equalities;
    for (const auto& key : keys) {
        equalities.push_back(key.equality);
        touched.columns.push_back(column_of("k" + std::to_string(key_texts.size() + 1), key.expression));
        key_texts.push_back(expression_text(key.expression, {{"a", &core}}) + " as " +
                            touched.columns.back().name);
        key_values.push_back(bound(key.expression, {{"a", &core}}));
    }
    if (keys.empty()) key_texts.emplace_back("true as k1");
    compiler.script().add_table(touched.now,
                                "select distinct " + join(key_texts, ", ") + " from " + core.change + " a");

    const std::string fresh = Compiler::name("fresh", op);
    compiler.script().add_table(
        fresh, rows_of_touched(touched, key_values, equalities, "select " + column_list(core.columns, "a"),
                               {"a", &core}, core.now));
    const std::string outputs = column_list(op.columns, "r");
    // Over no rows at all a block may still give one: that is no change.
    const std::string if_touched = keys.empty() ? " where exists (select from " + touched.now + ")" : "";
    std::string change = "select " + outputs + ", 1::bigint as baton_weight from (" +
                         block_text(query, core, fresh) + ") r" + if_touched + "\n union all ";

    const bool root_knows = target != nullptr && std::all_of(keys.begin(), keys.end(),
                                                             [](const Key& key) { return key.output > 0; });
    if (root_knows) {
        std::vector<Node*> stored;
        for (const auto& key : keys)
            stored.push_back(pg::call([&] {
                return reinterpret_cast<Node*>(makeVar(1, static_cast<AttrNumber>(key.output),
                                                       exprType(key.expression), exprTypmod(key.expression),
                                                       exprCollation(key.expression), 0));
            }));
        const std::string table = compiler.stored(op, *target);
        change += rows_of_touched(touched, stored, equalities,
                                  "select " + outputs + ", -1::bigint as baton_weight", {"r", &op}, table);
    } else {
        const std::string columns = column_list(core.columns);
        const std::string stale = Compiler::name("stale", op);
        compiler.script().add_view(
            stale,
            spread(core.columns, "select " + columns + ", 1::bigint as baton_weight from " + fresh +
                                     " union all select " + columns + ", -baton_weight from " + core.change));
        change +=
            "select " + outputs + ", -1::bigint from (" + block_text(query, core, stale) + ") r" + if_touched;
    }
    compiler.script().add_table(op.change, change);
    return op;
}

}  // namespace baton::stream
