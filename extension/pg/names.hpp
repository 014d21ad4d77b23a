#pragma once
// Names of tables as callers write them.

#include "pg/guard.hpp"

namespace baton::pg {

// The table that a name means to the caller, where the name is written in small letters, digits and
// underscores, with a schema or without. InvalidOid for all other names, and where there is no such table.
// Throws ServerError when the caller may not look into the schema.
Oid plain_table(std::string_view name);

}  // namespace baton::pg
