// WITH RECURSIVE. How far a change reaches through a recursion depends on everything in it: a row that goes
// may have been the only way to many others, or one of several. So the recursion is computed again when a
// table in it has changed, over the rows of now and over those of before, and the change is the difference.
// What the rest of the query does with the recursion follows this difference as any other.

#include "stream/compiler/template.hpp"

namespace baton::stream {

const Operator& recursion(Compiler& compiler, const CommonTableExpr& with) {
    const Template inside = recursive_template(compiler, with);
    std::vector<const Operator*> inputs;
    std::vector<std::string> changed;
    for (const auto& leaf : inside.leaves) {
        inputs.push_back(leaf.op);
        if (!leaf.op->is_constant()) changed.push_back("exists (select from " + leaf.op->change + ")");
    }
    Operator& op = compiler.make("recursion (computed again when anything has changed)", inputs);
    std::vector<std::string> names;
    for (int i = 0; i < list_length(with.ctecoltypes); ++i) {
        op.columns.push_back({"x" + std::to_string(i + 1), list_nth_oid(with.ctecoltypes, i),
                              list_nth_int(with.ctecoltypmods, i), list_nth_oid(with.ctecolcollations, i)});
        names.push_back(op.columns.back().name);
    }
    const std::string columns = join(names, ", ");
    const auto rows = [&](const std::string& text) { return text + " r(" + columns + ")"; };
    compiler.script().add_view(op.now, "select " + columns + " from " + rows(inside.filled(leaf_now)));
    if (changed.empty()) {
        op.change.clear();
        return op;
    }
    const std::string when = " where " + join(changed, " or ");
    const std::string before = inside.filled([&](const Leaf& leaf) { return leaf_before(compiler, leaf); });
    compiler.script().add_table(op.change, "select " + columns + ", 1::bigint as baton_weight from " +
                                               rows(inside.filled(leaf_now)) + when + "\n union all select " +
                                               columns + ", -1::bigint from " + rows(before) + when);
    return op;
}

}  // namespace baton::stream
