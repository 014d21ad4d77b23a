#pragma once
// What a database's catalogs say about baton's schemas, to compare two installations.

#include <map>
#include <string>
#include <vector>

#include "postgres/connection.hpp"

namespace baton::test {

// Each property of each object with its value: definitions, bodies, columns, defaults, indexes, constraints,
// triggers, policies, comments, grants, membership in the extension, and the rows that the install scripts
// write.
using CatalogDescription = std::map<std::string, std::string>;

CatalogDescription describe_catalog(postgres::Connection& db);

// What differs, a line each; empty when the two are the same.
std::vector<std::string> differences(const CatalogDescription& expected, const CatalogDescription& found);

}  // namespace baton::test
