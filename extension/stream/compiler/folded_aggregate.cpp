// count() and sum() of exact numbers at the root: a group's new value is its old one, which stands in the
// stream table, plus what the rows of the change contribute, each by its weight. No other row of the group is
// read.
//
// That is exact where nothing is lost in the old value: counts; sums of integers; sums of numerics that all
// have the same number of digits behind the point, for then the sum has as many, whichever rows are in it. A
// sum is null when it is of no value, so the values must be counted, too: by a column count(x) beside sum(x),
// or by count(*) where x is never null. A group is gone when it has no row left, so its rows must be counted.
// NaN swallows what it is added to: groups in which one turns up are computed again, as touched keys are.

#include "stream/compiler/folded_aggregate.hpp"

namespace baton::stream {

namespace {

// How many digits behind the point every value of a numeric expression has; nothing if that differs.
std::optional<int> fixed_scale(const Node* node) {
    switch (nodeTag(node)) {
        case T_Var: {
            const int32 typmod = reinterpret_cast<const Var*>(node)->vartypmod;
            if (typmod < VARHDRSZ) return std::nullopt;
            return std::max(0, static_cast<int>((((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024));
        }
        case T_Const: {
            const auto* const value = reinterpret_cast<const Const*>(node);
            if (value->constisnull) return std::nullopt;
            return pg::call([&]() -> int {
                const Numeric number = DatumGetNumeric(value->constvalue);
                return numeric_is_nan(number) || numeric_is_inf(number)
                           ? -1
                           : DatumGetInt32(DirectFunctionCall1(numeric_scale, value->constvalue));
            });
        }
        case T_RelabelType:
            return fixed_scale(reinterpret_cast<Node*>(reinterpret_cast<const RelabelType*>(node)->arg));
        case T_FuncExpr: {
            const Oid function = reinterpret_cast<const FuncExpr*>(node)->funcid;
            if (function == F_NUMERIC_INT2 || function == F_NUMERIC_INT4 || function == F_NUMERIC_INT8)
                return 0;
            return std::nullopt;
        }
        case T_OpExpr: {
            const auto* const operation = reinterpret_cast<const OpExpr*>(node);
            if (list_length(operation->args) != 2) return std::nullopt;
            const auto left = fixed_scale(static_cast<Node*>(linitial(operation->args)));
            const auto right = fixed_scale(static_cast<Node*>(lsecond(operation->args)));
            if (!left || !right || *left < 0 || *right < 0) return std::nullopt;
            const Oid function = pg::call([&] { return get_opcode(operation->opno); });
            if (function == F_NUMERIC_ADD || function == F_NUMERIC_SUB) return std::max(*left, *right);
            if (function == F_NUMERIC_MUL) return *left + *right;
            return std::nullopt;
        }
        default:
            return std::nullopt;
    }
}

struct Nullness {
    const Query* query;
    bool never;
};

// Whether an expression is made of arithmetic over columns that are never null.
bool note_nullness(Node* node, void* context) {
    auto& nullness = *static_cast<Nullness*>(context);
    if (node == nullptr) return false;
    if (IsA(node, Var)) {
        const auto* const var = reinterpret_cast<Var*>(node);
        if (static_cast<int>(var->varno) > list_length(nullness.query->rtable)) return true;
        const RangeTblEntry* const entry = rt_fetch(static_cast<int>(var->varno), nullness.query->rtable);
        if (entry->rtekind != RTE_RELATION || var->varattno <= 0) return true;
        HeapTuple const row =
            SearchSysCache2(ATTNUM, ObjectIdGetDatum(entry->relid), Int16GetDatum(var->varattno));
        if (!HeapTupleIsValid(row)) return true;
        const bool is_not_null = reinterpret_cast<Form_pg_attribute>(GETSTRUCT(row))->attnotnull;
        ReleaseSysCache(row);
        return !is_not_null;
    }
    if (IsA(node, Const)) return reinterpret_cast<Const*>(node)->constisnull;
    if (IsA(node, OpExpr)) {
        const Oid function = get_opcode(reinterpret_cast<OpExpr*>(node)->opno);
        if (function >= FirstUnpinnedObjectId || !func_strict(function)) return true;
    } else if (IsA(node, FuncExpr)) {
        const Oid function = reinterpret_cast<FuncExpr*>(node)->funcid;
        if (function != F_NUMERIC_INT2 && function != F_NUMERIC_INT4 && function != F_NUMERIC_INT8)
            return true;
    } else if (!IsA(node, RelabelType)) {
        return true;
    }
    return pg::walk_expression(node, note_nullness, context);
}

bool has_outer_join(const Node* tree) {
    if (IsA(tree, RangeTblRef)) return false;
    if (IsA(tree, FromExpr)) {
        const auto members = pg::elements<Node>(reinterpret_cast<const FromExpr*>(tree)->fromlist);
        return std::any_of(members.begin(), members.end(), has_outer_join);
    }
    const auto* const join = reinterpret_cast<const JoinExpr*>(tree);
    return join->jointype != JOIN_INNER || has_outer_join(join->larg) || has_outer_join(join->rarg);
}

bool is_never_null(const Query& query, Node* expression) {
    if (has_outer_join(reinterpret_cast<Node*>(query.jointree))) return false;
    Nullness nullness{&query, true};
    return !pg::call([&] { return note_nullness(expression, &nullness); });
}

// What the value is cast to so that weighing it loses nothing; nothing for values that cannot be folded.
std::optional<std::string> cast_for_sum(Node* argument) {
    const Oid type = pg::call([&] { return exprType(argument); });
    if (type == INT2OID || type == INT4OID || type == INT8OID) return "::numeric";
    if (type != NUMERICOID) return std::nullopt;
    const auto scale = fixed_scale(argument);
    return scale && *scale >= 0 ? std::optional<std::string>("") : std::nullopt;
}

}  // namespace

std::optional<Fold> find_fold(const Query& query, const Operator& core, const std::vector<Node*>& keys) {
    if (!query.hasAggs || query.groupingSets != NIL || query.havingQual != nullptr || query.hasWindowFuncs ||
        query.hasTargetSRFs || query.distinctClause != NIL || query.limitCount != nullptr ||
        query.limitOffset != nullptr)
        return std::nullopt;
    Fold fold;
    std::vector<Node*> arguments;  // of the aggregates, null for count(*) and keys
    for (const auto* const target : pg::elements<TargetEntry>(query.targetList)) {
        if (target->resjunk) return std::nullopt;
        auto* const expression = reinterpret_cast<Node*>(target->expr);
        FoldedColumn column;
        Node* argument = nullptr;
        for (std::size_t i = 0; i < keys.size() && column.key == 0; ++i)
            if (pg::call([&] { return static_cast<bool>(equal(keys[i], expression)); }))
                column.key = static_cast<int>(i) + 1;
        if (column.key == 0) {
            if (!IsA(expression, Aggref)) return std::nullopt;
            const auto* const aggregate = reinterpret_cast<Aggref*>(expression);
            if (aggregate->aggfilter != nullptr || aggregate->aggdistinct != NIL ||
                aggregate->aggorder != NIL || aggregate->agglevelsup != 0)
                return std::nullopt;
            switch (aggregate->aggfnoid) {
                case F_COUNT_:
                    break;
                case F_COUNT_ANY:
                case F_SUM_INT2:
                case F_SUM_INT4:
                case F_SUM_INT8:
                case F_SUM_NUMERIC:
                    argument = reinterpret_cast<Node*>(linitial_node(TargetEntry, aggregate->args)->expr);
                    break;
                default:
                    return std::nullopt;
            }
            if (argument != nullptr) column.argument = expression_text(argument, {{"a", &core}});
            if (aggregate->aggfnoid != F_COUNT_ && aggregate->aggfnoid != F_COUNT_ANY) {
                column.kind = FoldedColumn::Kind::sum;
                const auto cast = cast_for_sum(argument);
                if (!cast) return std::nullopt;
                column.cast = *cast;
            } else if (argument == nullptr) {
                fold.rows = static_cast<int>(fold.columns.size()) + 1;
            }
        }
        fold.columns.push_back(column);
        arguments.push_back(argument);
    }
    if (fold.rows == 0) return std::nullopt;
    for (std::size_t i = 0; i < fold.columns.size(); ++i) {
        auto& column = fold.columns[i];
        if (column.key != 0 || column.kind != FoldedColumn::Kind::sum) continue;
        for (std::size_t j = 0; j < fold.columns.size() && column.nonnull == 0; ++j)
            if (fold.columns[j].key == 0 && fold.columns[j].kind == FoldedColumn::Kind::count &&
                arguments[j] != nullptr &&
                pg::call([&] { return static_cast<bool>(equal(arguments[i], arguments[j])); }))
                column.nonnull = static_cast<int>(j) + 1;
        if (column.nonnull == 0 && is_never_null(query, arguments[i])) column.nonnull = fold.rows;
        if (column.nonnull == 0) return std::nullopt;
    }
    return fold;
}

std::string contributions(const Fold& fold, const std::string& change, const std::vector<std::string>& keys,
                          std::size_t key_count) {
    std::vector<std::string> values = keys;
    std::vector<std::string> numbers;
    for (std::size_t i = 0; i < key_count; ++i) numbers.push_back(std::to_string(i + 1));
    for (std::size_t i = 0; i < fold.columns.size(); ++i) {
        const auto& column = fold.columns[i];
        if (column.key != 0) continue;
        const std::string name = " as d" + std::to_string(i + 1);
        if (column.kind == FoldedColumn::Kind::sum)
            values.push_back("coalesce(sum(" + column.argument + column.cast + " * a.baton_weight), 0)" +
                             name);
        else if (column.argument.empty())
            values.push_back("sum(a.baton_weight)::bigint" + name);
        else
            values.push_back("coalesce(sum(a.baton_weight) filter (where " + column.argument +
                             " is not null), 0)::bigint" + name);
    }
    return "select row_number() over () as baton_row, q.* from (select " + join(values, ", ") + " from " +
           change + " a " + (numbers.empty() ? "having count(*) > 0" : "group by " + join(numbers, ", ")) +
           ") q";
}

std::string folded_rows(const Fold& fold, const std::vector<Column>& columns, const Operator& sums,
                        const std::string& old) {
    const auto present = [&](int column) {
        const std::string number = std::to_string(column);
        return "(coalesce(o.x" + number + ", 0) + s.d" + number + ")";
    };
    std::vector<std::string> values{"s.baton_row"};
    for (const auto& key : sums.columns) values.push_back("s." + key.name);
    std::vector<std::string> sure{present(fold.rows) + " >= 0"};
    for (std::size_t i = 0; i < fold.columns.size(); ++i) {
        const auto& column = fold.columns[i];
        const std::string name = " as " + columns[i].name;
        const int number = static_cast<int>(i) + 1;
        if (column.key != 0) {
            values.push_back("s.k" + std::to_string(column.key) + name);
        } else if (column.kind == FoldedColumn::Kind::count) {
            values.push_back(present(number) + name);
        } else {
            const std::string type = type_text(columns[i].type, -1);
            values.push_back("case when " + present(column.nonnull) + " > 0 then " + present(number) +
                             "::" + type + " end" + name);
            if (columns[i].type == NUMERICOID) sure.push_back(present(number) + " <> 'NaN'");
        }
    }
    values.push_back(present(fold.rows) + " > 0 as is_there");
    values.push_back("(" + join(sure, " and ") + ") as is_sure");
    return "select " + join(values, ", ") + " from " + sums.now + " s left join " + old +
           " o using (baton_row)";
}

}  // namespace baton::stream
