#include "stream/compiler/exact_sum.hpp"

#include "stream/compiler/numeric_scale.hpp"

namespace baton::stream {

namespace {

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

}  // namespace

bool is_never_null(const Query& query, Node* expression) {
    if (has_outer_join(reinterpret_cast<Node*>(query.jointree))) return false;
    Nullness nullness{&query, true};
    return !pg::call([&] { return note_nullness(expression, &nullness); });
}

std::optional<std::string> cast_for_sum(Node* argument) {
    const Oid type = pg::call([&] { return exprType(argument); });
    if (type == INT2OID || type == INT4OID || type == INT8OID) return "::numeric";
    if (type != NUMERICOID) return std::nullopt;
    return fixed_scale(argument) ? std::optional<std::string>("") : std::nullopt;
}

}  // namespace baton::stream
