#pragma once
// The files of the dashboard, as they lie in the program: compressed, each with its type and its tag.

#include <string_view>
#include <vector>

namespace baton::server {

struct Asset {
    std::string_view path;  // /index.html
    std::string_view type;
    std::string_view etag;
    std::string_view gzip;
};

// Made from dashboard/dist when the program is built. Empty in a program that is built without the dashboard.
const std::vector<Asset>& dashboard_assets();

}  // namespace baton::server
