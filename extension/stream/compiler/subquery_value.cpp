// A subquery that gives a value for each row of A: a scalar subquery, an array, a comparison of rows, or
// EXISTS, ANY and ALL within a larger expression. The value becomes a column of A's rows; see per_row.cpp.

#include "stream/compiler/per_row.hpp"
#include "stream/compiler/subquery.hpp"

namespace baton::stream {

namespace {

// Columns that stand for subqueries: no FROM clause has so many items.
constexpr int first_value_range = 1000000;

struct Replacement {
    const SubLink* sublink;
    Var* column;
};

struct Found {
    std::vector<Replacement>* replacements;
    int next_range;
};

Node* replace(Node* node, void* context) {
    auto& found = *static_cast<Found*>(context);
    if (node == nullptr) return nullptr;
    if (!IsA(node, SubLink)) return pg::mutate_expression(node, replace, context);
    auto* const column =
        makeVar(found.next_range++, 1, exprType(node), exprTypmod(node), exprCollation(node), 0);
    found.replacements->push_back({reinterpret_cast<SubLink*>(node), column});
    return reinterpret_cast<Node*>(column);
}

const Operator& with_value(Compiler& compiler, const Operator& left, const Replacement& replacement) {
    const auto& sublink = *replacement.sublink;
    if (pg::call([&] {
            return contain_aggs_of_level(reinterpret_cast<Node*>(const_cast<SubLink*>(&sublink)), 0) ||
                   contain_windowfuncs(sublink.testexpr);
        }))
        throw NotDifferential("a subquery that uses an aggregate of the block around it");
    const int range = static_cast<int>(replacement.column->varno);
    return per_row(compiler, {"value of a subquery",
                              &left,
                              subquery_template(compiler, left, sublink),
                              {column_of("s" + std::to_string(range - first_value_range),
                                         reinterpret_cast<Node*>(replacement.column))},
                              {{range, 1}}});
}

}  // namespace

Node* with_subquery_values(Compiler& compiler, const Operator*& op, Node* expression) {
    std::vector<Replacement> replacements;
    Found found{&replacements, first_value_range + compiler.take_values(0)};
    Node* const plain = pg::call([&] { return replace(expression, &found); });
    compiler.take_values(static_cast<int>(replacements.size()));
    for (const auto& replacement : replacements) op = &with_value(compiler, *op, replacement);
    return plain;
}

}  // namespace baton::stream
