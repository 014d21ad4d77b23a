#pragma once
// Whether a block leaves open which of several results it gives: see ties.cpp.

#include <set>

#include "stream/compiler/text.hpp"

namespace baton::stream {

// Whether two values of an expression that are equal always look the same.
bool looks_alike(const Node* expression);
bool looks_alike(const Column& column);

// Throws NotDifferential for a block that may give another result over the same rows. Its columns are those
// of its FROM clause, and values under other ranges, of which some are decided by the group of a row.
// `blocks` are those around.
void refuse_ties(Query& query, std::vector<Query*> blocks, const std::set<int>& decided = {});
// The same for a set operation that makes one of rows that are equal.
void refuse_ties(const std::vector<Column>& columns);

}  // namespace baton::stream
