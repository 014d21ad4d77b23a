// A subquery that gives a value for each row of A: a scalar subquery, or EXISTS, ANY and ALL within a larger
// expression. The value becomes a column of A's rows.
//
// A row keeps its weight and gets its value. So the change is
//     change(A), each row with its value now
//   + before(A), each row with its value now, minus the same row with its value before,
// and the second part needs only rows that have a partner in the change of the subquery's rows B. The value
// before is that of the same subquery over what B's partners were: those of now minus those in the change.

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

// Text of the value over the rows b of `rows`, which holds a FROM item and perhaps a WHERE.
std::string value_text(const SubLink& sublink, const Operator& left, const Partner& partner,
                       const std::string& rows) {
    const std::vector<Alias> scope = partner_scope(left, partner);
    if (sublink.subLinkType == EXISTS_SUBLINK) return "exists (select from " + rows + ")";
    if (sublink.subLinkType == EXPR_SUBLINK) {
        auto* const output = static_cast<Node*>(linitial(partner.outputs));
        return "(select " + bound_text(output, scope) + " from " + rows + ")";
    }
    // ANY is true if it is for some row, else unknown if it is for some; ALL is the same, turned around.
    const std::string test = bound_text(bound(sublink.testexpr, scope, partner.outputs), scope);
    const bool is_any = sublink.subLinkType == ANY_SUBLINK;
    return std::string("(select case when ") + (is_any ? "bool_or(t.test)" : "not bool_and(t.test)") +
           " then " + (is_any ? "true" : "false") + " when count(*) > count(t.test) then null else " +
           (is_any ? "false" : "true") + " end from (select " + test + " as test from " + rows + ") t)";
}

const Operator& with_value(Compiler& compiler, const Operator& left, const Replacement& replacement) {
    const SubLink& sublink = *replacement.sublink;
    const bool is_test = sublink.subLinkType == ANY_SUBLINK || sublink.subLinkType == ALL_SUBLINK;
    if (!is_test && sublink.subLinkType != EXISTS_SUBLINK && sublink.subLinkType != EXPR_SUBLINK)
        throw NotDifferential("a subquery that gives an array or a row");
    const Partner partner = make_partner(compiler, left, sublink, sublink.subLinkType == EXPR_SUBLINK);
    const Operator& right = *partner.op;
    Operator& op = compiler.make("value of a subquery", {&left, &right});
    op.columns = left.columns;
    op.columns.push_back(column_of("s" + std::to_string(replacement.column->varno - first_value_range),
                                   reinterpret_cast<Node*>(replacement.column)));
    op.origins = left.origins;
    op.origins.push_back({static_cast<int>(replacement.column->varno), 1});

    const std::string columns = column_list(left.columns, "a");
    const std::string name = op.columns.back().name;
    const std::string condition = all_of(partner.conditions);
    const std::string now = value_text(sublink, left, partner, right.now + " b where " + condition);
    const auto rows = [&](const std::string& input, const std::string& weight) {
        return "select " + columns + ", " + now + " as " + name + weight + " from " + input + " a";
    };
    compiler.script().add_view(op.now, rows(left.now, ""));
    std::vector<std::string> terms;
    if (!left.is_constant()) terms.push_back(rows(left.change, ", a.baton_weight"));
    if (!right.is_constant()) {
        const std::string partners = column_list(right.columns, "b");
        const std::string before =
            spread(right.columns, "select " + partners + ", 1::bigint as baton_weight from " + right.now +
                                      " b where " + condition + " union all select " + partners +
                                      ", -b.baton_weight from " + right.change + " b where " + condition);
        const std::string affected = affected_rows(compiler, op, {&left, "a"}, {&right, "b"}, condition);
        const std::string both = Compiler::name("values", op);
        compiler.script().add_table(both, "select " + columns + ", a.baton_weight, " + now + " as now, " +
                                              value_text(sublink, left, partner, "(" + before + ") b") +
                                              " as before from " + affected + " a");
        const std::string differ =
            " from " + both +
            " a where baton_internal.image(a.now) is distinct from baton_internal.image(a.before)";
        terms.push_back("select " + columns + ", a.now as " + name + ", a.baton_weight" + differ);
        terms.push_back("select " + columns + ", a.before as " + name + ", -a.baton_weight" + differ);
    }
    if (terms.empty())
        op.change.clear();
    else
        compiler.script().add_table(op.change, join(terms, "\n union all "));
    return op;
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
