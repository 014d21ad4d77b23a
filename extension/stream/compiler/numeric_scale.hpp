#pragma once
// How many digits numerics have behind the point, where that is known.

#include <optional>
#include <vector>

#include "stream/compiler/text.hpp"

namespace baton::stream {

// How many digits behind the point every value of a numeric expression has; nothing if that differs. The
// blocks around the expression, its own last, say what its columns are made of.
std::optional<int> fixed_scale(const Node* node, const std::vector<Query*>& blocks = {});

}  // namespace baton::stream
