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
// different). Elsewhere the block must be determined by its rows (ties.cpp).

#include "stream/compiler/folded_aggregate.hpp"
#include "stream/compiler/ties.hpp"

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

// The rule at work.
class TouchedKeys {
  public:
    TouchedKeys(Compiler& compiler, Query* query, const Operator& core, const Target* target)
        : compiler_(compiler),
          query_(query),
          core_(core),
          target_(target),
          keys_(find_keys(*query)),
          op_(compiler.make(
              std::string(label_of(*query)) +
                  (keys_.empty() ? " (of all rows, when any has changed)" : " (of touched keys)"),
              {&core})),
          touched_(
              compiler.make("touched keys", {})) {  // no operator that anybody sees, but rows with columns
        op_.columns = output_columns(query->targetList);
        compiler_.script().add_view(op_.now, block_text(query_, core_, core_.now));
        touched_.now = Compiler::name("touched", op_);
    }

    const Operator& build() {
        if (core_.is_constant()) {
            op_.change.clear();
            return op_;
        }
        note_keys();
        std::vector<std::string> terms;
        std::string touched = "select distinct " + join(key_texts_, ", ") + " from " + core_.change + " a";
        if (const auto fold = root_knows() ? foldable() : std::nullopt) touched = carry_on(*fold, terms);
        compiler_.script().add_table(touched_.now, touched);
        recompute(terms);
        compiler_.script().add_table(op_.change, join(terms, "\n union all "));
        return op_;
    }

  private:
    void note_keys() {
        for (const auto& key : keys_) {
            equalities_.push_back(key.equality);
            touched_.columns.push_back(
                column_of("k" + std::to_string(key_texts_.size() + 1), key.expression));
            key_texts_.push_back(expression_text(key.expression, {{"a", &core_}}) + " as " +
                                 touched_.columns.back().name);
            key_values_.push_back(bound(key.expression, {{"a", &core_}}));
            stored_values_.push_back(pg::call([&] {
                return reinterpret_cast<Node*>(makeVar(1, static_cast<AttrNumber>(key.output),
                                                       exprType(key.expression), exprTypmod(key.expression),
                                                       exprCollation(key.expression), 0));
            }));
        }
        if (keys_.empty()) key_texts_.emplace_back("true as k1");
    }

    // Whether the stream table says what the block had made of a key's rows.
    bool root_knows() const {
        return target_ != nullptr &&
               std::all_of(keys_.begin(), keys_.end(), [](const Key& key) { return key.output > 0; });
    }

    const std::string& stored() {
        if (stored_.empty()) stored_ = compiler_.stored(op_, *target_);
        return stored_;
    }

    std::optional<Fold> foldable() const {
        if (!std::all_of(touched_.columns.begin(), touched_.columns.end(), equality_is_image))
            return std::nullopt;
        std::vector<Node*> expressions;
        for (const auto& key : keys_) expressions.push_back(key.expression);
        return find_fold(*query_, expressions);
    }

    // The keys' texts; none where there is no key.
    std::vector<std::string> fold_keys() const {
        return keys_.empty() ? std::vector<std::string>{} : key_texts_;
    }

    // The change of groups whose aggregates can be carried on; returns what the keys of all others are.
    std::string carry_on(const Fold& fold, std::vector<std::string>& terms) {
        op_.label = "aggregate (carried on)";
        Operator& sums = compiler_.make("sums", {});
        sums.now = Compiler::name("sums", op_);
        sums.columns = touched_.columns;
        compiler_.script().add_table(sums.now, contributions(fold, core_, fold_keys(), touched_.columns));
        const std::string old = Compiler::name("old", op_);
        compiler_.script().add_table(
            old,
            rows_of_touched(sums, stored_values_, equalities_,
                            "select k.baton_row, " + column_list(op_.columns, "r"), {"r", &op_}, stored()));
        const std::string folded = Compiler::name("folded", op_);
        compiler_.script().add_table(folded, folded_rows(fold, op_.columns, sums, old));
        terms.push_back("select " + column_list(op_.columns, "f") + ", 1::bigint as baton_weight from " +
                        folded + " f where f.is_sure and " + (keys_.empty() ? "true" : "f.is_there"));
        terms.push_back("select " + column_list(op_.columns, "o") + ", -1::bigint from " + old + " o join " +
                        folded + " f using (baton_row) where f.is_sure");
        return "select " + (keys_.empty() ? "true as k1" : column_list(touched_.columns)) + " from " +
               folded + " where not is_sure";
    }

    // The change of touched keys, by computing them again.
    void recompute(std::vector<std::string>& terms) {
        const std::string fresh = Compiler::name("fresh", op_);
        compiler_.script().add_table(
            fresh, rows_of_touched(touched_, key_values_, equalities_,
                                   "select " + column_list(core_.columns, "a"), {"a", &core_}, core_.now));
        const std::string outputs = column_list(op_.columns, "r");
        // Over no rows at all a block may still give one: that is no change.
        const std::string if_touched =
            keys_.empty() ? " where exists (select from " + touched_.now + ")" : "";
        terms.push_back("select " + outputs + ", 1::bigint as baton_weight from (" +
                        block_text(query_, core_, fresh) + ") r" + if_touched);
        if (root_knows()) {
            terms.push_back(rows_of_touched(touched_, stored_values_, equalities_,
                                            "select " + outputs + ", -1::bigint as baton_weight", {"r", &op_},
                                            stored()));
            return;
        }
        refuse_ties(*query_, compiler_.levels(), compiler_.decided_values());
        const std::string columns = column_list(core_.columns);
        const std::string stale = Compiler::name("stale", op_);
        compiler_.script().add_view(
            stale, spread(core_.columns, "select " + columns + ", 1::bigint as baton_weight from " + fresh +
                                             " union all select " + columns + ", -baton_weight from " +
                                             core_.change));
        terms.push_back("select " + outputs + ", -1::bigint from (" + block_text(query_, core_, stale) +
                        ") r" + if_touched);
    }

    Compiler& compiler_;
    Query* query_;
    const Operator& core_;
    const Target* target_;
    std::vector<Key> keys_;
    Operator& op_;
    Operator& touched_;
    std::vector<std::string> key_texts_;
    std::vector<Node*> key_values_;     // over the input's columns
    std::vector<Node*> stored_values_;  // over the stream table's
    std::vector<Oid> equalities_;
    std::string stored_;
};

}  // namespace

const Operator& touched_keys(Compiler& compiler, Query* query, const Operator& core, const Target* target) {
    return TouchedKeys(compiler, query, core, target).build();
}

}  // namespace baton::stream
