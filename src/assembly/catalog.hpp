#pragma once
// Pipelines that are kept in the database, by baton.set_pipeline().

#include <vector>

#include "postgres/connection.hpp"
#include "relay/settings.hpp"

namespace baton::assembly {

// The pipelines of the catalog that are enabled.
std::vector<relay::Settings> read_catalog(postgres::Connection& db);

}  // namespace baton::assembly
