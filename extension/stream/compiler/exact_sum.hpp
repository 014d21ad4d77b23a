#pragma once
// Which sums lose nothing, so that values can be taken out of them again.

#include "stream/compiler/text.hpp"

namespace baton::stream {

// What a value is cast to so that weighing it loses nothing; nothing for values whose sum is not exact.
std::optional<std::string> cast_for_sum(Node* argument);

// Whether an expression of a block is null for no row.
bool is_never_null(const Query& query, Node* expression);

}  // namespace baton::stream
