#pragma once
// Subqueries in expressions, as partners of the rows around them.

#include "stream/compiler/text.hpp"

namespace baton::stream {

// A subquery's rows, under the alias b, beside a row around it, under the alias a.
struct Partner {
    const Operator* op;
    std::vector<std::string> conditions;  // what a correlated subquery asks of the row around it
    List* outputs;                        // the subquery's columns, bound
};

// The scope of a partner's expressions: those that are bound already.
std::vector<Alias> partner_scope(const Operator& left, const Partner& partner);

// Make a subquery's rows a partner. Its correlated conditions become the partner's, if it is a plain
// selection. Other subqueries must not look outside; nothing for those that do.
std::optional<Partner> make_partner(Compiler& compiler, const Operator& left, const SubLink& sublink);

// Replace each subquery of an expression by a column of the operator, which is extended by it.
Node* with_subquery_values(Compiler& compiler, const Operator*& op, Node* expression);

}  // namespace baton::stream
