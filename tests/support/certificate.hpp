#pragma once
// A certificate for loopback that nobody but its own file vouches for.

#include <filesystem>

namespace baton::test {

struct Certificate {
    std::filesystem::path cert;
    std::filesystem::path key;
};

// Make one for 127.0.0.1 and localhost in this folder, readable by servers under other accounts.
Certificate make_certificate(const std::filesystem::path& folder);

}  // namespace baton::test
