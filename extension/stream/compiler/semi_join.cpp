// Rows of A for which B has a partner (EXISTS, IN, ANY), or has none (NOT EXISTS, NOT IN, ALL).
//
// A row counts as often as it weighs if the condition holds for it. So the change is
//     change(A) where the condition holds now
//   + before(A) weighed by [holds now] - [held before],
// and the second part needs only rows that have a partner in change(B). How many partners a row had is how
// many it has now minus what they weigh in change(B).

#include "stream/compiler/text.hpp"

namespace baton::stream {

const Operator& semi_join(Compiler& compiler, const Operator& left, const Operator& right,
                          const std::string& condition, bool negated, std::string label) {
    Operator& op = compiler.make(std::move(label), {&left, &right});
    op.columns = left.columns;
    op.origins = left.origins;
    const std::string columns = column_list(left.columns, "a");
    const std::string partners = " (select from " + right.now + " b where " + condition + ")";
    const std::string holds = (negated ? "not exists" : "exists") + partners;
    compiler.script().add_view(op.now, "select " + columns + " from " + left.now + " a where " + holds);

    std::vector<std::string> terms;
    if (!left.is_constant())
        terms.push_back("select " + columns + ", a.baton_weight from " + left.change + " a where " + holds);
    if (!right.is_constant()) {
        const std::string test = negated ? " = 0" : " > 0";
        terms.push_back("select " + columns + ", a.baton_weight * ((a.partners_now" + test +
                        ")::int - (a.partners_before" + test + ")::int) as baton_weight from " +
                        partner_counts(compiler, op, {&left, "a"}, {&right, "b"}, condition) + " a");
    }
    if (terms.empty())
        op.change.clear();
    else
        compiler.script().add_table(op.change, join(terms, "\n union all "));
    return op;
}

}  // namespace baton::stream
