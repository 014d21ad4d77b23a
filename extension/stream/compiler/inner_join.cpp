// Inner joins of any number of inputs, and filters, which are joins of one.
//
// A row of the result weighs what its parts weigh together. With inputs 1 to n the change is the sum over i
// of
//     now(1) x .. x now(i-1) x change(i) x before(i+1) x .. x before(n):
// the terms telescope, because now(i) = before(i) + change(i), so that the sum is the join of all that is now
// minus the join of all that was before. A condition only chooses among the rows.

#include "stream/compiler/text.hpp"

namespace baton::stream {

namespace {

// One term: the weighted parts, the rest as it is now.
std::string term(const std::vector<std::string>& froms, const std::vector<std::string>& weights,
                 const std::string& columns, const std::string& condition) {
    return "select " + columns + ", " + join(weights, " * ") + " as baton_weight from " + join(froms, ", ") +
           " where " + condition;
}

}  // namespace

const Operator& inner_join(Compiler& compiler, const std::vector<const Operator*>& inputs, List* conditions) {
    Operator& op = compiler.make(inputs.size() == 1 ? "filter" : "inner join", inputs);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < inputs.size(); ++i) names.push_back("a" + std::to_string(i + 1));
    std::vector<Alias> scope;
    std::vector<std::string> columns;
    std::vector<std::string> now;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        scope.push_back({names[i].c_str(), inputs[i]});
        op.columns.insert(op.columns.end(), inputs[i]->columns.begin(), inputs[i]->columns.end());
        op.origins.insert(op.origins.end(), inputs[i]->origins.begin(), inputs[i]->origins.end());
        columns.push_back(column_list(inputs[i]->columns, names[i]));
        now.push_back(inputs[i]->now + " " + names[i]);
    }
    std::vector<std::string> texts;
    for (auto* const condition : pg::elements<Node>(conditions))
        texts.push_back(expression_text(condition, scope));
    const std::string condition = all_of(texts);
    const std::string column_texts = join(columns, ", ");
    compiler.script().add_view(op.now,
                               "select " + column_texts + " from " + join(now, ", ") + " where " + condition);

    std::vector<std::string> terms;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i]->is_constant()) continue;
        std::vector<std::string> froms(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(i));
        std::vector<std::string> weights{names[i] + ".baton_weight"};
        froms.push_back(inputs[i]->change + " " + names[i]);
        for (std::size_t j = i + 1; j < inputs.size(); ++j) {
            const bool is_constant = inputs[j]->is_constant();
            froms.push_back((is_constant ? inputs[j]->now : compiler.before(*inputs[j])) + " " + names[j]);
            if (!is_constant) weights.push_back(names[j] + ".baton_weight");
        }
        terms.push_back(term(froms, weights, column_texts, condition));
    }
    if (terms.empty())
        op.change.clear();
    else
        compiler.script().add_table(op.change, join(terms, "\n union all "));
    return op;
}

}  // namespace baton::stream
