#pragma once
// Which server a command talks to: --db, else BATON_DB, else the embedded server.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "postgres/connection.hpp"

namespace baton::cli {

struct Target {
    std::string db;                  // URL or connection string; empty when not given
    std::filesystem::path data_dir;  // of the embedded server; empty: the default folder
};

// Add --db and --data-dir to a command.
void add_target(CLI::App& command, Target& target);

// The connection string of the target. Throws Error when there is no server.
std::string find_server(const Target& target);
// Where find_server() finds the server, in words.
std::string describe(const Target& target);

// Connect to the target. Throws Error with a hint: unreachable, refused, or older than PostgreSQL 14.
// `answer`: how long the server may take for a statement.
postgres::Connection connect(const Target& target,
                             std::chrono::milliseconds answer = postgres::Patience::short_work);

}  // namespace baton::cli
