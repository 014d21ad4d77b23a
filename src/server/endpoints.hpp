#pragma once
// Everything that the API serves: the operations of the catalog, and what belongs to the server itself.

#include <vector>

#include "operations/operation.hpp"

namespace baton::server {

struct Endpoint {
    operations::Operation operation;  // of the server's own: without a statement
    operations::Json schema = {};     // of the answer; null: made from the operation's shape
    bool for_everybody = false;       // needs no right
    const char* type = "application/json";
};

// The server's own.
const std::vector<Endpoint>& own_endpoints();
// What is wrong with one setting of a pipeline.
operations::Json wrong_setting_schema();
// All of them; first those of the catalog.
const std::vector<Endpoint>& endpoints();

}  // namespace baton::server
