#include "stream/compiler/numeric_scale.hpp"

namespace baton::stream {

namespace {

using Scale = std::optional<int>;
using Blocks = std::vector<Query*>;

// A column that others mention twice is followed twice, over all levels of views: so many columns are
// followed for a question, and then its answer is not known.
constexpr int most_columns = 1000;

class Following {
  public:
    Following() {
        if (depth_++ == 0) columns_ = 0;
    }
    ~Following() { --depth_; }
    Following(const Following&) = delete;
    Following& operator=(const Following&) = delete;
    bool may_go_on() { return ++columns_ <= most_columns; }

  private:
    static inline int depth_ = 0, columns_ = 0;
};

bool is_null_constant(const Node* node) {
    return node == nullptr || (IsA(node, Const) && reinterpret_cast<const Const*>(node)->constisnull);
}

Scale scale_of_modifier(int32 modifier) {
    if (modifier < VARHDRSZ) return std::nullopt;
    return std::max(0, static_cast<int>((((modifier - VARHDRSZ) & 0x7ff) ^ 1024) - 1024));
}

Scale scale_of_constant(const Const& value) {
    if (value.constisnull || value.consttype != NUMERICOID) return std::nullopt;
    const int scale = pg::call([&]() -> int {
        const Numeric number = DatumGetNumeric(value.constvalue);
        return numeric_is_nan(number) || numeric_is_inf(number)
                   ? -1
                   : DatumGetInt32(DirectFunctionCall1(numeric_scale, value.constvalue));
    });
    return scale < 0 ? std::nullopt : Scale(scale);
}

// The scale that all of them have; nulls have any.
Scale common_scale(const std::vector<Node*>& values, const Blocks& blocks) {
    Scale common;
    for (const auto* const value : values) {
        if (is_null_constant(value)) continue;
        const Scale scale = fixed_scale(value, blocks);
        if (!scale || (common && *common != *scale)) return std::nullopt;
        common = scale;
    }
    return common;
}

// What a block gives as a column.
Scale scale_of_output(Query* query, Blocks around, int column) {
    if (query->setOperations != nullptr) return std::nullopt;
    around.push_back(query);
    for (const auto* const target : pg::elements<TargetEntry>(query->targetList))
        if (target->resno == column && !target->resjunk)
            return fixed_scale(reinterpret_cast<Node*>(target->expr), around);
    return std::nullopt;
}

Scale scale_of_with(const RangeTblEntry& from, Blocks blocks, int column) {
    if (from.self_reference || from.ctelevelsup >= blocks.size()) return std::nullopt;
    blocks.resize(blocks.size() - from.ctelevelsup);
    for (const auto* const with : pg::elements<CommonTableExpr>(blocks.back()->cteList))
        if (strcmp(with->ctename, from.ctename) == 0 && !with->cterecursive && IsA(with->ctequery, Query))
            return scale_of_output(reinterpret_cast<Query*>(with->ctequery), blocks, column);
    return std::nullopt;
}

Scale scale_of_view(Oid view, int column) {
    auto* const definition = pg::call([&] {
        Relation const relation = table_open(view, AccessShareLock);
        auto* const query = static_cast<Query*>(copyObjectImpl(get_view_query(relation)));
        table_close(relation, NoLock);
        return query;
    });
    return scale_of_output(definition, {}, column);
}

Scale scale_of_column(const Var& column, Blocks blocks) {
    if (const Scale known = scale_of_modifier(column.vartypmod)) return known;
    Following following;
    if (!following.may_go_on()) return std::nullopt;
    if (column.varattno <= 0 || column.varlevelsup >= blocks.size()) return std::nullopt;
    blocks.resize(blocks.size() - column.varlevelsup);
    const Query& query = *blocks.back();
    if (static_cast<int>(column.varno) > list_length(query.rtable)) return std::nullopt;
    const RangeTblEntry& from = *rt_fetch(static_cast<int>(column.varno), query.rtable);
    switch (from.rtekind) {
        case RTE_SUBQUERY:
            return from.subquery == nullptr ? std::nullopt
                                            : scale_of_output(from.subquery, blocks, column.varattno);
        case RTE_CTE:
            return scale_of_with(from, blocks, column.varattno);
        case RTE_RELATION:
            return from.relkind == RELKIND_VIEW ? scale_of_view(from.relid, column.varattno) : std::nullopt;
        case RTE_JOIN:
            if (column.varattno > list_length(from.joinaliasvars)) return std::nullopt;
            return fixed_scale(static_cast<Node*>(list_nth(from.joinaliasvars, column.varattno - 1)), blocks);
        default:
            return std::nullopt;
    }
}

Scale scale_of_operation(const OpExpr& operation, const Blocks& blocks) {
    const Oid function = pg::call([&] { return get_opcode(operation.opno); });
    if (function == F_NUMERIC_UMINUS || function == F_NUMERIC_UPLUS || function == F_NUMERIC_ABS)
        return fixed_scale(static_cast<Node*>(linitial(operation.args)), blocks);
    if (list_length(operation.args) != 2) return std::nullopt;
    const auto left = fixed_scale(static_cast<Node*>(linitial(operation.args)), blocks);
    const auto right = fixed_scale(static_cast<Node*>(lsecond(operation.args)), blocks);
    if (!left || !right) return std::nullopt;
    if (function == F_NUMERIC_ADD || function == F_NUMERIC_SUB) return std::max(*left, *right);
    if (function == F_NUMERIC_MUL) return *left + *right;
    return std::nullopt;
}

// The scale of a sum is the largest of those of its values.
Scale scale_of_aggregate(const Aggref& aggregate, const Blocks& blocks) {
    if (aggregate.args == NIL || aggregate.agglevelsup != 0) return std::nullopt;
    switch (aggregate.aggfnoid) {
        case F_SUM_INT8:
            return 0;
        case F_SUM_NUMERIC:
        case F_MIN_NUMERIC:
        case F_MAX_NUMERIC:
            return fixed_scale(reinterpret_cast<Node*>(linitial_node(TargetEntry, aggregate.args)->expr),
                               blocks);
        default:
            return std::nullopt;
    }
}

}  // namespace

std::optional<int> fixed_scale(const Node* node, const std::vector<Query*>& blocks) {
    switch (nodeTag(node)) {
        case T_Var:
            return scale_of_column(*reinterpret_cast<const Var*>(node), blocks);
        case T_Const:
            return scale_of_constant(*reinterpret_cast<const Const*>(node));
        case T_RelabelType:
            return fixed_scale(reinterpret_cast<Node*>(reinterpret_cast<const RelabelType*>(node)->arg),
                               blocks);
        case T_FuncExpr: {
            const Oid function = reinterpret_cast<const FuncExpr*>(node)->funcid;
            if (function == F_NUMERIC_INT2 || function == F_NUMERIC_INT4 || function == F_NUMERIC_INT8)
                return 0;
            return scale_of_modifier(pg::call([&] { return exprTypmod(node); }));  // a cast
        }
        case T_OpExpr:
            return scale_of_operation(*reinterpret_cast<const OpExpr*>(node), blocks);
        case T_Aggref:
            return scale_of_aggregate(*reinterpret_cast<const Aggref*>(node), blocks);
        case T_CoalesceExpr:
            return common_scale(pg::elements<Node>(reinterpret_cast<const CoalesceExpr*>(node)->args),
                                blocks);
        case T_CaseExpr: {
            const auto* const choice = reinterpret_cast<const CaseExpr*>(node);
            std::vector<Node*> values{reinterpret_cast<Node*>(choice->defresult)};
            for (const auto* const when : pg::elements<CaseWhen>(choice->args))
                values.push_back(reinterpret_cast<Node*>(when->result));
            return common_scale(values, blocks);
        }
        case T_SubLink: {
            const auto* const link = reinterpret_cast<const SubLink*>(node);
            if (link->subLinkType != EXPR_SUBLINK || !IsA(link->subselect, Query)) return std::nullopt;
            return scale_of_output(reinterpret_cast<Query*>(link->subselect), blocks, 1);
        }
        default:
            return std::nullopt;
    }
}

}  // namespace baton::stream
