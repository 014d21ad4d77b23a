#pragma once
// The dashboard's files. A path that is none of them and looks like a page is the page itself, which knows
// its paths.

#include <httplib.h>

#include "server/asset.hpp"

namespace baton::server {

// Answer a request for a file or a page.
void serve_page(const std::vector<Asset>& assets, const httplib::Request& request,
                httplib::Response& response);

// What every answer of the API and every page says to browsers.
void add_safety_headers(httplib::Response& response);

}  // namespace baton::server
