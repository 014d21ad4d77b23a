// Conditions that hold a subquery become joins with it (semi_join.cpp). With x as the tested value:
//     EXISTS (q)           some row of q
//     x op ANY (q), x IN   some row b of q for which x op b is true
//     NOT (x op ANY (q))   no row b for which x op b is true or unknown
//     x op ALL (q)         no row b for which x op b is false or unknown
//     NOT (x op ALL (q))   some row b for which x op b is false
// In WHERE a condition that is unknown counts as one that does not hold, so these are exact.
//
// What a correlated subquery asks of the row around it becomes the join's condition, if the subquery is a
// plain selection. For others that look outside the condition is a value, and rows are chosen by it.

#include "stream/compiler/subquery.hpp"

namespace baton::stream {

namespace {

// A condition that uses subqueries as values: their values become columns, and then it is a filter.
const Operator& larger_condition(Compiler& compiler, const Operator& left, Node* condition) {
    const Operator* op = &left;
    Node* const plain = with_subquery_values(compiler, op, condition);
    return inner_join(compiler, {op}, pg::call([&] { return list_make1(plain); }));
}

}  // namespace

const Operator& subquery_condition(Compiler& compiler, const Operator& left, Node* whole) {
    Node* condition = whole;
    bool negated = false;
    while (IsA(condition, BoolExpr) && reinterpret_cast<BoolExpr*>(condition)->boolop == NOT_EXPR) {
        condition = static_cast<Node*>(linitial(reinterpret_cast<BoolExpr*>(condition)->args));
        negated = !negated;
    }
    const auto* const sublink = reinterpret_cast<SubLink*>(condition);
    const auto is = [&](SubLinkType type) { return IsA(condition, SubLink) && sublink->subLinkType == type; };
    const bool is_all = is(ALL_SUBLINK);
    if (!is_all && !is(EXISTS_SUBLINK) && !is(ANY_SUBLINK)) return larger_condition(compiler, left, whole);

    std::optional<Partner> found = make_partner(compiler, left, *sublink);
    if (!found) return larger_condition(compiler, left, whole);
    Partner& partner = *found;
    if (sublink->testexpr != nullptr) {
        const std::vector<Alias> outside = partner_scope(left, partner);
        const std::string test = bound_text(bound(sublink->testexpr, outside, partner.outputs), outside);
        const char* const expectation =
            is_all ? (negated ? " is false" : " is not true") : (negated ? " is not false" : "");
        partner.conditions.push_back("(" + test + expectation + ")");
    }
    const bool wants_none = is_all != negated;
    return semi_join(compiler, left, *partner.op, all_of(partner.conditions), wants_none,
                     wants_none ? "rows without a partner (anti join)" : "rows with a partner (semi join)");
}

}  // namespace baton::stream
