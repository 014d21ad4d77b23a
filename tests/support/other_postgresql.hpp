#pragma once
// PostgreSQL of another version than the system's, for the plain form: programs from Maven Central's
// embedded-postgres, fetched once into the cache.

#include <filesystem>
#include <string>

namespace baton::test {

// Unpack the programs of this major version ("14") into `folder`, with the pgTAP of the system; returns where
// postgres, initdb and pg_ctl are. Throws Unavailable when they cannot be fetched.
std::filesystem::path unpack_postgresql(const std::string& major, const std::filesystem::path& folder);

}  // namespace baton::test
