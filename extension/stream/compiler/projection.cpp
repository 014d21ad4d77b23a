// The SELECT list of a block without groups, windows, DISTINCT or LIMIT. Each row of the input gives a row of
// the result, or as many as a set-returning function makes of it, with the input's weight.

#include "stream/compiler/text.hpp"

namespace baton::stream {

const Operator& projection(Compiler& compiler, Query* query, const Operator& core) {
    Operator& op = compiler.make("projection", {&core});
    op.columns = output_columns(query->targetList);
    std::vector<std::string> values;
    for (auto* const target : pg::elements<TargetEntry>(query->targetList))
        if (!target->resjunk)
            values.push_back(expression_text(reinterpret_cast<Node*>(target->expr), {{"a", &core}}) + " as " +
                             op.columns[values.size()].name);
    const std::string list = join(values, ", ");
    compiler.script().add_view(op.now, "select " + list + " from " + core.now + " a");
    if (core.is_constant())
        op.change.clear();
    else
        compiler.script().add_table(op.change,
                                    "select " + list + ", a.baton_weight from " + core.change + " a");
    return op;
}

}  // namespace baton::stream
