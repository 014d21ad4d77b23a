#pragma once
// Servers that come as jars: fetched once with Maven into a cache, then started from there without a network.

#include <filesystem>
#include <string>
#include <vector>

namespace baton::test {

// Return the folder with the jars of these "group:artifact:version" and of all that they need, fetching them
// when the cache
// (${XDG_CACHE_HOME:-~/.cache}/baton/NAME) does not have them. `name` carries the version. Throws Unavailable
// when they cannot be fetched.
std::filesystem::path fetch_jars(const std::string& name, const std::vector<std::string>& coordinates);

}  // namespace baton::test
