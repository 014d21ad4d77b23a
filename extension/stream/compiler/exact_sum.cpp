#include "stream/compiler/exact_sum.hpp"

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
    const auto scale = fixed_scale(argument);
    return scale && *scale >= 0 ? std::optional<std::string>("") : std::nullopt;
}

}  // namespace baton::stream
