#pragma once
// The API's description of itself, OpenAPI 3.1, made from the endpoints.

#include <string>

namespace baton::server {

// docs/openapi.json is the same text; a test compares.
const std::string& open_api();

}  // namespace baton::server
