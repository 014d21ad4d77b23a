#pragma once
// The embedded server: a private PostgreSQL with baton in the database `app`, which the role `app` owns.
// No schema has that name, so what the user makes without naming a schema lands in `public`.

#include <filesystem>

#include "cli/installer.hpp"
#include "cli/stop_signal.hpp"
#include "local_server/local_server.hpp"

namespace baton::cli {

inline constexpr const char* app_role = "app";
inline constexpr const char* app_database = "app";

struct EmbeddedOptions {
    std::filesystem::path folder;
    int port = 0;  // 0: the port that was used before, or a free port
    Mode mode = Mode::automatic;
};

// Where the embedded server lives unless told otherwise: /var/lib/baton for root, else below the user's state
// folder.
std::filesystem::path default_folder();

struct Embedded {
    local_server::LocalServer server;
    bool was_running;
};

// Make the server, start it and install baton; skip what is done already. After a failure the folder is as it
// was before. Throws Error when a stop is asked for in the middle.
Embedded bring_up(const EmbeddedOptions& options, const StopSignal& stop);

// The URL for the user's programs.
std::string app_url(const local_server::LocalServer& server);

}  // namespace baton::cli
