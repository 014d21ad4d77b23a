#pragma once
// The time of the query as a value: now(), current_date and the like.

#include "stream/compiler/text.hpp"

namespace baton::stream {

// Whether a node is the time of the transaction. For use inside of pg::call.
bool is_time(Node* node);
// Whether an expression names the time, its subqueries included.
bool names_time(Node* expression);

constexpr const char* time_out_of_place =
    "the time of the query is used elsewhere than in a condition of WHERE or an inner join";

// The rows of an operator for which a condition holds that names the time.
const Operator& time_filter(Compiler& compiler, const Operator& input, Node* condition);

}  // namespace baton::stream
