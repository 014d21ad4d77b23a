#pragma once
// Reads sequences without the rights that SQL would ask for.

#include "pg/guard.hpp"

namespace baton::pg {

// The sequence that belongs to a column, or InvalidOid.
Oid sequence_of(Oid table, AttrNumber column);

// The last value that a sequence has given, or the value before its first.
std::int64_t last_value(Oid sequence);

}  // namespace baton::pg
