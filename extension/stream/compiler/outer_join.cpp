// Left, right and full joins of A and B. The result is the inner join, plus each row of A without a partner,
// padded with nulls, plus in a full join the same for B.
//
// Inner part: change(A) x now(B) + before(A) x change(B), as in inner_join.cpp.
// Padded rows of A: a row a counts as often as it weighs if it has no partner. So the change is
//     change(A) where now(B) has no partner
//   + before(A) weighed by [no partner now] - [no partner before],
// and the second part needs only rows that have a partner in change(B): for all others nothing has changed.
// (See partner_counts.cpp.)
// The first lines of both parts together are change(A) left join now(B).

#include "stream/compiler/text.hpp"

namespace baton::stream {

namespace {

// How the padded rows of one side changed because the other side did.
std::string padding(Compiler& compiler, const Operator& owner, const Side& side, const Side& partner,
                    const std::string& columns, const std::string& condition) {
    const std::string alias = side.alias;
    return "select " + columns + ", " + alias + ".baton_weight * ((" + alias + ".partners_now = 0)::int - (" +
           alias + ".partners_before = 0)::int) as baton_weight from " +
           partner_counts(compiler, owner, side, partner, condition) + " " + alias;
}

}  // namespace

const Operator& outer_join(Compiler& compiler, JoinType type, const Operator& left, const Operator& right,
                           Node* condition) {
    if (type == JOIN_RIGHT) return outer_join(compiler, JOIN_LEFT, right, left, condition);
    const bool is_full = type == JOIN_FULL;
    Operator& op = compiler.make(is_full ? "full join" : "left join", {&left, &right});
    op.columns = left.columns;
    op.columns.insert(op.columns.end(), right.columns.begin(), right.columns.end());
    op.origins = left.origins;
    op.origins.insert(op.origins.end(), right.origins.begin(), right.origins.end());

    const std::string on =
        condition == nullptr ? "true" : expression_text(condition, {{"a", &left}, {"b", &right}});
    const std::string columns = column_list(left.columns, "a") + ", " + column_list(right.columns, "b");
    const std::string left_padded = column_list(left.columns, "a") + ", " + null_list(right.columns);
    const std::string right_padded = null_list(left.columns) + ", " + column_list(right.columns, "b");
    compiler.script().add_view(op.now, "select " + columns + " from " + left.now + " a " +
                                           (is_full ? "full" : "left") + " join " + right.now + " b on " +
                                           on);

    std::vector<std::string> terms;
    if (!left.is_constant()) {
        terms.push_back("select " + columns + ", a.baton_weight from " + left.change + " a left join " +
                        right.now + " b on " + on);
        if (is_full) terms.push_back(padding(compiler, op, {&right, "b"}, {&left, "a"}, right_padded, on));
    }
    if (!right.is_constant()) {
        terms.push_back("select " + columns + ", a.baton_weight * b.baton_weight as baton_weight from " +
                        compiler.before(left) + " a join " + right.change + " b on " + on);
        terms.push_back(padding(compiler, op, {&left, "a"}, {&right, "b"}, left_padded, on));
        if (is_full)
            terms.push_back("select " + right_padded + ", b.baton_weight from " + right.change +
                            " b where not exists (select from " + left.now + " a where " + on + ")");
    }
    if (terms.empty())
        op.change.clear();
    else
        compiler.script().add_table(op.change, join(terms, "\n union all "));
    return op;
}

}  // namespace baton::stream
