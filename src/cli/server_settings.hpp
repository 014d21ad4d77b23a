#pragma once
// What the relay's file and command line say about its endpoints.

#include <string>
#include <vector>

#include "relay/config.hpp"
#include "server/access.hpp"

namespace baton::cli {

struct ServerSettings {
    std::string listen;  // empty: nowhere
    bool loopback = true;
    bool api = true;
    std::size_t connections = 4;
    std::string token_file;
    std::vector<server::TokenSource> tokens;
};

// `listen` and `token_file` are the command line's; empty: as the file says. Throws SettingsError, and
// UsageError when the tokens cannot be used.
ServerSettings read_server(const relay::Config& config, const std::string& listen,
                           const std::string& token_file);

}  // namespace baton::cli
