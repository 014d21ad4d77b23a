#pragma once
// The parts of a server's address, which is written as one line: scheme://user:password@host:port/path.

#include <string>
#include <string_view>

namespace baton::wire {

struct Url {
    std::string scheme;
    std::string user;
    std::string password;
    std::string host;
    int port = 0;      // 0: not given
    std::string path;  // without the leading slash; empty when not given
    bool has_path = false;
};

// Take an address apart; user, password and path are percent-decoded. Throws UsageError.
Url parse_url(std::string_view text);

}  // namespace baton::wire
