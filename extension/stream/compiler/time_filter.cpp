// A condition that names the time of the query: now(), current_date, and so on. The time is a source that is
// always another one: at the last refresh it was `past`, in this statement it is `present`, and both are the
// same for the whole query, as they are in a transaction.
//
// With C(t) for the rows that the condition chooses at the time t, the change is
//     C(present) of now(A) - C(past) of before(A)
//   = C(past) of change(A) + C(present) of now(A) - C(past) of now(A):
// what came and went by the old time, and of the present rows those that only one of both times chooses. No
// order of the times is assumed, because clocks can be set.
//
// A comparison of something without the time with something that has nothing else is either true, false, or
// unknown at both times, so that "not true" is "false" for it. Then both conditions are bounds of an index,
// and only the rows that the time has passed are read.
//
// Elsewhere (in the SELECT list, in HAVING, in a condition of an outer join) the time would change every row
// with each refresh: such queries are refused.

#include "stream/compiler/time_filter.hpp"

#include "stream/compiler/block.hpp"

namespace baton::stream {

namespace {

// The function that makes of the transaction's time what a node stands for; 0: nothing need be done.
std::optional<Oid> conversion(Node* node) {
    if (IsA(node, FuncExpr)) {
        const Oid function = reinterpret_cast<FuncExpr*>(node)->funcid;
        return function == F_NOW || function == F_TRANSACTION_TIMESTAMP ? std::optional<Oid>(InvalidOid)
                                                                        : std::nullopt;
    }
    if (!IsA(node, SQLValueFunction)) return std::nullopt;
    switch (reinterpret_cast<SQLValueFunction*>(node)->op) {
        case SVFOP_CURRENT_TIMESTAMP:
            return InvalidOid;
        case SVFOP_CURRENT_DATE:
            return F_DATE_TIMESTAMPTZ;
        case SVFOP_LOCALTIMESTAMP:
            return F_TIMESTAMP_TIMESTAMPTZ;
        case SVFOP_LOCALTIME:
            return F_TIME_TIMESTAMPTZ;
        case SVFOP_CURRENT_TIME:
            return F_TIMETZ_TIMESTAMPTZ;
        default:
            return std::nullopt;
    }
}

bool note_time(Node* node, void* context) {
    if (node == nullptr) return false;
    if (is_time(node)) return true;
    if (IsA(node, Query)) return pg::walk_query(reinterpret_cast<Query*>(node), note_time, context, 0);
    return pg::walk_expression(node, note_time, context);
}

// The place of the times among the origins: no FROM clause has so many items.
constexpr Origin present{2000000, 1};
constexpr Origin past{2000000, 2};

Node* replace_time(Node* node, void* context) {
    if (node == nullptr) return nullptr;
    const auto function = conversion(node);
    if (!function) return pg::mutate_expression(node, replace_time, context);
    const auto& time = *static_cast<const Origin*>(context);
    Var* const column =
        makeVar(time.range, static_cast<AttrNumber>(time.attribute), TIMESTAMPTZOID, -1, InvalidOid, 0);
    if (!OidIsValid(*function)) return reinterpret_cast<Node*>(column);
    return reinterpret_cast<Node*>(makeFuncExpr(*function, exprType(node), list_make1(column), InvalidOid,
                                                InvalidOid, COERCE_EXPLICIT_CAST));
}

// Whether an expression is arithmetic over the time and constants, and never null.
bool is_of_time_alone(Node* node) {
    if (is_time(node)) return true;
    const List* arguments = NIL;
    switch (nodeTag(node)) {
        case T_Const:
            return !reinterpret_cast<Const*>(node)->constisnull;
        case T_OpExpr:
            arguments = reinterpret_cast<OpExpr*>(node)->args;
            break;
        case T_FuncExpr:
            arguments = reinterpret_cast<FuncExpr*>(node)->args;
            if (reinterpret_cast<FuncExpr*>(node)->funcid >= FirstUnpinnedObjectId) return false;
            break;
        case T_RelabelType:
            return is_of_time_alone(reinterpret_cast<Node*>(reinterpret_cast<RelabelType*>(node)->arg));
        default:
            return false;
    }
    const auto members = pg::elements<Node>(arguments);
    return std::all_of(members.begin(), members.end(), is_of_time_alone);
}

// Whether a condition that is true at one time is true or false at any other.
bool is_plain_comparison(Node* condition) {
    if (!IsA(condition, OpExpr)) return false;
    const auto* const operation = reinterpret_cast<OpExpr*>(condition);
    if (list_length(operation->args) != 2 || operation->opno >= FirstUnpinnedObjectId) return false;
    auto* const left = static_cast<Node*>(linitial(operation->args));
    auto* const right = static_cast<Node*>(lsecond(operation->args));
    return (!names_time(left) && is_of_time_alone(right)) || (!names_time(right) && is_of_time_alone(left));
}

}  // namespace

bool is_time(Node* node) {
    return conversion(node).has_value();
}

bool names_time(Node* expression) {
    return pg::call([&] { return note_time(expression, nullptr); });
}

const Operator& time_filter(Compiler& compiler, const Operator& input, Node* condition) {
    Operator& op = compiler.make("filter by the time", {&input});
    op.columns = input.columns;
    op.origins = input.origins;
    Operator& times = compiler.make("times", {});  // nobody sees it
    times.columns = {{"present", TIMESTAMPTZOID, -1, InvalidOid}, {"past", TIMESTAMPTZOID, -1, InvalidOid}};
    times.origins = {present, past};
    compiler.script().add_view(times.now,
                               "select pg_catalog.now() as present, baton_internal.frontier_time() as past");
    const auto at = [&](Origin time) {
        Node* const bound = pg::call([&] { return replace_time(condition, &time); });
        return expression_text(bound, {{"a", &input}, {"t", &times}});
    };
    const std::string columns = column_list(input.columns, "a");
    const std::string from = " a, " + times.now + " t where ";
    const auto missed = [&](Origin time) {
        return is_plain_comparison(condition) ? "not " + at(time) : at(time) + " is not true";
    };
    compiler.script().add_view(op.now, "select " + columns + " from " + input.now + from + at(present));
    std::string change = "select " + columns + ", 1::bigint as baton_weight from " + input.now + from +
                         at(present) + " and " + missed(past) + "\n union all select " + columns +
                         ", -1::bigint from " + input.now + from + at(past) + " and " + missed(present);
    if (!input.is_constant())
        change +=
            "\n union all select " + columns + ", a.baton_weight from " + input.change + from + at(past);
    compiler.script().add_table(op.change, change);
    return op;
}

}  // namespace baton::stream
