#pragma once
// What a query must not do, and what it reads.

#include "stream/compiler/operators.hpp"

namespace baton::stream {

// Throws SqlError for what no stream table may be.
void check_query(const Query* query);

// What a query reads, its views opened.
struct Reading {
    std::vector<Source> sources;
    std::vector<Query*> queries;         // the query itself, and the definitions of its views
    std::optional<std::string> problem;  // a table that the present user may not read, or sees only in part
};
Reading find_sources(Query* query);

// Throws NotDifferential for functions whose result may change while their arguments do not.
void check_functions(const std::vector<Query*>& queries);

}  // namespace baton::stream
