#pragma once
// What a query must not do, and what it reads.

#include "stream/compiler/operators.hpp"

namespace baton::stream {

// Throws SqlError for what no stream table may be.
void check_query(const Query* query);

// Throws NotDifferential for functions whose result may change while their arguments do not.
void check_functions(Query* query);

// Every table that the query reads, views opened. Throws NotDifferential for one that the present user may
// not read, or sees only in part.
std::vector<Source> find_sources(Query* query, std::optional<std::string>& problem);

}  // namespace baton::stream
