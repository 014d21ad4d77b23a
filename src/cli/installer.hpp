#pragma once
// Installing and upgrading baton in a database, in either form, in one transaction.

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "postgres/connection.hpp"

namespace baton::cli {

enum class Mode { automatic, extension, sql };

// Add --mode auto|extension|sql to a command.
void add_mode(CLI::App& command, Mode& mode);

// What a database holds.
struct Installed {
    std::string version;
    Mode form;  // extension or sql
};

// Find out what is installed; empty when nothing is.
std::optional<Installed> find_installed(postgres::Connection& db);

// Install this program's version, or upgrade to it; returns a sentence that says what was chosen and why.
// Throws Error with a hint, and changes nothing then: missing privileges, a standby, a schema `baton` of
// somebody else, a newer version, the other form. `tell` gets the server's notices.
std::string install(postgres::Connection& db, Mode mode, const std::function<void(const std::string&)>& tell);

}  // namespace baton::cli
